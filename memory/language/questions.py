"""How people ask, with and without a question mark, by language: expressions that are searched for in a sentence in
lower case, with straight apostrophes.

People leave the mark out, above all in chats and searches. Where a word only sometimes asks (*when I was young*), the
words that make it a question must follow it.
"""

_EN_AUX = r"(?:'s|'re|'d|'ll|s)?(?: (?:is|are|was|were|did|does|do|has|have|had|will|would|can|could|should|might|am)\b|(?<=[a-z]'(?:s|re|d|ll|ve))\b)"
_EN_WHO = r"(?:i|you|he|she|it|we|they|my|your|his|her|our|their|this|these|those|any(?:one|body|thing)?|some(?:one|body)|the)"

REQUESTS = {
    "en": r"""
(?:please |can you |could you |would you |will you |pls |just )*(?:tell me|remind me (?:again )?(?:what|who|whose|when|where|how|which|why|of|about)|let me know (?:what|who|when|where|how|which|why|if|whether)|show me|give me (?:the|a|an|all|some)(?! (?:second|sec|moment|minute|min)\b)|explain|describe|summari[sz]e|list (?:all|the|my|every)|look up|search for)\b
(?:can|could|would|will) you (?:please )?(?:tell|remind|show|give|help|explain|find|check|look|list|describe|recommend|suggest|provide|share|write|create|make)\b
(?:please )?(?:mention|list|name|outline|summari[sz]e|compare|identify|recommend|suggest|recap)(?: only| me)*(?: and)?(?: only)? (?:the|all|any|each|every|my|which|what|how|a|an|some|five|ten|three|\d+)\b
(?:what|how) about\b
(?:i want|i'd like|i would like|i'd love|i need|i'm trying|i'm curious) to (?:know|hear (?:more|what|how)|find out|learn (?:what|how|why|more))\b
(?:i was|i'm|i am|was|just|been) (?:just )?(?:wondering|curious)\b
i wonder (?:what|who|whose|when|where|how|which|why|if|whether)\b
(?:any|got any|have any) (?:idea|ideas|clue|thoughts|advice|tips|suggestions|recommendations|news|luck|chance|plans)\b
do you (?:know|remember|recall)\b
""",
    "de": r"""
(?:bitte |und |kannst du |kannst du bitte )*(?:sag|sage|sagen sie|erzähl|erzähle|verrat|nenn|nenne|zeig|zeige|erklär|erkläre|beschreib)(?: mir| uns| mal| doch| bitte)+\b
erinner[en]?e? (?:sie )?mich\b(?: bitte| noch mal| nochmal| daran)*\W+(?:was|wer|wie|wo|wann|warum|welche\w*|an das|an den|an die)\b
(?:weißt du|wissen sie|weisst du|erinnerst du dich|kennst du)\b
""",
    "fr": r"""
(?:s'il te plaît |et )*(?:dis-moi|dites-moi|raconte[z]?-moi|explique[z]?-moi|parle[z]?-moi|montre[z]?-moi|donne[z]?-moi)\b
rappelle[z]?-moi (?:qui|quand|où|comment|ce qu|quel\w*|combien|pourquoi|le nom)
(?:te souviens-tu|tu te souviens|vous souvenez-vous|tu sais (?:qui|quand|où|comment|ce qu|quel\w*|combien|si))\b
""",
    "es": r"""
(?:por favor,? |y )*(?:dime|dígame|cuéntame|explícame|háblame|muéstrame|dame)\b
recuérdame (?:qué|quién|cuándo|dónde|cómo|cuál\w*|cuánt\w*|por qué|el nombre)\b
(?:te acuerdas|recuerdas|sabes) (?:de|del|qué|quién|cuándo|dónde|cómo|cuál\w*|cuánt\w*|si|nuestr\w*|la|el)\b
""",
    "it": r"""
(?:per favore,? |e )*(?:dimmi|mi dica|raccontami|parlami|spiegami|mostrami|elencami)\b
ricordami (?:che|chi|quando|dove|come|qual\w*|quant\w*|perché|cosa|il nome)\b
(?:ti ricordi|si ricorda|sai (?:chi|quando|dove|come|qual\w*|quant\w*|cosa|se))\b
""",
    "pt": r"""
(?:por favor,? |e )*(?:me diga|diga-me|diz-me|me conta|me conte|conta-me|me fala|fala-me|me explica|explica-me|me mostra)\b
(?:me lembra|me lembre|lembra-me) (?:o que|quem|quando|onde|como|qual|quais|quant\w*|por que|do nome)\b
(?:você )?(?:se lembra|lembra|lembras-te|te lembras|sabe (?:quem|quando|onde|como|qual|quais|quant\w*|o que|se))\b
""",
    "nl": r"""
(?:en |alsjeblieft )*(?:vertel|zeg|leg|laat)(?: me| mij| eens| ons| zien)+\b
herinner (?:me|mij)(?: er ?aan| eraan)? (?:wat|wie|wanneer|waar|hoe|welke?|waarom)\b
(?:weet je|weet u|herinner je je|ken je)\b
""",
    "pl": r"""
(?:proszę,? |i |a )*(?:powiedz|opowiedz|wyjaśnij|pokaż|podaj)(?: mi| nam| proszę)*\b(?=,| o\b| kto| co| gdzie| kiedy| jak| ile| czy| \w+)
przypomnij(?: mi)?,? (?:kto|co|gdzie|kiedy|jak\w*|ile|czy|któr\w*|o czym)\b
(?:pamiętasz|czy pamiętasz|wiesz),? (?:kto|co|gdzie|kiedy|jak\w*|ile|czy|któr\w*|nasz\w*)\b
""",
    "ru": r"""
(?:пожалуйста,? |и |а )*(?:скажи|скажите|расскажи|расскажите|объясни|объясните|покажи|покажите|подскажи|подскажите)(?: мне| нам| пожалуйста)*\b
напомни(?:те)?(?: мне)?,? (?:кто|что|где|когда|как\w*|сколько|почему|о чём|про)\b
(?:ты |вы )?(?:помнишь|помните|знаешь|знаете)(?:,? (?:ли|кто|что|где|когда|как\w*|сколько))\b
""",
}
"""Requests for information, with which a clause begins. They ask whatever follows."""

OPENINGS = {
    "en": rf"""
(?:what|who|whom|where|when|why|how){_EN_AUX}(?! (?:wonderful|nice|great|lovely)\b)
how (?:many|much|old|long|often|far|big|tall|come|late|early|soon|well|good)\b
(?:(?:in|at|on|for|with|to|from|under|during|about|by) )?(?:what|which) (?!(?:i|we|he|she|they|you|it|a|an|is|was|are|were|means?|makes?|made|case|has|had|the|this|that|my|his|her|our|their|matters|happens|about)\b)(?:[\w'-]+ ){{1,4}}(?:is|are|was|were|did|does|do|has|have|had|will|would|can|could|should)\b
(?:what|which) (?:kind|kinds|sort|type|types|time|day|year|date|month|color|colour) of\b
(?:(?:for|since|until|by|in|with|to|from|at) )(?:how (?:many|much|long|often|far)|whom|where|when)\b
who (?:else |first |also )?(?:\w\w\w+ed|won|gave|told|said|made|got|took|went|came|wrote|lives|works|likes|loves|owns|knows|goes|wants|plays|teaches|lost|bought|sold|sent|taught|found)\b
what happened (?:to|with|at|in|on|when|after|during|before|next)\b
whose\b
(?:what|who|where|when|how)s (?:the|my|your|his|her|our|their|up|going|it|that|this|a)\b
any(?:one|body) (?:know|knows|remember|remembers|have|has|seen|else)\b
(?:is|are|was|were) there (?:any|a|an|some|anything|someone|anyone|more|still|enough)\b
(?:do|does|did|can|could|would|will|should|shall|is|are|was|were|am|has|isn't|aren't|wasn't|don't|doesn't|didn't|haven't|hasn't|won't|can't|couldn't|wouldn't) (?!the (?:best|only|same|first|most)\b)(?!(?<=did |do |will )(?:the|this|these|those|some\w*|any\w*)\b)(?:(?:{_EN_WHO})\b|(?<=did |does |has )(?!been |had |a |to )[a-z]+ (?:ever |also |really )?[a-z]+)
did the \w+ (?!and\b|with\b|in\b|at\b|for\b|on\b|then\b|again\b)\w+[^,]*$
have (?:you|they|we|any(?:one|body))\b
had (?:you|they|he|she) \w+
""",
    "de": r"""
(?:was|wer|wen|wem|wann|wo|wohin|woher|warum|wieso|weshalb|wie|womit|wofür|worüber|woran|wobei|wovon)(?: genau| denn| noch| nochmal)* (?:heißt|heissen|heißen|hieß|ist|war|waren|sind|bin|bist|hat|hast|habe|haben|hatte|hatten|kann|kannst|können|wird|wurde|werden|soll|sollte|sollen|muss|macht|machst|machen|machte|wohnt|wohnst|wohnen|lebt|arbeitet|geht|gehts|kommt|kam|findet|liegt|steht|gibt|gab|mag|magst|kostet|möchte|will|willst|gefällt|isst|trinkt|studiert|feiert|spielt|tut|sagt|sagte|meint|denkst|läuft|fährt|fuhr|ging|nennt)\b
(?:wie (?:viele?|alt|lange|oft|weit|groß|hoch|teuer|spät)|welche[rsnm]?|wieviele?|wessen)\b
(?:hat|hast|haben|ist|sind|kann|kannst|können|könntest|gibt|magst|möchtest|willst|wird|darf|soll|will|mag|wohnt|arbeitet|kennt|weiß) (?:du|er|sie|es|ihr|wir|man|(?<!\b(?:will|mag|kann|gibt|soll|wird|darf) )[a-zäöüß]+ (?:der|die|das|den|ein\w*|mein\w*|dein\w*|schon|noch|in|im|am|an|auf|mit|nach|zu)|der|die|das|mein\w*|dein\w*)\b
(?:war|waren|hatte) (?:er|sie|es|du)\b
""",
    "fr": r"""
(?:est-ce qu|qu'est-ce|qui est-ce|c'est (?:quoi|qui|quand|où)\b)
(?:où|quand|comment|combien|pourquoi|qui|que|d'où)(?: est-ce qu\w*| (?:est|a|as|avez|sont|ont|était|va|vas|vont|habites?|travailles?|s'appelle|t'appelles|fait|fais|peut|peux|ai|vit|vient|d'\w+|de \w+)\b)
quel(?:le)?s? (?:est|était|sont|\w+ (?:est|a|as|ai|avez|fréquente|fait|fais|préfère|aime|aimes|porte|prend|\w+-t-\w+|\w+-tu|\w+e))\b
\w+-(?:t-il|t-elle|t-on|tu|ils|elles)\b
(?:as|es|peux|sais|veux|connais|aimes|avez|êtes|pouvez|savez|est|a|ont|sont)-(?:tu|vous|il|elle|ils|elles|on|ce)\b
""",
    "es": r"""
(?:a |de |con |en |para |por |desde |hasta )?(?:qué|quién(?:es)?|cuándo|dónde|cuál(?:es)?|cómo|cuánt[oa]s?|adónde)\b
(?:cual es|cuales son|como se llama|donde (?:vive|está|esta|trabaja|fue)|quien (?:es|fue)|que es|cuando (?:es|fue|será) (?:el|la|mi|su)|cuantos|cuantas)\b
(?:tienes|conoces|puedes|podrías|has|hay|tiene|vendió|compró|fue|es verdad) (?:algún|alguna|algo|que|\w+ (?:el|la|los|las|su|un|una))\b
""",
    "it": r"""
(?:come si chiama\w*|come (?:sta|stai|va|è|era)|dove (?:abita|abiti|vive|vivi|è|lavora|lavori|sono|hai|ha|si trova|sta)|quando (?:è|è stat\w|ha|hai|vai|va|arriva|parte|finisce|inizia|comincia)|chi (?:è|ha|era|sono|viene)|cosa (?:ho|ha|hai|fa|fai|è|ti|ne|mi|piace)|che cosa|che (?:lavoro|tipo|ora|giorno|libro|scuola|musica)|qual è|quant[ie] \w+ (?:ha|hai|hanno|ci)|quanto (?:costa|è|dura|tempo)|quale \w+ \w+|quali (?:sono|\w+)|perché (?:hai|ha|hanno|non)|di chi|con chi|da dove|in che)\b
""",
    "pt": r"""
(?:qual (?:é|era|foi|o|a|\w+)|quais (?:são|\w+)|quem (?:é|foi|era|ganhou|vai|tem)|onde (?:é|mora|fica|está|trabalha|vive|foi|você|ele|ela)|quando (?:é|foi|será|vai|você|ela|ele)|como (?:se chama|é que|é|foi|está|vai|você|ela|ele)|o que eu (?:disse|falei|contei|escrevi|comprei|fiz|escolhi)|o que (?:é que|é|você|ela|ele|aconteceu|houve)|quant[oa]s? \w+ (?:\w+ ){0,2}(?:tem|têm|há|custa|você)|quanto (?:custa|tempo|é)|por que (?:você|ela|ele|é|não|eles)|em que|com quem|de quem|de onde|será que)\b
""",
    "nl": r"""
(?:wat|wie|wanneer|waar|waarom|hoe|waarheen)(?: precies| ook alweer)* (?:is|was|waren|heet|heette|heeft|had|zijn|hebben|heb|doet|doe|deed|woont|woon|werkt|kan|kun|kunnen|wil|gaat|ga|ging|kwam|komt|vindt|vind|vond|zei|kost|eet|speelt|zou|zal|moet|gebeurt|gebeurde|wonen)\b
(?:welke?|hoeveel|hoe (?:oud|lang|vaak|ver|groot|laat)|wiens|waarover|waarmee)\b
(?:is|heeft|heb|kan|kun|weet|was|ga|wil|woont|werkt|hebben|zijn|mag|moet|zal) (?:je|jij|hij|zij|ze|u|jullie|we|mijn|jouw|[a-z]+ (?:de|het|een|nog|al|in|op|naar|mijn|zijn|haar))\b
""",
    "pl": r"""
(?:czy|ile|dlaczego|dokąd|skąd|kto|kogo|komu|jaki|jaka|jakie|jakiego|jaką|który|która|które|którego|której|czyj|czyja|gdzie|czemu|(?:do|w|na|z|o|od|dla|za) (?:któr\w+|jak\w+|kogo|kim|czym|czego|kiedy|ilu))\b
kiedy \w+ (?:ma|jest|będzie|wraca|przyjeżdża|kończy|zaczyna)\b
(?:co|kiedy|jak) (?:jest|był|była|było|ma|się nazywa|nazywa|robi|robisz|lubi|lubisz|to|są|ostatnio|on|ona|mam|masz|będzie|powiedział\w*|mówił\w*|sądzisz|myślisz|u)\b
""",
    "ru": r"""
(?:где|куда|откуда|почему|зачем|сколько|чей|чья|чьё|чьи|кто|кого|кому|разве|неужели|как(?:ой|ая|ое|ие|ого|ую|их|им)|в как(?:ой|ую|их)|о ком|о чём|с кем|у кого|во сколько|за что|от кого|для кого|до какого|на как\w+|из как\w+)\b
(?:как (?:зовут|звали|называется|дела|её|его|он|она|ты|вы|прошл\w+)|что (?:это|он|она|ты|вы|они|делает|любит|случилось|нового|насчёт|я (?:говорил|сказал)\w*)|когда (?:у|он|она|ты|вы|они|мы|будет|был\w*|я|день))\b
\w+ ли\b
""",
}
"""How a question without its mark begins. Outside English a comma behind it shows that it only begins a sentence that tells."""

ANYWHERE = {
    "tr": r"""
(?:\b(?:neden|niçin|niye|nasıl|nerede|nereye|nereden|nerelisin|kim|kimin|kime|kimi|kimle|kaç|hangi|hangisi|ne zaman|kaçta)\b|\bne(?= \w+(?:d[ıiuü]n?|t[ıiuü]n?|yor\w*|ecek\w*|acak\w*|r)?\W*$)|\bne\W*$|(?:d[ıiuü]|t[ıiuü]|yor|[ae]c[ae][kğ]|[ıiuüae]r|var|yok|m[ıiuü]ş|değil) m[ıiuü](?:y?\w{0,6})?\W*$|\b(?:söyle|anlat|hatırlat)(?:r mısın|yın|ır mısın)?\W*$)
""",
    "ar": r"""
^\W*(?:و|ف)?(?:هل|ماذا|متى|أين|اين|لماذا|كيف|كم|ما (?:هو|هي|اسم|هذا|رأي|نوع|الذي)|من (?:هو|هي|الذي|فاز)|أي|في أي|إلى أين|من أين|منذ متى)\b
^\W*(?:من فضلك،? )?(?:أخبرني|اخبرني|أخبريني|قل لي|قولي لي|ذكرني|ذكريني|اشرح لي|حدثني|احك لي)\b
""",
    "zh": r"""
(?:吗|嗎|么|麼)\W*$|(?:什么|什麼|谁|誰|哪里|哪裡|哪儿|哪兒|哪个|哪個|哪所|哪家|哪位|哪些|哪天|哪年|哪|怎么|怎麼|为什么|為什麼|为何|為何|多少|几(?:个|岁|点|号|月|次|年|天)|幾(?:個|歲|點|號|月|次|年|天)|何时|何時|是否|是不是|有没有|有沒有|多久|多大|多远|多遠|星期几|星期幾)|(?:告诉我|告訴我|提醒我(?:一下)?(?=.*(?:什么|什麼|谁|誰|哪|怎|几|幾|多))|请问|請問|跟我说说|跟我說說|给我讲讲|給我講講)
""",
    "ja": r"""
(?:です|ます|ました|ません|でした|でしょう|だろう|のです|んです|ない|たい)か(?:ね|な)?\W*$|(?:っけ|かしら|かな|のかな|はどう|って何|は何|は誰|はどこ|はいつ|はなぜ|は何時|の？|教えて|聞かせて|話して|思い出させて)(?:ください|下さい|くれ|ほしい|くれる|もらえる|くれませんか)?\W*$
""",
    "ko": r"""
(?:까|까요|나요|가요|인가요|은가요|는가|니|냐|뭐야|누구야|어디야|언제야|뭐예요|뭐죠|뭔가요|뭐지|뭐니)\W*$(?<!(?:언니|머니|주니|하니까|으니까|니까)\W*)|(?:뭐|무엇|무슨|누구|누가|어디|언제|왜|어떻게|어떤|몇|얼마|어느)\b?.*(?:요|어|야|지|죠|까|니|냐|나|가|해|돼|다녀|있어|했어|이름은)\W*$|(?:알려|말해|가르쳐|설명해|얘기해|이야기해)\s?(?:줘|줘요|주세요|줄래\w*|주실래요|주시겠\w*)\W*$
""",
    "th": r"""
(?:ไหม|มั้ย|หรือเปล่า|หรือยัง|หรือไม่|รึเปล่า|อะไร|ใคร|ที่ไหน|ไหน|เมื่อไหร่|เมื่อไร|ทำไม|อย่างไร|ยังไง|เท่าไหร่|เท่าไร|(?<!เ)กี่)|^\W*(?:ช่วย)?(?:บอกฉัน|บอกผม|บอกหน่อย|เตือนฉันว่า|เล่าให้)
""",
}
"""Languages whose questions do not begin with a word of their own: looked for within the sentence."""

TURKISH_SIGNS = """
mi mı mu mü misin mısın musun müsün misiniz mısınız musunuz müsünüz miyim mıyım muyum müyüm miyiz mıyız muyuz müyüz miydi
mıydı muydu müydü neden niçin niye nasıl nerede nereye nereden nerelisin hangi hangisi söyle söyleyin anlat anlatın
hatırlat hatırlatın
"""
"""Words of which a Turkish question has one, or else a letter that other languages do not have."""

NOT_ASKED = {
    "tr": r"bilmiyor|sordu|emin değil|\bne \w+ ne\b|herkes|hatırlamıyor",
    "ar": r"سأل|لا أعرف|لا أعلم|ما أجمل|ما شاء",
    "zh": (
        "不知道|不清楚|不确定|不確定|不晓得|不曉得|不记得|不記得|问过|問過|我问|我問|问了|問了|问她|問她|问他|問他|什么都|什麼都|什么.{1,4}都|什麼.{1,4}都|谁都|誰都|哪.{0,3}都"
        "|怎么.{0,6}都|怎麼.{0,6}都|无论|無論|不管|没什么|沒什麼|没有什么|沒有什麼|为什么会|多少有|什么的|什麼的|知道了|告诉过|告訴過|还没有告诉|還沒有告訴"
    ),
    "ja": "聞きました|尋ねました|聞いた|分かりません|わかりません|分からない|わからない|知りません|かどうか|たでしょう[！!]",
    "ko": "모르|몰라|물어|물었|아무|누구나|언제나|언제든|어디든|왜냐|어떻게든|뭐든|결정하지",
    "th": "ไม่รู้|ไม่ทราบ|ไม่แน่ใจ|ถามเธอ|ถามเขา|ถามว่า|ไม่มีใคร|ไม่มีอะไร|อะไรก็|ใครก็|ไหนก็|ทุกคน|เมื่อไหร่ก็|จำไม่ได้|ไม่ได้บอก|ไม่พบอะไร|เท่าไหร่ก็",
}
"""Where these stand, the words of ANYWHERE do not ask."""

TAGS = r"""
(?:right|remember|you know|no|yes|ok|okay|huh|eh|hey|really|correct|true|see|don't you think|wouldn't you say|know what i mean|get it|ja|oder|nicht wahr|gell|stimmt's|weißt du|verstehst du|non|n'est-ce pas|hein|d'accord|tu vois|verdad|no es cierto|sabes|no crees|vale|vero|giusto|capisci|no è vero|né|não é|certo|sabe|entende|toch|hè|niet waar|snap je|prawda|nie|co nie|wiesz|rozumiesz|правда|да|верно|так ведь|не так ли|понимаешь|değil mi|tamam mı|أليس كذلك|صحيح|对吧|對吧|对吗|對嗎|是吧|好吗|好嗎|(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|am|is)n't (?:it|he|she|they|you|we|that|there)|(?:is|are|was|were|do|does|did|has|have|can|could|will|would) (?:it|he|she|they|you|we))
"""
"""What a statement ends with before its mark: it asks for assent, and tells."""

GREETINGS = r"""
(?:hi|hello|hey|hiya|yo|good (?:morning|afternoon|evening|night)|thanks|thank you|thx|wow|haha|lol|great|cool|nice|awesome|amazing|sounds|hallo|guten (?:morgen|tag|abend)|danke|salut|bonjour|bonsoir|merci|hola|buenos días|buenas (?:tardes|noches)|gracias|ciao|buongiorno|buonasera|grazie|olá|oi|bom dia|boa (?:tarde|noite)|obrigad[oa]|goedemorgen|goedendag|dank je|bedankt|hoi|cześć|dzień dobry|dzięki|dziękuję|merhaba|selam|teşekkürler|teşekkür ederim)
"""
"""A sentence of one of these and at most two words more neither asks nor tells."""

ADDRESSES = r"""
(?:ok|okay|oh|ah|aww?|sorry|i'm (?:so )?(?:sorry|afraid)|i am sorry|my apologies|apologies|hmm+|um+|uh|entschuldigung|tut mir leid|désolée?|pardon|lo siento|perdón|perdona|mi dispiace|scusa|scusi|desculpe?|het spijt me|przepraszam|привет|здравствуйте|спасибо|извините?|прости(?:те)?|к сожалению|üzgünüm|maalesef|مرحبا|شكرا|آسف\w*|عذرا|للأسف|السلام عليكم|你好|您好|嗨|谢谢|謝謝|抱歉|不好意思|对不起|對不起|こんにちは|おはよう\w*|ありがとう\w*|すみません|申し訳ありません\w*|ごめん\w*|안녕\w*|감사\w*|고마워\w*|죄송\w*|미안\w*|สวัสดี\w*|ขอบคุณ\w*|ขอโทษ)
"""
"""What stands alone, or beside a no-answer, and neither asks nor tells."""
