"""The words by which the digest recognises what a user wants to be remembered: corrections, standing wishes and
preferences, and facts about the person. Written like the lists of ``language.phrases``.
"""

from collections.abc import Mapping

from layerlore.memory.language.phrases import Kind

# The speaker takes back or corrects an earlier statement.
CORRECTION = {
    "en": """
    i meant, i meant to, i had meant, correction, ^correcting, that's wrong, that is wrong, that's not right, that isn't
    right, that is not right, that's not correct, not correct, isn't correct, is incorrect, that's incorrect, got it
    wrong, got that wrong, name wrong, wrong name, wrong number, the wrong one, mixed up, mixing up, mixed them up, mixed it up, mixed those up, changed my mind, changed our mind, change my mind, scratch that,
    strike that, ^make that, ^make it, forget what i said, disregard, misspoke, mistyped, misread, misheard,
    misunderstood, my mistake, my bad, i was wrong, was mistaken, never said, didn't say, i didn't ask for, i told you,
    i already told you, change of plan, change of plans, is spelled, it's spelled, spelled with, no longer, not anymore,
    has changed, have changed, changed to, changed from, we moved, i moved, new address, new number, new email, should
    read, should have been, should be instead, ^to clarify, ^to be clear, you keep
    """,
    "de": """
    ich meinte, ich meine, gemeint war, korrektur, richtigstellung, stimmt nicht, das ist falsch, ^falsch, nicht richtig,
    nicht korrekt, verwechselt, anders überlegt, vertan, verschrieben, versprochen habe ich mich, mein fehler, ich habe mich geirrt, hab
    mich geirrt, nicht mehr, statt dessen, stattdessen, hat sich geändert, haben sich geändert, vergiss was, planänderung,
    neue adresse, neue nummer, ^genauer gesagt, ich sagte, ich habe gesagt
    """,
    "es": """
    quise decir, quería decir, me refería, corrección, ^corrijo, eso no es correcto, no es correcto, está mal, es
    incorrecto, me equivoqué, he cambiado de idea, he cambiado de opinión, cambié de opinión, te equivocas, te equivocaste, te has equivocado, me he equivocado, confundiste, mi error, ya no es, en lugar de,
    ha cambiado, cambió a, cambio de planes, olvida lo que dije, nueva dirección, nuevo número, dije que
    """,
    "fr": """
    je voulais dire, je parlais de, correction, ^rectification, c'est faux, ce n'est pas vrai, ce n'est pas correct, pas
    correct, changé d'avis, je me suis trompé, je me suis trompée, tu t'es trompé, vous vous êtes trompé, confondu, mon erreur, n'est plus, ne sont plus, au
    lieu de, a changé, ont changé, changement de plan, oublie ce que, nouvelle adresse, nouveau numéro, j'ai dit
    """,
    "it": """
    intendevo, volevo dire, correzione, ^rettifica, è sbagliato, non è corretto, non è giusto, ho cambiato idea, mi sono sbagliato, mi sono
    sbagliata, ti sei sbagliato, hai sbagliato, hai confuso, errore mio, non è più, invece di, è cambiato, è cambiata, cambio di programma,
    dimentica quello, nuovo indirizzo, nuovo numero, ho detto
    """,
    "pt": """
    quis dizer, queria dizer, na verdade, correção, ^corrigindo, está errado, está errada, não está certo, não está
    correto, mudei de ideia, me enganei, enganei me, eu errei, você confundiu, erro meu, não é mais, já não é, em vez de, mudou para,
    mudança de planos, esqueça o que, novo endereço, novo número, eu disse
    """,
    "nl": """
    ik bedoelde, ik bedoel, correctie, dat klopt niet, klopt niet, dat is fout, is onjuist, me bedacht, ik vergiste me, ik heb me
    vergist, je vergist je, verwisseld, mijn fout, niet meer, niet langer, in plaats van, is gewijzigd, is veranderd,
    vergeet wat, nieuw adres, nieuw nummer, ik zei
    """,
    "pl": """
    chodziło mi o, miałem na myśli, miałam na myśli, poprawka, ^sprostowanie, to nieprawda, to błąd, to nie tak, nie
    zgadza się, zmieniłem zdanie, zmieniłam zdanie, pomyliłem się, pomyliłam się, pomyliłeś, pomyliłaś, mój błąd, już nie, zamiast, zmienił się, zmieniła
    się, zmiana planów, nowy adres, nowy numer, mówiłem, mówiłam, powiedziałem, powiedziałam
    """,
    "ru": """
    имел в виду, имела в виду, исправление, ^поправка, это неверно, неверно, это неправильно, это не так, передумал, передумала, я ошибся, я
    ошиблась, ты ошибся, вы ошиблись, перепутал, перепутала, перепутали, моя ошибка, больше не, вместо, изменился,
    изменилась, изменилось, планы изменились, новый адрес, новый номер, я сказал, я сказала, я говорил
    """,
    "tr": """
    demek istedim, kastettim, düzeltme, düzeltiyorum, yanlış, doğru değil, karıştırdın, karıştırdınız, yanıldım, fikrimi değiştirdim, benim
    hatam, artık değil, yerine, değişti, plan değişti, yeni adres, yeni numara, dedim
    """,
}

# The same, if something is named that it is now.
AMENDING = {
    "en": """
    ^actually, ^sorry, ^wait, ^hold on, ^oops, ^hang on, ^rather, ^wrong, ^i said, i said,
    should be, rather than, instead of, it is actually, it's actually, is actually, ^strike, is the old, was the old, that's the old, my old, is history, is outdated, is obsolete
    """,
    "de": "^doch, ^eigentlich, ^sorry, ^entschuldigung, ^moment, ^halt, sollte, anstatt, statt, falsche, falschen",
    "es": "^en realidad, ^perdón, ^perdona, ^espera, debería ser, en vez de, equivocado, equivocada",
    "fr": "^en fait, ^pardon, ^désolé, ^désolée, ^attends, ^attendez, devrait être, plutôt que, mauvais, mauvaise",
    "it": "^in realtà, ^scusa, ^scusi, ^aspetta, dovrebbe essere, anziché, piuttosto che, sbagliato, sbagliata",
    "pt": "^desculpe, ^desculpa, ^espere, ^espera, deveria ser, ao invés de, errado, errada",
    "nl": "^eigenlijk, ^sorry, ^wacht, zou moeten zijn, verkeerde, verkeerd",
    "pl": "^właściwie, ^przepraszam, ^czekaj, powinno być, powinien być, błędny, zły",
    "ru": "^вообще то, ^извини, ^извините, ^подожди, ^подождите, должно быть, неправильный, неверный",
    "tr": "^aslında, ^pardon, ^bekle, olmalı, yanlıştı",
}

# Words for what a person always wants, never wants, or prefers.
WISH = {
    "en": """
    ^use, ^keep, ^stick to, ^stick with, ^reply, ^respond, ^answer in, ^answer with, ^speak, ^address me, ^call me,
    ^write in, ^be brief, ^be concise, ^be careful, ^be formal, ^be polite, ^treat, ^leave, have to, has to, ^just give, ^mandatory, ^compulsory, when in doubt, whatever you do, on anything, for anything, anything above, anything over, ^no, ^please no,
    please stop, ^refrain, refrain from, ^stop, i prefer, i'd prefer, i would prefer, we prefer, my preference, i'd
    rather, i would rather, i like it better, i hate, i don't want, i do not want, we don't, we do not, we never, we
    always, we only, i want you to, i'd like you to, i would like you to, i expect, i insist, going forward, in future,
    in the future, from here on, from today on, as of now, whenever, every time, each time, unless i, unless
    we, unless you, ask me before, ask me first, ask before, ask first, ask instead, check with me, let me know before, tell me
    before, ^before you, without asking, without my, without telling, my approval, my permission, my consent, for approval, needs
    approval, need approval, sign off, at most, no more than, not more than, no later than, nobody but, no one
    but, nobody except, no one except, only by, only with, only after, ^only, confidential, our policy, our rule, our
    convention, to always, to never, let's keep, let's stick, is fixed, won't accept, will not accept, not negotiable,
    for the rest of, as a rule, by default, without explanation, in english, in german, in french, in spanish, in
    italian, in bullet points
    """,
    "de": """
    ich möchte nicht, ich möchte keine, ich möchte keinen, ich will nicht, ich will keine, ich will keinen, dass du, dass
    sie mich, ich bevorzuge, ich mag lieber, lieber, am liebsten, bitte keine, bitte kein, bitte keinen, bitte immer, immer an, immer nur, immer per,
    bitte nie, ^keine, ^kein, ^keinen, ^halte, ^halt dich, ^frag mich, ^frag vorher, ^fragen sie, ^ruf mich, ^nenn mich,
    ^nenne mich, ^antworte, ^antworten sie, ^sprich, ^verwende, ^benutze, ^nutze, ^verwenden sie, in zukunft, künftig,
    zukünftig, von jetzt an, von nun an, jedes mal, immer wenn, ohne meine, ohne rückfrage, ohne zu fragen, ^bevor
    du, ^bevor sie, bevor du etwas, höchstens, maximal, nur noch, ^nur, vertraulich, du sollst, auf deutsch,
    auf englisch, wir verwenden nur, wir nutzen nur
    """,
    "es": """
    prefiero, preferimos, preferiría, ^sin, nada de, por favor no, en caso de duda, no quiero, no queremos, ^no me, quiero que, quisiera que, me
    gustaría que, de ahora en adelante, en adelante, de aquí en adelante, cada vez que, siempre que, llámame,
    pregúntame, consúltame, ^responde, ^responda, ^contesta, como máximo, como mucho, ^usa siempre, ^usa solo, ^usa el, ^usa la, ^utiliza,
    ^mantén, sin preguntar, sin mi, ^antes de, ^solo, ^sólo, odio, detesto, confidencial, en español, en inglés
    """,
    "fr": """
    je préfère, nous préférons, je préférerais, ^pas de, ^pas d, surtout pas, merci de ne, s'il vous plaît ne, en cas de doute, je ne veux pas, nous ne voulons pas, je
    veux que, je voudrais que, j'aimerais que, dorénavant, à partir de maintenant, à l'avenir, à chaque fois, chaque
    fois, appelle moi, appelez moi, ^demande moi, ^demandez moi, ^réponds, ^répondez, au maximum, au plus,
    ^utilise, ^utilisez, ^garde, ^gardez, sans me demander, sans mon, ^avant de, ^seulement, uniquement, je déteste,
    confidentiel, en français, en anglais, tutoie moi, vouvoyez moi
    """,
    "it": """
    preferisco, preferiamo, preferirei, ^niente, ^senza, per favore non, si prega di non, in caso di dubbio, non voglio, non vogliamo, voglio che, vorrei che, ogni volta,
    da ora in poi, d'ora in avanti, in futuro, chiamami, ^chiedimi, ^rispondi, ^risponda, al massimo, ^usa sempre, ^usa solo, ^usa il, ^usa la,
    ^utilizza, ^tieni, senza chiedere, senza il mio, ^prima di, ^solo, ^soltanto, odio, ^non mandarmi, ^non chiamarmi,
    ^non scrivermi, ^non inviarmi, ^non mi, riservato, in italiano, in inglese
    """,
    "pt": """
    prefiro, preferimos, preferiria, ^sem, nada de, por favor não, em caso de dúvida, não quero, não queremos, quero que, queria que, gostaria que, de
    agora em diante, daqui em diante, daqui para frente, no futuro, toda vez, cada vez que, sempre que, me chame,
    ^pergunte, ^responda, no máximo, ^use, ^mantenha, sem perguntar, sem minha, ^antes de, ^só, ^somente,
    ^apenas, odeio, detesto, ^não me, confidencial, em português, em inglês
    """,
    "nl": """
    ik wil niet, ik wil geen, ik wil dat, ik heb liever, liever, ik verkies, voortaan, in het vervolg, in de toekomst,
    ^geen, alsjeblieft niet, alsjeblieft geen, graag niet, bij twijfel, elke keer, telkens, iedere keer, noem me, noem mij, ^vraag me, ^vraag mij, ^vraag eerst, ^antwoord,
    maximaal, hoogstens, ^gebruik, ^houd, ^hou, ^stuur me geen, ^stuur me nooit, ^bel me niet, ^bel me nooit,
    zonder mijn, zonder te vragen, ^voordat je, ^alleen, ik haat, vertrouwelijk, in het nederlands, in het engels
    """,
    "pl": """
    wolę, wolimy, wolałbym, wolałabym, nie chcę, nie chcemy, chcę żebyś, żebyś, ^bez, proszę nie, w razie wątpliwości, żadnych, żadnej, od tej pory, w
    przyszłości, za każdym razem, zawsze gdy, mów mi, mów do mnie, ^pytaj, ^zapytaj, ^odpowiadaj, ^odpowiedz, maksymalnie,
    najwyżej, ^używaj, ^trzymaj, bez pytania, bez mojej, ^zanim, ^tylko, nienawidzę, ^nie dzwoń, ^nie
    pisz, poufne, po polsku, po angielsku
    """,
    "ru": """
    предпочитаю, предпочитаем, предпочёл бы, предпочла бы, не хочу, не хотим, чтобы ты, чтобы вы, ^без, пожалуйста не, в случае сомнений, никаких, впредь,
    с этого момента, с сегодняшнего дня, в будущем, каждый раз, всегда когда, называй меня, называйте меня, зови меня,
    ^спрашивай, ^спрашивайте, сначала спроси, ^отвечай, ^отвечайте, максимум, не более, ^используй,
    ^используйте, без моего, без спроса, ^прежде чем, ^только, ненавижу, ^не звони, ^не звоните, ^не пиши, ^не пишите,
    ^не присылай, ^не присылайте, конфиденциально, по русски, по английски
    """,
    "tr": """
    tercih ederim, tercih ediyorum, tercih ederiz, istemiyorum, istemiyoruz, istemem, bundan böyle, gelecekte, her
    seferinde, her zaman, ne zaman, bana hitap, cevap ver, yanıt ver, cevapla, en fazla, kullan, önce sor, bana
    sor, sormadan, iznim olmadan, sadece, yalnızca, nefret ederim, arama, yazma, gönderme, gizli, türkçe
    """,
}

# Words for the traits of a person, a customer or a matter: who, where, what number, until when, for how much.
FACT = {
    "en": """
    my name, name is, named, called, i'm called, goes by, allergic, allergy, allergies, intolerant, intolerance,
    vegetarian, vegan, gluten, lactose, halal, kosher, diabetic, asthma, pregnant, coeliac, celiac, wheelchair,
    medication, diagnosed, disability, order number, order no, order id, account number, account no, customer number,
    customer no, customer id, phone number, invoice number, serial, passport, my address, our address, address is, my
    email, email is, my phone, reach me, my birthday, i live, we live, i work, we work, i was born, born in, born on,
    years old, my wife, my husband, my son, my daughter, my partner, my mother, my father, my mum, my mom, my dad, my
    sister, my brother, my kids, my children, my boss, my manager, my team, my company, our company, our team, my
    doctor, my account, our account, my flight, my car, my dog, my cat, my timezone, my budget, our budget, budget, my size, my favourite, my favorite,
    deadline, due by, due on, due date, can spend, could spend, the customer, our customer, the client, our client, contact is, expires,
    belongs to, owner is, owned by, located, i use, we use, i own, we own, i have, we have, i've got, we've got, we are, password hint
    """,
    "de": """
    ich heiße, mein name, namens, allergisch, allergie, unverträglichkeit, vegetarier, vegetarierin, vegetarisch, vegan,
    veganer, veganerin, glutenfrei, laktosefrei, diabetiker, diabetikerin, schwanger, rollstuhl, medikament,
    medikamente, bestellnummer, kundennummer, kontonummer, rechnungsnummer, seriennummer, telefonnummer, meine adresse, meine größe,
    unsere adresse, adresse, ich wohne, wir wohnen, ich arbeite, geboren, jahre alt, meine frau, mein mann, mein sohn,
    meine tochter, meine mutter, mein vater, meine schwester, mein bruder, meine kinder, mein chef, meine chefin, mein
    team, unsere firma, budget, frist, spätestens, fällig, stichtag, der kunde, die kundin, ansprechpartner,
    ansprechpartnerin, erreichbar, gehört
    """,
    "es": """
    me llamo, mi nombre, se llama, alérgico, alérgica, alergia, intolerante, vegetariano, vegetariana, vegano, vegana,
    celíaco, celíaca, diabético, diabética, embarazada, silla de ruedas, número de pedido, número de cliente, número de cuenta, mi dirección, mi talla, preferido, preferida, favorito, favorita,
    nuestra dirección, dirección, mi correo, mi teléfono, vivo en, vivimos, trabajo en, nací, mi mujer, mi
    marido, mi hijo, mi hija, mi madre, mi padre, mi hermana, mi hermano, mi jefe, presupuesto, plazo, fecha límite, vence, el
    cliente, la clienta
    """,
    "fr": """
    je m'appelle, mon nom, s'appelle, allergique, allergie, intolérant, intolérante, végétarien, végétarienne, végan,
    cœliaque, diabétique, enceinte, fauteuil roulant, numéro de commande, numéro de client, numéro de compte, mon adresse, ma taille, préféré, préférée, notre adresse, adresse,
    mon courriel, mon téléphone, j'habite, nous habitons, je travaille, né le, née le, ma femme, mon mari, mon fils, ma fille, ma
    mère, mon père, ma sœur, mon frère, mon chef, budget, échéance, date limite, avant le, le client, la cliente
    """,
    "it": """
    mi chiamo, il mio nome, si chiama, allergico, allergica, allergia, intollerante, vegetariano, vegetariana, vegano,
    vegana, celiaco, celiaca, diabetico, diabetica, incinta, sedia a rotelle, numero d'ordine, numero cliente, numero di conto, il mio
    indirizzo, indirizzo, la mia email, la mia taglia, preferito, preferita, il mio telefono, vivo a, viviamo, abito, lavoro per, nato, nata, mia moglie, mio marito, mio figlio, mia
    figlia, mia madre, mio padre, mia sorella, mio fratello, il mio capo, budget, scadenza, entro il, il cliente, la cliente
    """,
    "pt": """
    meu nome, me chamo, chama se, alérgico, alérgica, alergia, intolerante, vegetariano, vegetariana, vegano, vegana,
    celíaco, celíaca, diabético, diabética, grávida, cadeira de rodas, número do pedido, número de cliente, número da conta, meu
    endereço, nosso endereço, endereço, meu email, meu tamanho, preferido, preferida, favorito, favorita, meu telefone, moro, moramos, trabalho em, trabalho na, nasci, minha mulher,
    minha esposa, meu marido, meu filho, minha filha, minha mãe, meu pai, minha irmã, meu irmão, meu chefe, orçamento, prazo, vence, o cliente, a
    cliente
    """,
    "nl": """
    mijn naam, ik heet, heet, allergisch, allergie, vegetariër, vegetarisch, veganist, glutenvrij, lactosevrij,
    diabeet, zwanger, rolstoel, bestelnummer, klantnummer, rekeningnummer, ordernummer, mijn adres, ons adres, adres, mijn mail, mijn maat, favoriete,
    mijn telefoon, ik woon, wij wonen, ik werk, geboren, jaar oud, mijn vrouw, mijn man, mijn zoon, mijn dochter, mijn moeder, mijn
    vader, mijn zus, mijn broer, mijn baas, budget, uiterlijk, de klant
    """,
    "pl": """
    nazywam się, mam na imię, imię, uczulony, uczulona, alergia, alergię, wegetarianin, wegetarianką, wegetarianka,
    weganin, weganką, cukrzyk, w ciąży, wózek inwalidzki, numer zamówienia, numer klienta, numer konta, mój adres, nasz adres, adres, mój telefon, mój rozmiar, ulubiony, ulubiona,
    mieszkam, mieszkamy, pracuję, urodziłem, urodziłam, moja żona, mój mąż, mój syn, moja córka, moja matka, mój
    ojciec, moja siostra, mój brat, mój szef, budżet, termin, najpóźniej, klient, klientka
    """,
    "ru": """
    меня зовут, моё имя, мое имя, зовут, аллергия, вегетарианец, вегетарианка, веган, диабет, диабетик, беременна,
    инвалидная коляска, номер заказа, номер клиента, номер счёта, номер счета, мой адрес, наш адрес, адрес, моя почта, мой размер, любимый, любимая, мой телефон, живу,
    живём, работаю, родился, родилась, моя жена, мой муж, мой сын, моя дочь, моя мама, мой папа, моя сестра,
    мой брат, мой начальник, бюджет, срок, крайний срок, не позднее, клиент
    """,
    "tr": """
    adım, ismim, alerjim, alerjisi, alerjik, vejetaryenim, veganım, çölyak, diyabet, hamileyim, tekerlekli sandalye, sipariş numaram, sipariş
    numarası, müşteri numaram, müşteri numarası, hesap numaram, adresim, adresimiz, e postam, bedenim, en sevdiğim, telefonum, yaşıyorum,
    yaşıyoruz, çalışıyorum, doğdum, yaşındayım, eşim, oğlum, kızım, annem, babam, ablam, abim, kardeşim, müdürüm,
    bütçem, bütçemiz, bütçe, son tarih, müşteri
    """,
}

# Words that begin like one of these and have another meaning.
IDLE = """
i have to, we have to, i'd have to, i'll have to, don't have to, doesn't have to, do not have to, didn't have to, will have to, would have to, might have to, have to say, have to admit, ^no problem, ^no problems, ^no worries, ^no worry, ^no idea, ^no thanks, ^no thank, ^no luck, ^no need, ^no rush, ^no
doubt, ^no way, ^no clue, ^no wonder, ^no hurry, ^no big deal, ^no kidding, ^no offense, ^no offence, ^no pressure, ^no
sweat, ^no surprise, ^no results, ^no result, ^no response, ^no reply, ^no answer, ^no change, ^no changes, ^no other,
^no further, ^no i, ^no it, ^no its, ^no that, ^no we, ^no you, ^no there, ^keep going, ^keep it up, ^keep up, ^keep me
posted, ^keep me updated, ^keep calm, ^keep trying, ^stop it, ^stop here, ^^call me
back, ^call me when, ^use it, ^not sure, ^not yet, ^not really, ^not bad, ^not at all, ^not much, ^not a problem, ^not
now, ^not that, ^not only, ^not just, ^not quite, ^not necessarily, ^not even, ^wait for,
^wait until, ^rather not, ^sorry for, ^sorry about, ^sorry to, ^keine ahnung, ^kein problem, ^keine sorge, ^keine
ursache, ^keine zeit, ^kein ding, ^keine eile, ^sin problema, ^sin duda, ^pas de problème, ^pas de souci, ^pas de soucis,
^pas d'accord, ^niente di, ^senza dubbio, ^sem problema, ^sem dúvida, ^geen probleem, ^geen idee, ^geen zorgen, ^bez
problemu, ^bez obaw, ^без проблем, ^только что
"""

# A word that denies, and those that say after it what is so instead.
INSTEAD: Mapping[str, frozenset[str]] = {
    "not": frozenset({"but"}),
    "isn": frozenset({"but"}),
    "nicht": frozenset({"sondern"}),
    "kein": frozenset({"sondern"}),
    "keine": frozenset({"sondern"}),
    "no": frozenset({"sino"}),
    "pas": frozenset({"mais"}),
    "non": frozenset({"ma", "bensì", "mais"}),
    "não": frozenset({"mas"}),
    "niet": frozenset({"maar"}),
    "geen": frozenset({"maar"}),
    "nie": frozenset({"tylko", "lecz", "ale", "a"}),
    "не": frozenset({"а"}),
    "değil": frozenset(),
}
# Words after a denial that corrects nothing: *not only*, *, not sure*.
LOOSE = frozenset(
    """
    only just sure yet really bad even at necessarily nice good great too so very as what that because if when always fun easy
    possible ideal urgent important like much many enough being having this it i you we they nur
    solo sólo seulement soltanto só apenas alleen tylko только mi wirklich so sehr mehr noch wahr
    """.split()  # noqa: SIM905
)

UNSPACED_TELLING: dict[Kind, str] = {
    "correction": "而是 说错 弄错 搞错 更正 应该是 應該是 ではなく じゃなくて 間違え 訂正 아니라 틀렸 정정 ไม่ใช่ แก้ไข",
    "wish": "以后请 以後請 从现在开始 從現在開始 今后 请用 請用 更喜欢 これからは 今後 の方が好き してほしい 앞으로는 말고 하지 마 선호 จากนี้ อย่า ชอบ",
    "fact": "我叫 我的名字 过敏 過敏 预算 預算 截止 订单号 訂單 地址 と申します 名前は アレルギー 予算 締め切り 住所 제 이름 알레르기 예산 마감 주소 ชื่อ แพ้ งบประมาณ",
}
