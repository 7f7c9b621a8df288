"""The words by which the digest recognises what a sentence does, by language: those of ``stop_words``, and a few
phrases for scripts that put no space between words.

A phrase is written as words with commas between phrases. One that begins with ``^`` counts only where a clause begins:
*never push* forbids, *I have never been there* does not. The longest phrase that begins at a word counts, so
that ``NOTHING`` can take back what a shorter one says: *don't worry*, *must have been*.
"""

from typing import Literal

Kind = Literal[
    "rule",
    "ask",
    "self",
    "decision",
    "error",
    "done",
    "open",
    "when",
    "polite",
    "announced",
    "nothing",
    "correction",
    "amending",
    "wish",
    "fact",
]

RULE = {
    "en": """
    ^never, ^always, ^don't, ^do not, ^avoid, ^remember, ^make sure, ^be sure, ^ensure, ^only use, ^only ever, ^only
    reply, ^only answer, ^stop using, must, mustn't, must not, must never, must always, should never, should always,
    shouldn't ever, may never, may not, can only, may only, never ever, under no circumstances, not allowed, aren't allowed, forbidden, prohibited,
    off limits, keep in mind, don't forget, do not forget, from now on, at all costs, no matter what, is required, are
    required, is mandatory, are mandatory, please don't, please never, please always, please remember
    """,
    "de": """
    niemals, ^nie, ^immer, ^merk dir, ^merke dir, ^denk daran, ^denk dran, ^achte darauf, ^bitte nicht, vergiss nicht,
    auf keinen fall, unter keinen umständen, darf, darfst, dürfen, nicht erlaubt, verboten, untersagt, muss, musst,
    müssen, unbedingt, ab sofort, ab jetzt
    """,
    "es": """
    ^nunca, jamás, ^siempre, nunca debe, no debe, no debes, no deben, no se debe, no se puede, no hay que, ^no uses,
    ^no hagas, ^no borres, ^no toques, ^no envíes, no olvides, no te olvides, prohibido, prohibida, debe, debes,
    deben, hay que, tiene que, tienen que, ^recuerda, ten en cuenta, asegúrate, ^evita, obligatorio, bajo ningún
    concepto, a partir de ahora
    """,
    "fr": """
    ^jamais, ^ne jamais, ^toujours, ne jamais, ^n'utilise, ^n'utilisez, ^ne touche, ^ne touchez, ^ne supprime, ^ne
    supprimez, ne doit, ne doivent, ne dois, ne pas, n'oublie pas, n'oubliez pas, interdit, interdite, doit, doivent,
    tu dois, il faut, ^souviens toi, ^rappelle toi, ^évite, ^évitez, assure toi, assurez vous, obligatoire, en aucun
    cas, désormais
    """,
    "it": """
    ^mai, ^non usare, ^non fare, ^non toccare, ^non cancellare, ^non inviare, non dimenticare, ^sempre, non deve, non
    devono, non devi, non si deve, non si può, vietato, vietata, proibito, deve, devono, devi, bisogna, ^ricorda,
    ricordati, tieni presente, assicurati, ^evita, obbligatorio, in nessun caso, d'ora in poi
    """,
    "pt": """
    ^nunca, jamais, ^sempre, ^não use, ^não faça, ^não apague, ^não envie, ^não mexa, não deve, não devem, não pode,
    não podem, não esqueça, não se esqueça, proibido, proibida, deve, devem, tem que, têm que, é preciso, ^lembre,
    lembre se, certifique se, ^evite, obrigatório, de jeito nenhum, em hipótese alguma, a partir de agora
    """,
    "nl": """
    ^nooit, ^altijd, ^gebruik nooit, ^gebruik geen, ^niet, mag niet, mogen niet, mag nooit, mag geen, niet toegestaan,
    verboden, moet, moeten, vergeet niet, ^onthoud, ^denk eraan, ^zorg dat, ^zorg ervoor, ^vermijd, verplicht, beslist
    niet, onder geen beding, in geen geval, vanaf nu
    """,
    "pl": """
    ^nigdy, ^zawsze, ^nie używaj, ^nie rób, ^nie usuwaj, ^nie ruszaj, ^nie wysyłaj, nie wolno, nie może, nie mogą,
    zabronione, zakazane, musi, muszą, musisz, należy, trzeba, ^pamiętaj, nie zapomnij, ^upewnij się, ^unikaj,
    obowiązkowo, koniecznie, pod żadnym pozorem, od teraz
    """,
    "ru": """
    ^никогда, ^всегда, нельзя, ^не надо, ^не нужно, ^не используй, ^не используйте, ^не удаляй, ^не удаляйте, ^не
    трогай, ^не трогайте, не забудь, не забудьте, запрещено, запрещается, обязательно, должен, должна, должно, должны,
    ^помни, ^запомни, ^запомните, ^убедись, ^избегай, ни в коем случае, отныне
    """,
    "tr": """
    asla, sakın, kesinlikle, ^her zaman, ^daima, yasak, yasaktır, zorunlu, zorunludur, zorunda, gerekir, olmamalı,
    olmalı, yapma, kullanma, silme, unutma, unutmayın, ^hatırla, hiçbir koşulda, bundan sonra
    """,
}

ASK = {
    "en": """
    please, can you, could you, would you, will you, can we, could we, can i, could i, ^help me, please help, i need,
    i want, i'd like, i'd also like, i would like, we need, i'm trying to, i am trying to, i'm looking for, show me,
    tell me, give me, let me know, ^what, ^why, ^how, ^when will, ^where, ^which, ^who, ^add, ^book, ^build, ^change,
    ^check, ^compare, ^convert, ^create, ^delete, ^deploy, ^describe, ^draft, ^explain, ^find, ^fix, ^generate,
    ^implement, ^install, ^list, ^look up, ^make, ^move, ^order, ^plan, ^read, ^rebuild, ^refactor, ^remind, ^remove,
    ^rename, ^replace, ^review, ^run, ^schedule, ^search, ^send, ^set up, ^summarize, ^summarise, ^test, ^translate,
    ^try, ^update, ^upgrade, ^use, ^write
    """,
    "de": """
    bitte, kannst du, könntest du, können sie, könnten sie, können wir, kann ich, hilf mir, ich brauche, ich möchte,
    ich will, ich suche, wir brauchen, zeig mir, sag mir, gib mir, ^wie, ^warum, ^wann, ^wo, ^welche, ^welcher, ^wer,
    ^was, ^mach, ^erstelle, ^schreib, ^schreibe, ^baue, ^ändere, ^prüfe, ^finde, ^such, ^suche, ^erkläre, ^lösche,
    ^füge, ^starte, ^teste, ^aktualisiere, ^buche, ^plane, ^schick, ^übersetze
    """,
    "es": """
    por favor, puedes, podrías, puede usted, podemos, ayúdame, necesito, quiero, quisiera, me gustaría, busco,
    necesitamos, muéstrame, dime, dame, ^cómo, ^por qué, ^cuándo, ^dónde, ^cuál, ^quién, ^qué, ^haz, ^crea, ^escribe,
    ^añade, ^cambia, ^comprueba, ^revisa, ^busca, ^explica, ^borra, ^ejecuta, ^actualiza, ^reserva, ^envía, ^arregla,
    ^traduce
    """,
    "fr": """
    s'il te plaît, s'il vous plaît, peux tu, tu peux, pourrais tu, pouvez vous, pourriez vous, peut on, aide moi, j'ai
    besoin, je veux, je voudrais, j'aimerais, je cherche, nous avons besoin, montre moi, dis moi, donne moi, ^comment,
    ^pourquoi, ^quand, ^où, ^quel, ^quelle, ^qui, ^ajoute, ^crée, ^écris, ^change, ^vérifie, ^cherche, ^explique,
    ^supprime, ^lance, ^corrige, ^réserve, ^envoie, ^traduis
    """,
    "it": """
    per favore, per piacere, puoi, potresti, può, potrebbe, possiamo, aiutami, ho bisogno, voglio, vorrei, mi serve,
    cerco, abbiamo bisogno, mostrami, dimmi, dammi, ^come, ^perché, ^quando, ^dove, ^quale, ^chi, ^aggiungi, ^crea,
    ^scrivi, ^cambia, ^controlla, ^cerca, ^spiega, ^cancella, ^esegui, ^aggiorna, ^prenota, ^invia, ^correggi,
    ^traduci
    """,
    "pt": """
    por favor, pode, poderia, você pode, podes, podemos, me ajude, ajuda me, preciso, quero, queria, gostaria,
    procuro, precisamos, mostre me, me mostre, me diga, me dê, ^como, ^por que, ^quando, ^onde, ^qual, ^quem,
    ^adicione, ^crie, ^escreva, ^mude, ^verifique, ^procure, ^explique, ^apague, ^execute, ^atualize, ^reserve,
    ^envie, ^corrija, ^traduza
    """,
    "nl": """
    alsjeblieft, alstublieft, graag, kun je, kan je, zou je, kunt u, kunnen we, help me, ik wil, ik zoek, ik heb
    nodig, we hebben nodig, laat me zien, zeg me, geef me, ^hoe, ^waarom, ^wanneer, ^waar, ^welke, ^wie, ^wat, ^maak,
    ^schrijf, ^voeg, ^wijzig, ^controleer, ^zoek, ^leg uit, ^verwijder, ^voer, ^update, ^boek, ^stuur, ^herstel,
    ^vertaal
    """,
    "pl": """
    proszę, możesz, mógłbyś, mogłabyś, czy możesz, czy możemy, pomóż mi, potrzebuję, chcę, chciałbym, chciałabym,
    szukam, potrzebujemy, pokaż, powiedz, podaj, ^jak, ^dlaczego, ^kiedy, ^gdzie, ^który, ^kto, ^co, ^czy, ^dodaj,
    ^utwórz, ^napisz, ^zmień, ^sprawdź, ^znajdź, ^wyjaśnij, ^usuń, ^uruchom, ^zaktualizuj, ^zarezerwuj, ^wyślij,
    ^napraw, ^przetłumacz
    """,
    "ru": """
    пожалуйста, можешь, можете, мог бы, не могли бы, можно ли, помоги, помогите, мне нужно, мне нужен, мне нужна,
    хочу, хотел бы, ищу, нам нужно, покажи, покажите, скажи, скажите, дай, дайте, ^как, ^почему, ^когда, ^где, ^какой,
    ^кто, ^что, ^добавь, ^создай, ^напиши, ^измени, ^проверь, ^найди, ^объясни, ^удали, ^запусти, ^обнови,
    ^забронируй, ^отправь, ^исправь, ^переведи
    """,
    "tr": """
    lütfen, misin, mısın, musun, müsün, misiniz, mısınız, yardım et, ihtiyacım var, istiyorum, arıyorum, ihtiyacımız
    var, göster, söyle, bana ver, ^nasıl, ^neden, ^niçin, ^ne zaman, ^nerede, ^hangi, ^kim, ^ne, ekle, oluştur, yaz,
    değiştir, kontrol et, bul, açıkla, sil, çalıştır, güncelle, gönder, düzelt, çevir
    """,
}

# Words of a speaker about himself; the second line is for lasting facts.
SELF = {
    "en": "i, my, me, mine, myself, we, our, us",
    "de": "ich, mein, meine, meinen, meinem, meiner, mir, mich, wir, unser, unsere",
    "es": "yo, mi, mis, soy, estoy, tengo, vivo, trabajo, prefiero, nuestro, nuestra, me gusta, me llamo",
    "fr": "je, j, mon, ma, mes, moi, nous, notre, nos",
    "it": "io, mio, mia, miei, mie, sono, ho, vivo, lavoro, preferisco, noi, nostro, nostra, mi chiamo, mi piace",
    "pt": "eu, meu, minha, meus, minhas, sou, estou, tenho, moro, trabalho, prefiro, nós, nosso, nossa",
    "nl": "ik, mijn, mij, wij, ons, onze",
    "pl": "mój, moja, moje, jestem, mam, mnie, mieszkam, pracuję, wolę, nasz, nasza, nasze",
    "ru": "я, мой, моя, моё, мои, меня, мне, у меня, мы, наш, наша, нас",
    "tr": "ben, benim, bana, beni, biz, bizim, adım, yaşıyorum, çalışıyorum, seviyorum",
}

DECISION = {
    "en": """
    decided, decide on, decision, agreed, we will, we'll, let's, i'll go with, let's go with, we chose, i chose, go
    ahead, approved, settled on, sticking with, switching to, we're going with, the plan is, instead of
    """,
    "de": "entschieden, beschlossen, entscheidung, vereinbart, einverstanden, wir werden, wir nehmen, ich nehme, lass uns",
    "es": "decidido, decidimos, decidí, decisión, acordado, acordamos, de acuerdo, vamos a, elegimos, aprobado",
    "fr": "décidé, décidons, décision, convenu, d'accord, nous allons, on va, choisi, approuvé",
    "it": "deciso, decidiamo, decisione, concordato, d'accordo, faremo, andiamo con, scelto, approvato",
    "pt": "decidido, decidimos, decidi, decisão, combinado, de acordo, vamos, escolhemos, aprovado",
    "nl": "besloten, beslissing, afgesproken, akkoord, we gaan, we nemen, laten we, gekozen, goedgekeurd",
    "pl": "zdecydowano, zdecydowaliśmy, zdecydowałem, decyzja, ustalone, ustaliliśmy, zgoda, zróbmy, wybraliśmy, zatwierdzone",
    "ru": "решили, решил, решила, решено, решение, договорились, согласен, согласна, давай, давайте, выбрали, утверждено",
    "tr": "karar verdik, karar verdim, karar, anlaştık, kararlaştırdık, seçtik, onaylandı, hadi",
}

ERROR = {
    "en": """
    error, errors, failed, fails, failing, failure, exception, traceback, crash, crashed, crashes, broken, timeout,
    timed out, refused, denied, unauthorized, invalid, doesn't work, does not work, didn't work, not working, bug,
    can't, cannot, could not, couldn't, failed to, unable to, blocked
    """,
    "de": "fehler, fehlgeschlagen, scheitert, gescheitert, abgestürzt, kaputt, abgelehnt, ungültig, funktioniert nicht, geht nicht",
    "es": "error, errores, falló, falla, fallo, fallan, excepción, roto, rechazado, denegado, inválido, no funciona, no puedo",
    "fr": "erreur, erreurs, échoué, échoue, échec, exception, cassé, refusé, invalide, ne marche pas, ne fonctionne pas",
    "it": "errore, errori, fallito, fallisce, eccezione, rotto, rifiutato, negato, non valido, non funziona",
    "pt": "erro, erros, falhou, falha, exceção, quebrado, recusado, negado, inválido, não funciona",
    "nl": "fout, fouten, mislukt, faalt, gecrasht, kapot, geweigerd, ongeldig, werkt niet, lukt niet",
    "pl": "błąd, błędy, błędem, nieudane, nie powiodło, wyjątek, zepsute, odmowa, odrzucono, nieprawidłowy, nie działa",
    "ru": "ошибка, ошибки, ошибку, ошибкой, сбой, исключение, упал, упала, сломан, сломалось, отказано, не работает",
    "tr": "hata, hatası, hatalar, başarısız, çöktü, bozuk, reddedildi, geçersiz, çalışmıyor",
}

DONE = {
    "en": """
    done, fixed, passed, passes, passing, deployed, finished, completed, merged, shipped, released, resolved, solved,
    published, rebuilt, works now, is working, confirmed, succeeded, succeeds, successfully, booked, submitted,
    delivered, renewed, migrated
    """,
    "de": "erledigt, fertig, behoben, bestanden, ausgerollt, abgeschlossen, gelöst, veröffentlicht, funktioniert jetzt, erfolgreich, gebucht",
    "es": "hecho, listo, arreglado, corregido, desplegado, terminado, completado, resuelto, publicado, funciona ahora, reservado",
    "fr": "fait, fini, corrigé, réparé, déployé, terminé, résolu, publié, marche maintenant, réussi, réservé",
    "it": "fatto, finito, corretto, risolto, completato, distribuito, pubblicato, funziona ora, riuscito, prenotato",
    "pt": "feito, pronto, corrigido, resolvido, concluído, terminado, implantado, publicado, funciona agora, reservado",
    "nl": "klaar, gedaan, opgelost, gerepareerd, geslaagd, uitgerold, afgerond, voltooid, gepubliceerd, werkt nu, geboekt",
    "pl": "gotowe, zrobione, naprawione, naprawiony, zakończone, wdrożone, wdrożony, rozwiązane, opublikowane, działa już, zarezerwowane",
    "ru": "готово, сделано, исправлено, исправил, исправила, завершено, закончил, закончила, решена, опубликовано, развернуто, развёрнуто, заработало",
    "tr": "tamam oldu, bitti, tamamlandı, düzeltildi, çözüldü, yayınlandı, dağıtıldı, geçti, hazır",
}

# Beside a word of DONE: it is not done, or not yet.
OPEN = {
    "en": """
    not, t, if, once, when, until, unless, should, will, would, could, might, almost, nearly, before, yet, never, can
    be, cannot be, need, needs, after
    """,
    "de": "nicht, noch, wenn, sobald, falls, bis, sollte, wird, werden, würde, fast, bevor, nie",
    "es": "no, aún, todavía, si, cuando, hasta, debería, será, casi, antes, nunca",
    "fr": "pas, ne, si, quand, dès, jusqu, devrait, sera, presque, avant, jamais",
    "it": "non, ancora, se, quando, finché, dovrebbe, sarà, quasi, prima, mai",
    "pt": "não, ainda, se, quando, até, deveria, será, quase, antes, nunca",
    "nl": "niet, nog, als, zodra, wanneer, totdat, zou, zal, bijna, voordat, nooit",
    "pl": "nie, jeszcze, jeśli, gdy, kiedy, dopóki, powinno, będzie, prawie, zanim, nigdy",
    "ru": "не, ещё, еще, если, когда, пока, будет, почти, прежде, никогда",
    "tr": "değil, henüz, eğer, olunca, kadar, olacak, neredeyse, önce",
}

# Days and months by name, and days as seen from today; none that is more often something else (may, mars, set).
WHEN = {
    "en": """
    monday, tuesday, wednesday, thursday, friday, saturday, sunday, january, february, march, april, june, july,
    august, september, october, november, december, today, tomorrow, yesterday, tonight, last week, next week, last
    month, next month, last year, next year, this week, this weekend, last weekend, next weekend, this morning,
    deadline, birthday, weeks ago, days ago, months ago, years ago, week ago, month ago, year ago, last night
    """,
    "de": """
    montag, dienstag, mittwoch, donnerstag, freitag, samstag, sonntag, januar, februar, märz, juni, juli, oktober,
    dezember, heute, morgen, gestern, übermorgen, vorgestern, nächste woche, letzte woche, nächsten monat, letztes
    jahr, geburtstag
    """,
    "es": """
    lunes, martes, miércoles, jueves, viernes, sábado, domingo, enero, febrero, marzo, abril, mayo, junio, julio,
    agosto, septiembre, octubre, noviembre, diciembre, hoy, mañana, ayer, la semana, el mes que viene, el año pasado,
    cumpleaños
    """,
    "fr": """
    lundi, mardi, mercredi, jeudi, vendredi, samedi, dimanche, janvier, février, avril, juin, juillet, août,
    septembre, octobre, novembre, décembre, aujourd'hui, demain, hier, semaine prochaine, semaine dernière, mois
    prochain, anniversaire
    """,
    "it": """
    lunedì, martedì, mercoledì, giovedì, venerdì, sabato, domenica, gennaio, febbraio, marzo, aprile, maggio, giugno,
    luglio, settembre, ottobre, dicembre, oggi, domani, ieri, la settimana, il mese prossimo, l'anno scorso,
    compleanno
    """,
    "pt": """
    segunda feira, terça feira, quarta feira, quinta feira, sexta feira, janeiro, fevereiro, março, maio, junho,
    julho, setembro, outubro, novembro, dezembro, hoje, amanhã, ontem, semana passada, próxima semana, mês que vem,
    aniversário
    """,
    "nl": """
    maandag, dinsdag, woensdag, donderdag, vrijdag, zaterdag, zondag, januari, februari, maart, mei, juni, juli,
    augustus, oktober, vandaag, morgen, gisteren, volgende week, vorige week, volgende maand, vorig jaar, verjaardag
    """,
    "pl": """
    poniedziałek, wtorek, środa, środę, czwartek, piątek, sobota, sobotę, niedziela, niedzielę, stycznia, lutego,
    marca, kwietnia, maja, czerwca, lipca, sierpnia, września, października, listopada, grudnia, dziś, dzisiaj, jutro,
    wczoraj, w przyszłym tygodniu, w zeszłym tygodniu, urodziny
    """,
    "ru": """
    понедельник, вторник, среда, среду, четверг, пятница, пятницу, суббота, субботу, воскресенье, января, февраля,
    марта, апреля, мая, июня, июля, августа, сентября, октября, ноября, декабря, сегодня, завтра, вчера, на следующей
    неделе, на прошлой неделе, день рождения
    """,
    "tr": """
    pazartesi, salı, çarşamba, perşembe, cuma, cumartesi, ocak, şubat, nisan, mayıs, haziran, temmuz, ağustos, eylül,
    ekim, kasım, aralık, bugün, yarın, dün, gelecek hafta, geçen hafta, gelecek ay, geçen yıl, doğum günü
    """,
}

# Thanks, greetings and filler.
POLITE = {
    "en": """
    thanks, thank you, thx, cheers, welcome, hello, hi, hey, bye, goodbye, good morning, good night, good luck,
    congrats, congratulations, great, awesome, cool, nice, wow, perfect, sure, certainly, absolutely, okay, ok, yes,
    yeah, yep, nope, sounds good, got it, no problem, sorry, haha, lol, hope, glad, amazing, wonderful, take care,
    feel free, great question, let me know, happy to help, here's, you're right, how are you, what's up, of course,
    hmm, oh, um
    """,
    "de": "danke, vielen dank, hallo, tschüss, guten morgen, gute nacht, super, klasse, toll, okay, alles klar, gern, gerne, entschuldigung, genau",
    "es": "gracias, hola, adiós, buenos días, buenas noches, genial, perfecto, vale, claro, de nada, perdón, excelente",
    "fr": "merci, bonjour, salut, bonsoir, super, génial, parfait, d'accord, bien sûr, de rien, désolé, excellent",
    "it": "grazie, ciao, buongiorno, buonasera, perfetto, ottimo, va bene, certo, prego, scusa, fantastico",
    "pt": "obrigado, obrigada, olá, oi, tchau, bom dia, boa noite, ótimo, perfeito, legal, claro, de nada, desculpe",
    "nl": "bedankt, dank je, dankjewel, hallo, hoi, dag, goedemorgen, top, prima, geweldig, oké, natuurlijk, sorry, mooi",
    "pl": "dziękuję, dzięki, cześć, dzień dobry, dobranoc, super, świetnie, dobrze, oczywiście, przepraszam, nie ma sprawy",
    "ru": "спасибо, привет, здравствуйте, пока, доброе утро, отлично, супер, хорошо, ладно, конечно, извини, извините, понятно",
    "tr": "teşekkürler, teşekkür ederim, sağ ol, merhaba, selam, günaydın, harika, süper, tamam, tabii, rica ederim, pardon",
}

# The words of an agent before it calls a tool.
ANNOUNCED = {
    "en": "^let me, ^let's, ^i'll, ^i will, ^we'll, ^we will, ^i'm going to, ^now i, ^first, ^next",
    "de": "^ich werde, ^lass mich, ^jetzt, ^zuerst",
    "es": "^voy a, ^déjame, ^ahora, ^primero",
    "fr": "^je vais, ^laisse moi, ^maintenant",
    "it": "^vado a, ^lasciami, ^adesso, ^ora",
    "pt": "^vou, ^deixe me, ^agora",
    "nl": "^ik ga, ^ik zal, ^laat me, ^nu",
    "pl": "^teraz, ^najpierw, ^sprawdzę",
    "ru": "^сейчас, ^сначала, ^теперь",
    "tr": "^şimdi, ^önce",
}

NOTHING = {
    "en": """
    don't know, don't think, don't worry, don't mind, don't get me wrong, ^don't you, ^don't we, ^don't they, don't
    hesitate, do not know, do not worry, do not hesitate, ^never mind, ^never been, ^never heard, ^never had, ^never
    thought, ^never knew, ^never felt, ^always been, ^always wanted, ^always good, ^always great, ^always nice,
    ^always fun, ^remember when, ^remember that time, ^remember how, must have, must've, must say, must admit, must
    feel, i must, must be so, must be a, must be really, must be very, must be hard, must be nice, must be great, must
    be fun, must be tough, must be amazing, must be exciting, must be interesting, must be awesome, must be quite, can't wait, can't believe, can't imagine, can't agree
    more, can't stop, couldn't agree more, couldn't have, couldn't be, no error, no errors, how about, how are you,
    what about, what a, how nice, how cool, how great, which is, who knows, not only
    """,
    "de": "ich muss, muss ich, darf ich, nicht nur, kein fehler, keine fehler",
    "es": "sin errores, no solo, qué bien, qué bueno, debe ser, debe de",
    "fr": "je dois, aucune erreur, sans erreur, ça doit être",
    "it": "nessun errore, senza errori, deve essere",
    "pt": "nenhum erro, sem erros, deve ser",
    "nl": "ik moet, moet ik, geen fout, geen fouten, niet alleen",
    "pl": "bez błędów, nie tylko",
    "ru": "без ошибок, не только, я должен, я должна",
    "tr": "hata yok",
}

# Where a clause begins: behind a mark, and behind a word that joins two, if no word of STATING opens the sentence
# (*They make us happy and always will* asks nothing).
MARKS = frozenset(",;:")
JOINING = frozenset(
    """
    and but so also please just then or und aber bitte dann y pero entonces también et mais alors aussi e ma però quindi mas
    então en maar dus ale więc oraz proszę и но а пожалуйста ve ama lütfen
    """.split()  # noqa: SIM905
)
STATING = frozenset(
    """
    i you he she it we they this that these those there my our his her their its ich er sie es wir das yo él ella ellos je il
    elle on nous ils io lui lei noi loro eu ele ela nós eles ik hij zij wij ze ja on ona my oni я он она мы они это ben o
    """.split()  # noqa: SIM905
)

# Scripts that put no space between words: what is searched for anywhere in a sentence.
UNSPACED: dict[Kind, str] = {
    "rule": "不要 不能 禁止 必须 必須 务必 记住 記住 絶対 必ず しないで 覚えて 절대 반드시 기억해 ห้าม ต้อง",
    "ask": "请 請 帮我 幫我 怎么 怎麼 为什么 為什麼 教えて ください どう なぜ 해줘 해주세요 어떻게 왜 ช่วย ขอ",
    "self": "我 私 僕 俺 저는 나는 제가 내가 ผม ฉัน",
    "decision": "决定 決定 同意 決めた にします 하기로 결정 ตัดสินใจ",
    "error": "错误 錯誤 失败 失敗 エラー 오류 실패 ข้อผิดพลาด",
    "done": "完成了 已完成 已修复 已修復 完了 できました 완료 เสร็จ",
    "polite": "谢谢 謝謝 你好 ありがとう こんにちは 감사 안녕 ขอบคุณ สวัสดี",
}
