"""Sentences that ask, that say that nothing is known, and that tell something, by language, a line each; some without
their marks. Those that tell are the hard ones: they have the words of the others."""

ASKS = {
    "en": """
        What is the name of Caroline's dog?
        what is my sister's job
        Where does Tom live now
        Hey Mel! When did you go camping?
        Tell me about my trip to Rome.
        Remind me what I said about the budget
        What about her brother?
        Do you remember which doctor I saw in March
        did Anna sell the car
        How many children does Kim have
        Can you tell me where the keys are
        Please tell me who won the race.
        I'd like to know when the lease ends.
        And what was the title of the book?
        which school does Leo go to
        Is he still working at the bank?
        Any idea where we parked?
        why did they move to Graz
        Thanks! And how old is she?
        I was wondering what you decided about the flat
        could you show me what I wrote about Lisbon
        What's her favourite tea
        Who's coming to the party on Friday?
        So, how was the concert?
        what kind of music do I like
        Have you heard from Ben?
        """,
    "de": """
        Wie heißt der Hund von Karla?
        wo wohnt Tom jetzt
        Erinnere mich, was ich über das Budget gesagt habe
        Hat Anna das Auto verkauft?
        welche Schule besucht Leo
        Sag mir, wer das Rennen gewonnen hat.
        weißt du noch, wann wir in Rom waren
        Wie viele Kinder hat Kim
        """,
    "fr": """
        Comment s'appelle le chien de Caroline ?
        où habite Tom maintenant
        Dis-moi qui a gagné la course.
        Est-ce qu'Anna a vendu la voiture
        quelle école fréquente Léo
        Te souviens-tu de notre voyage à Rome ?
        combien d'enfants a Kim
        Rappelle-moi ce que j'ai dit du budget
        """,
    "es": """
        ¿Cómo se llama la perra de Carolina?
        dónde vive Tomás ahora
        Dime quién ganó la carrera.
        ¿Vendió Ana el coche?
        a qué escuela va Leo
        recuérdame qué dije del presupuesto
        cuántos hijos tiene Kim
        ¿Te acuerdas de nuestro viaje a Roma?
        """,
    "it": """
        Come si chiama il cane di Carolina?
        dove abita Tommaso adesso
        Dimmi chi ha vinto la gara.
        Anna ha venduto la macchina?
        quale scuola frequenta Leo
        ricordami che cosa ho detto del bilancio
        quanti figli ha Kim
        Ti ricordi il nostro viaggio a Roma?
        """,
    "pt": """
        Como se chama o cachorro da Carolina?
        onde mora o Tomás agora
        Me diga quem ganhou a corrida.
        A Ana vendeu o carro?
        qual escola o Leo frequenta
        me lembra o que eu disse sobre o orçamento
        quantos filhos a Kim tem
        Você se lembra da nossa viagem a Roma?
        """,
    "nl": """
        Hoe heet de hond van Caroline?
        waar woont Tom nu
        Vertel me wie de race heeft gewonnen.
        Heeft Anna de auto verkocht?
        welke school bezoekt Leo
        weet je nog wanneer we in Rome waren
        hoeveel kinderen heeft Kim
        Herinner me eraan wat ik over het budget zei
        """,
    "pl": """
        Jak nazywa się pies Karoliny?
        gdzie teraz mieszka Tomek
        Powiedz mi, kto wygrał wyścig.
        czy Anna sprzedała samochód
        do której szkoły chodzi Leo
        przypomnij mi, co mówiłem o budżecie
        ile dzieci ma Kim
        Pamiętasz naszą podróż do Rzymu?
        """,
    "ru": """
        Как зовут собаку Каролины?
        где сейчас живёт Том
        Скажи мне, кто выиграл гонку.
        продала ли Анна машину
        в какую школу ходит Лео
        напомни, что я говорил о бюджете
        сколько детей у Ким
        Ты помнишь нашу поездку в Рим?
        """,
    "tr": """
        Karolin'in köpeğinin adı ne?
        Tom şimdi nerede yaşıyor
        Bana yarışı kimin kazandığını söyle.
        Anna arabayı sattı mı
        Leo hangi okula gidiyor
        bütçe hakkında ne dediğimi hatırlat
        Kim'in kaç çocuğu var
        Roma gezimizi hatırlıyor musun?
        """,
    "ar": """
        ما اسم كلب كارولين؟
        أين يسكن توم الآن
        أخبرني من فاز بالسباق.
        هل باعت آنا السيارة
        في أي مدرسة يدرس ليو؟
        ذكرني بما قلته عن الميزانية
        كم عدد أطفال كيم
        هل تتذكر رحلتنا إلى روما؟
        """,
    "zh": """
        卡罗琳的狗叫什么名字？
        汤姆现在住在哪里
        告诉我谁赢了比赛。
        安娜把车卖了吗
        里奥上哪所学校
        提醒我一下我对预算说了什么
        金有几个孩子？
        你还记得我们去罗马的旅行吗？
        """,
    "zh-tw": """
        卡羅琳的狗叫什麼名字？
        湯姆現在住在哪裡
        告訴我誰贏了比賽。
        安娜把車賣了嗎
        里奧上哪所學校
        提醒我一下我對預算說了什麼
        金有幾個孩子？
        你還記得我們去羅馬的旅行嗎？
        """,
    "ja": """
        キャロラインの犬の名前は何ですか？
        トムは今どこに住んでいますか
        レースで誰が勝ったか教えて
        アンナは車を売りましたか
        レオはどの学校に通っているの？
        予算について私が何と言ったか教えてください
        キムには子どもが何人いますか
        ローマへの旅行を覚えていますか？
        """,
    "ko": """
        캐롤라인의 개 이름이 뭐예요?
        톰은 지금 어디에 살아요
        누가 경주에서 이겼는지 알려줘
        안나가 차를 팔았나요
        레오는 어느 학교에 다녀?
        예산에 대해 내가 뭐라고 했는지 말해줘
        킴은 아이가 몇 명이에요
        로마 여행을 기억하나요?
        """,
    "th": """
        สุนัขของแคโรไลน์ชื่ออะไร
        ตอนนี้ทอมอาศัยอยู่ที่ไหน
        บอกฉันหน่อยว่าใครชนะการแข่งขัน
        แอนนาขายรถไปแล้วหรือยัง
        ลีโอเรียนที่โรงเรียนไหน?
        ช่วยเตือนฉันว่าฉันพูดอะไรเรื่องงบประมาณ
        คิมมีลูกกี่คน
        คุณจำทริปของเราที่โรมได้ไหม?
        """,
    "several": """
        whats the name of my dentist
        so what did the doctor say about my knee
        in which city was my father born
        how's the new job going
        anyone know where the charger is
        please list all the books I mentioned
        do I have any allergies
        what should I cook tonight
        Could you recap what we decided last week
        name of the hotel we stayed at?
        Ok and where did we meet?
        are there any plans for Saturday
        has the parcel arrived yet
        should I call her or wait
        I forgot, when is Anna's birthday?
        wann hat Mila Geburtstag
        kannst du mir sagen wo der Schlüssel ist
        was habe ich über Lissabon geschrieben
        quand est né mon père
        c'est quoi le nom de l'hôtel
        cuándo es el cumpleaños de Ana
        qué dije sobre Lisboa
        quando è il compleanno di Anna
        cosa ho detto su Lisbona
        quando é o aniversário da Ana
        o que eu disse sobre Lisboa
        wanneer is Anna jarig
        wat zei ik over Lissabon
        kiedy Anna ma urodziny
        co mówiłem o Lizbonie
        когда у Анны день рождения
        что я говорил о Лиссабоне
        Anna'nın doğum günü ne zaman
        Lizbon hakkında ne dedim
        متى عيد ميلاد آنا
        ماذا قلت عن لشبونة
        安娜的生日是哪天
        我说过关于里斯本的什么
        アンナの誕生日はいつですか
        リスボンについて何と言いましたか
        안나의 생일이 언제예요
        리스본에 대해 뭐라고 했어
        วันเกิดของแอนนาคือเมื่อไหร่
        ฉันพูดอะไรเกี่ยวกับลิสบอน
        """,
}

SAYS_NOTHING = {
    "en": """
        I don't know.
        I'm not sure about that.
        Let me check.
        One moment please.
        I have no information about your dog.
        I'm not sure what Caroline's dog is called, you haven't told me.
        As far as I can see, nothing is remembered about this.
        Sorry, I don't have any record of that conversation.
        Hmm, I don't know where Tom lives.
        I couldn't find anything about your trip to Rome.
        I don't remember you mentioning a car.
        No idea, sorry!
        You haven't told me which school Leo goes to yet.
        Let me look that up for you.
        There is no mention of a budget in our conversations.
        I'm afraid I don't have that information. Could you tell me more?
        I do not know who won the race.
        Hold on, I'll check my notes.
        I don't recall anything about Anna's car.
        Unfortunately, that was never mentioned.
        I can't find any details about the lease.
        I'm sorry, but I don't know how many children Kim has.
        Not sure.
        Nothing about that in my memory.
        I don't think you've mentioned that before.
        It isn't clear from our chats when she moved.
        I have no memory of that. If you tell me, I will remember it.
        not that I know of, I don't have any details
        """,
    "de": """
        Das weiß ich leider nicht.
        Ich bin mir nicht sicher, wie der Hund heißt.
        Moment, ich schaue kurz nach.
        Keine Ahnung.
        Dazu habe ich keine Informationen.
        Das hast du mir noch nicht erzählt.
        Ich weiß nicht, wo Tom wohnt.
        Darüber ist mir nichts bekannt.
        """,
    "fr": """
        Je ne sais pas.
        Je ne suis pas sûr de ça.
        Un instant, je vérifie.
        Je n'ai aucune information sur ton chien.
        Aucune idée, désolé.
        Tu ne m'as pas encore dit comment s'appelle le chien.
        Je ne sais pas où habite Tom.
        Je n'ai rien trouvé à ce sujet.
        """,
    "es": """
        No lo sé.
        No estoy seguro de eso.
        Un momento, déjame revisar.
        No tengo información sobre tu perro.
        Ni idea, lo siento.
        Todavía no me has dicho cómo se llama la perra.
        No sé dónde vive Tomás.
        No encontré nada sobre ese viaje.
        """,
    "it": """
        Non lo so.
        Non ne sono sicuro.
        Un attimo, controllo.
        Non ho informazioni sul tuo cane.
        Non ne ho idea, mi dispiace.
        Non mi hai ancora detto come si chiama il cane.
        Non so dove abita Tommaso.
        Non ho trovato nulla su quel viaggio.
        """,
    "pt": """
        Não sei.
        Não tenho certeza disso.
        Um momento, deixa eu verificar.
        Não tenho informações sobre o seu cachorro.
        Não faço ideia, desculpe.
        Você ainda não me disse como se chama o cachorro.
        Não sei onde mora o Tomás.
        Não encontrei nada sobre essa viagem.
        """,
    "nl": """
        Dat weet ik niet.
        Ik ben er niet zeker van.
        Een moment, ik kijk het even na.
        Ik heb geen informatie over je hond.
        Geen idee, sorry.
        Je hebt me nog niet verteld hoe de hond heet.
        Ik weet niet waar Tom woont.
        Ik kon niets vinden over die reis.
        """,
    "pl": """
        Nie wiem.
        Nie jestem pewien.
        Chwileczkę, sprawdzę.
        Nie mam informacji o twoim psie.
        Nie mam pojęcia, przepraszam.
        Jeszcze mi nie powiedziałeś, jak nazywa się pies.
        Nie wiem, gdzie mieszka Tomek.
        Nic nie znalazłem na ten temat.
        """,
    "ru": """
        Я не знаю.
        Я не уверен в этом.
        Минутку, я проверю.
        У меня нет информации о вашей собаке.
        Понятия не имею, извините.
        Вы мне ещё не говорили, как зовут собаку.
        Не знаю, где живёт Том.
        Я ничего не нашёл об этой поездке.
        """,
    "tr": """
        Bilmiyorum.
        Bundan emin değilim.
        Bir dakika, kontrol edeyim.
        Köpeğin hakkında bilgim yok.
        Hiçbir fikrim yok, üzgünüm.
        Köpeğin adını bana henüz söylemedin.
        Tom'un nerede yaşadığını bilmiyorum.
        O gezi hakkında bir şey bulamadım.
        """,
    "ar": """
        لا أعرف.
        لست متأكدا من ذلك.
        لحظة من فضلك، دعني أتحقق.
        ليس لدي معلومات عن كلبك.
        ليس لدي أي فكرة، آسف.
        لم تخبرني بعد باسم الكلب.
        لا أعرف أين يسكن توم.
        لم أجد شيئا عن تلك الرحلة.
        """,
    "zh": """
        我不知道。
        这个我不太确定。
        请稍等，让我查一下。
        我没有关于你的狗的信息。
        抱歉，我不清楚。
        你还没有告诉我那只狗叫什么。
        我不知道汤姆住在哪里。
        我没有找到关于那次旅行的任何内容。
        """,
    "zh-tw": """
        我不知道。
        這個我不太確定。
        請稍等，讓我查一下。
        我沒有關於你的狗的資訊。
        抱歉，我不清楚。
        你還沒有告訴我那隻狗叫什麼。
        我不知道湯姆住在哪裡。
        我沒有找到關於那次旅行的任何內容。
        """,
    "ja": """
        わかりません。
        それについてはよく分かりません。
        少々お待ちください、確認します。
        あなたの犬についての情報がありません。
        すみません、知りません。
        犬の名前はまだ聞いていません。
        トムがどこに住んでいるか分かりません。
        その旅行については何も見つかりませんでした。
        """,
    "ko": """
        모르겠어요.
        그건 잘 모르겠습니다.
        잠시만요, 확인해 볼게요.
        당신의 개에 대한 정보가 없습니다.
        죄송하지만 모르겠네요.
        개 이름을 아직 말해 주지 않았어요.
        톰이 어디에 사는지 몰라요.
        그 여행에 대해서는 아무것도 찾지 못했습니다.
        """,
    "th": """
        ฉันไม่รู้
        ฉันไม่แน่ใจเรื่องนั้น
        รอสักครู่ ขอเช็คก่อนนะ
        ฉันไม่มีข้อมูลเกี่ยวกับสุนัขของคุณ
        ขอโทษ ไม่ทราบค่ะ
        คุณยังไม่ได้บอกฉันว่าสุนัขชื่ออะไร
        ฉันไม่รู้ว่าทอมอยู่ที่ไหน
        ฉันไม่พบอะไรเกี่ยวกับทริปนั้น
        """,
    "several": """
        I don't have access to that information.
        We haven't talked about that yet.
        I'm afraid I can't answer that.
        No record of that, sorry.
        I have no way of knowing that.
        Sorry, that hasn't come up in our chats.
        I am not certain which hotel you mean.
        I don't think I know that.
        Nothing comes to mind.
        You'd have to tell me.
        I've got nothing on that, sorry.
        I don't know that one.
        I can't say for certain.
        I wish I knew, but you never said.
        Checking now, one sec.
        There isn't anything about that in what you've shared.
        I have not seen any mention of a dog.
        Unfortunately I don't know her last name.
        Ich habe dazu leider nichts gefunden.
        Ich kann mich nicht erinnern, dass du das erwähnt hast.
        Je n'en sais rien.
        Je ne trouve aucune mention de ce voyage.
        No tengo ni idea.
        No me lo has contado.
        Non ricordo che tu me l'abbia detto.
        Non ne so nulla.
        Não encontrei nenhuma informação sobre isso.
        Você não me contou isso.
        Daar weet ik niets van.
        Ik kan daar niets over vinden.
        Niestety nie wiem.
        Nie wspominałeś o tym.
        Об этом мне ничего не известно.
        Вы об этом не упоминали.
        Bu konuda bir şey bilmiyorum.
        Bana bundan hiç bahsetmedin.
        للأسف لا أعرف اسمه.
        لم تذكر لي ذلك.
        你没有提到过这件事。
        我不太清楚这个问题。
        その件は伺っていません。
        ちょっと分かりません。
        그건 들은 적이 없어요.
        잘 모르겠어요.
        เรื่องนี้ไม่ทราบเลย
        คุณไม่เคยพูดถึงเรื่องนี้
        I'm sorry, but I don't have any information about where your mother was born.
        I don't see anything in my memory about a boat trip.
        That's not something you've told me.
        I haven't been told which restaurant you went to.
        Hmm, good question. I'm not sure!
        I don't have that on record.
        You didn't say when the meeting is.
        Let me think about that for a second.
        I have nothing on that.
        I'm not aware of any trip to Peru.
        There's no record of an appointment on Monday.
        I could not find that in our previous conversations.
        Sorry, can't help with that, I have no data.
        I don't believe you mentioned the name of the hotel.
        It doesn't look like we talked about that.
        I'm drawing a blank here.
        Based on our conversation, I don't know what breed the dog is.
        My memory does not contain anything about your salary.
        I can't recall the name of her teacher.
        It's unknown to me.
        Give me a second to look through my notes.
        Das kann ich dir leider nicht sagen.
        Darüber haben wir noch nicht gesprochen.
        Tut mir leid, ich habe keine Informationen über deine Reise.
        Ich bin mir da nicht sicher.
        Désolé, je n'ai pas d'information à ce sujet.
        Je ne sais pas quel est son métier.
        Lo siento, no tengo información sobre tu viaje.
        No recuerdo que hayas mencionado un coche.
        Mi dispiace, non ho informazioni sul tuo viaggio.
        Non so quale scuola frequenta Leo.
        Desculpe, não tenho informações sobre a sua viagem.
        Não sei qual é o nome dele.
        Sorry, ik heb geen informatie over je reis.
        Dat heb je me niet verteld.
        Przepraszam, nie mam informacji o twojej podróży.
        Nie wiem, jak ma na imię.
        К сожалению, у меня нет данных о вашей поездке.
        Я не знаю, как его зовут.
        Üzgünüm, bu konuda bilgim yok.
        Adını bilmiyorum.
        عذرا، لا أعلم.
        لا توجد معلومات عن رحلتك.
        对不起，我没有关于你旅行的信息。
        我不清楚他叫什么名字。
        申し訳ありませんが、旅行に関する情報はありません。
        彼の名前は知りません。
        죄송합니다. 여행에 대한 정보가 없습니다.
        그의 이름은 모르겠어요.
        ขอโทษค่ะ ไม่มีข้อมูลเกี่ยวกับการเดินทางของคุณ
        ไม่ทราบว่าเขาชื่ออะไร
        """,
}

TELLS = {
    "en": """
        I don't know how to swim.
        I'm not sure I want to leave Graz.
        I asked her whether she likes it.
        Mila.
        No, I sold it.
        We moved to Graz in May because the rent was too high. Who could pay that? Now we have a garden and two cats.
        When I was a child, we lived by the sea.
        What I like most is the smell of bread.
        I don't know anyone in this town yet.
        Let me check the oven, the bread is due at six.
        She told me who won the race: her cousin Leo.
        How wonderful that the baby has come!
        I can't find my keys since Tuesday.
        The doctor was not sure what causes the pain, so I get an MRI on Friday.
        It was called The Red House, right?
        I never told you, but I have a twin sister.
        Do not forget that I am allergic to nuts.
        I don't remember much of my grandmother, she died when I was four.
        I have no idea how I managed to run the marathon!
        Which is why I sold the boat in the end.
        He has no information desk in his shop, only a bell.
        My teacher asked: where is Peru? And I was the only one who knew.
        Not sure if you remember, but my birthday is on the third of June.
        Please remind me to buy milk for Anna tomorrow.
        I wasn't sure about the blue one, so I bought the green sofa.
        One moment that I will never forget is my daughter's first step.
        Is a nurse, my wife.
        I don't know what I would do without my brother Ben.
        """,
    "de": """
        Ich weiß nicht, wie man schwimmt.
        Ich bin mir nicht sicher, ob ich Graz verlassen will.
        Ich habe sie gefragt, ob es ihr gefällt.
        Nein, ich habe es verkauft.
        Als wir in Rom waren, hat es geregnet.
        Was ich am liebsten mag, ist der Geruch von Brot.
        Wie schön es am See war!
        Der Moment, als Mila kam, war der schönste.
        """,
    "fr": """
        Je ne sais pas nager.
        Je ne suis pas sûr de vouloir quitter Graz.
        Je lui ai demandé si elle aimait ça.
        Non, je l'ai vendue.
        Quand j'étais enfant, nous habitions au bord de la mer.
        Ce que je préfère, c'est l'odeur du pain.
        Quelle belle journée nous avons eue !
        Nous avons un rendez-vous avec le médecin mardi.
        """,
    "es": """
        No sé nadar.
        No estoy seguro de querer dejar Graz.
        Le pregunté si le gustaba.
        No, lo vendí.
        Cuando era niño vivíamos junto al mar.
        Lo que más me gusta es el olor del pan.
        ¡Qué bonito fue el viaje!
        Como te dije, trabajo en un hospital.
        """,
    "it": """
        Non so nuotare.
        Non sono sicuro di voler lasciare Graz.
        Le ho chiesto se le piace.
        No, l'ho venduta.
        Quando ero bambino abitavamo vicino al mare.
        Quello che mi piace di più è il profumo del pane.
        Che bella giornata abbiamo passato!
        Come ti ho detto, lavoro in ospedale.
        """,
    "pt": """
        Não sei nadar.
        Não tenho certeza se quero sair de Graz.
        Perguntei se ela gostava disso.
        Não, eu vendi.
        Quando eu era criança, morávamos perto do mar.
        O que eu mais gosto é o cheiro de pão.
        Que dia lindo nós tivemos!
        Como eu disse, trabalho num hospital.
        """,
    "nl": """
        Ik weet niet hoe ik moet zwemmen.
        Ik weet niet zeker of ik Graz wil verlaten.
        Ik vroeg haar of ze het leuk vindt.
        Nee, ik heb het verkocht.
        Toen ik klein was woonden we aan zee.
        Wat ik het lekkerst vind is de geur van brood.
        Wat een mooie dag was het!
        Het moment waarop Mila kwam was het mooiste.
        """,
    "pl": """
        Nie umiem pływać.
        Nie jestem pewien, czy chcę wyjechać z Grazu.
        Zapytałem ją, czy jej się podoba.
        Nie, sprzedałem to.
        Kiedy byłem dzieckiem, mieszkaliśmy nad morzem.
        Najbardziej lubię zapach chleba.
        Jaki piękny był ten dzień!
        Jak mówiłem, pracuję w szpitalu.
        """,
    "ru": """
        Я не умею плавать.
        Я не уверен, что хочу уезжать из Граца.
        Я спросил её, нравится ли ей это.
        Нет, я её продал.
        Когда я был ребёнком, мы жили у моря.
        Больше всего я люблю запах хлеба.
        Какой прекрасный был день!
        Как я говорил, я работаю в больнице.
        """,
    "tr": """
        Yüzmeyi bilmiyorum.
        Graz'dan ayrılmak istediğimden emin değilim.
        Ona beğenip beğenmediğini sordum.
        Hayır, onu sattım.
        Çocukken deniz kenarında yaşardık.
        En çok ekmek kokusunu severim.
        Ne güzel bir gündü!
        Ne çay ne kahve içerim.
        """,
    "ar": """
        لا أعرف السباحة.
        لست متأكدا أنني أريد مغادرة غراتس.
        سألتها إن كان يعجبها ذلك.
        لا، لقد بعتها.
        عندما كنت طفلا كنا نعيش قرب البحر.
        أكثر ما أحبه هو رائحة الخبز.
        ما أجمل ذلك اليوم!
        من يوم الاثنين أعمل في المستشفى.
        """,
    "zh": """
        我不会游泳。
        我不确定我想不想离开格拉茨。
        我问过她喜不喜欢。
        没有，我把它卖了。
        小时候我们住在海边。
        我什么水果都吃，最喜欢芒果。
        那天真是太美了！
        我上周告诉过你我在医院工作。
        """,
    "zh-tw": """
        我不會游泳。
        我不確定我想不想離開格拉茨。
        我問過她喜不喜歡。
        沒有，我把它賣了。
        小時候我們住在海邊。
        我什麼水果都吃，最喜歡芒果。
        那天真是太美了！
        我上週告訴過你我在醫院工作。
        """,
    "ja": """
        私は泳げません。
        グラーツを離れたいかどうか、まだ決めていません。
        彼女に好きかどうか聞きました。
        いいえ、売りました。
        子どものころは海の近くに住んでいました。
        一番好きなのはパンの香りです。
        なんて素敵な一日だったでしょう！
        兄は数学を教えています。
        """,
    "ko": """
        저는 수영을 못해요.
        그라츠를 떠나고 싶은지 아직 결정하지 못했어요.
        그녀에게 좋아하냐고 물어봤어요.
        아니요, 팔았어요.
        어렸을 때 우리는 바닷가에 살았어요.
        저는 빵 냄새를 제일 좋아해요.
        정말 멋진 하루였어요!
        우리 언니는 학교에서 수학을 가르쳐요.
        """,
    "th": """
        ฉันว่ายน้ำไม่เป็น
        ฉันไม่แน่ใจว่าฉันอยากย้ายออกจากกราซ
        ฉันถามเธอว่าชอบไหม
        ไม่ ฉันขายมันไปแล้ว
        ตอนเด็กเราอาศัยอยู่ริมทะเล
        ฉันชอบกลิ่นขนมปังมากที่สุด
        วันนั้นสวยงามมาก!
        ฉันทำงานที่โรงพยาบาล
        """,
    "several": """
        I don't know why, but Anna cries at every wedding she goes to in Graz.
        I do not know the way, so Ben drives.
        Not sure about the colour, I went with blue in the end.
        No idea came to me, then Leo suggested pottery and I loved it.
        Let me check in at the hotel first, I'm in room 204.
        I couldn't find anything to wear, so I wore the red dress.
        You never told us off when we were kids, dad.
        I can't remember a better summer than 2019.
        I do remember that he was born in Graz.
        Where there is smoke there is fire, and my kitchen burnt on Monday.
        Who would have thought that Leo wins the race!
        Did the dishes, walked the dog, slept early.
        Is allergic to nuts.
        Can't wait for the concert on Friday!
        Have a sister in Lisbon and a brother in Rome.
        Do yoga every morning at six.
        Will be in Vienna until Sunday.
        How I met your mother is my favourite show.
        What a lovely house they bought in Linz!
        Which reminds me, Anna had her baby.
        She doesn't know where he lives, but she has his number, 555 0192.
        My doctor has no idea what it is yet, so I take iron pills.
        You know what, I quit my job at Lidl yesterday.
        Wait for me at the station, my train comes at nine.
        One second place and two wins for our team this year.
        I was told to wait a minute, but the surgery took four hours.
        When in Rome we always stay with Julia.
        Ich weiß, wo der Schlüssel liegt: unter der Matte.
        Keine Ahnung von Autos hatte ich, also hat Ben den Golf gekauft.
        Je sais où est la clé: sous le tapis.
        Je n'ai pas d'enfants.
        No tengo hijos.
        No hay leche en la nevera.
        Non ho figli.
        Non mangio carne da tre anni.
        Não tenho filhos.
        Não como carne há três anos.
        Ik heb geen kinderen.
        Ik eet al drie jaar niet meer vlees.
        Nie mam dzieci.
        Nie jem mięsa od trzech lat.
        У меня нет детей.
        Я не ем мясо уже три года.
        Çocuğum yok.
        Üç yıldır et yemiyorum.
        ليس لدي أطفال.
        لا آكل اللحم منذ ثلاث سنوات.
        我没有孩子。
        我三年不吃肉了。
        子どもはいません。
        三年間肉を食べていません。
        저는 아이가 없어요.
        저는 3년 동안 고기를 먹지 않았어요.
        ฉันไม่มีลูก
        ฉันไม่กินเนื้อมาสามปีแล้ว
        """,
}
