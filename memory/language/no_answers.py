"""How people and models say that they know nothing, or not yet, by language: expressions that are searched for in a
sentence in lower case, with straight apostrophes.

*I don't know where she lives* is not an answer, *I don't know how to swim* states a fact: the unknown must be about
another person, and must be a fact, not a deed.
"""

_WH = "what|who|whose|whom|where|when|which|how (?:many|much|old|long|often|far|big|tall|she|he|it|they|your)|why|whether|if"
_NO_I = r"(?![^,;]*\b(?:i|i'm|i'd|i'll|i've|me|mine|myself|we|we're|us|(?:my|our)(?! (?:\w+ )?(?:conversation|chat|discussion|session|message|notes?\b|memor|record|histor|logs?\b|files?\b)))\b)(?! (?:\w+ )?to\b)"
_OF_OTHERS = rf"(?:the answer|exactly )?(?:{_WH})\b{_NO_I}[^,;]*"
# Possessive: what repeats here is examined once, whatever the text is.
_BARE = (
    r"(?: (?:yet|that one|this one|that|this|it|(?:any|some)thing (?:about|on|of) (?!me\b|my\b)[^,;]*+|anything|exactly|either"
    r"|sorry|at all|for (?:sure|certain)|off ?hand|right now|at the moment|the answer(?: to (?:that|this))?"
    r"|(?:her|his|their|its|your) (?:\w++ ){0,3}+\w++|the (?:exact )?(?:name|date|details?|reason|title|address|number|time"
    r"|year|place)\b[^,;]*+|(?:much )?(?:about|of|on|regarding) (?:that|this|it|her|him|them|your [^,;]*+|any [^,;]*+"
    r"|the [^,;]*+)))*+(?=\W*+$|\s*+[,;:—–])"
)
_FACTS = (
    r"(?:info|information|records?|memor(?:y|ies)|data|details?|knowledge|notes?|mentions?|context|recollections?|entr(?:y|ies)"
    r"|specifics|references?|evidence|results?|match(?:es)?|messages? (?:about|on|from)|answers?)\b"
)
_SAID = "(?:told|tell|mentioned|mention|said|say|shared|share|given|give|provided|provide|specified|specify|talked|spoken|discussed)"
_NOTES = "(?:that|this|it|these|those|my|our|the|for|on|in|into|through|over|with|up|you|first|quickly|real|quick|please|now|a|notes?|memor(?:y|ies)|records?|logs?|history|calendar|files?|conversations?|chats?|again|further|moment|second)"

ENGLISH = rf"""
i (?:just |really |honestly |actually |still |also )*(?:don't|do not|dont|didn't|did not) (?:really |actually |currently |quite )?(?:know|remember|recall)(?:{_BARE}| {_OF_OTHERS}| (?:you|us) (?:mention|say|tell|shar|discuss|talk)\w+[^,;]*| any (?:mention|detail|record|conversation)[^,;]*)
(?:i'm|i am|im) (?:just |really |still |honestly )*(?:not (?:entirely |completely |really |quite |totally |exactly |100% |too |so )?(?:sure|certain|aware)|unsure|uncertain)(?: (?:about|of) (?:any [^,;]*|anything[^,;]*))?(?:{_BARE}| {_OF_OTHERS})
not (?:really |entirely |quite |too |so |exactly )?sure(?:{_BARE}| {_OF_OTHERS})
not that i(?:'m| am)? (?:know|aware|recall|remember)(?: of)?(?=\W*$|,)
(?:i have|i've got|i've|got|i've absolutely|have) (?:absolutely |really |honestly )?no (?:idea|clue)(?:{_BARE}| {_OF_OTHERS})
(?:absolutely )?no (?:idea|clue)(?:{_BARE}| {_OF_OTHERS})
(?:dunno|idk|beats me|who knows|hard to say|no way to tell|can't say|couldn't say|can't tell|i (?:can't|couldn't|cannot) (?:say|tell)(?: for (?:sure|certain))?|unknown|not known)(?=\W*$|,)
(?:i )?(?:can't|cannot|can not) (?:say|tell)(?: you)?(?: for (?:sure|certain))?(?:{_BARE}| {_OF_OTHERS})
i (?:currently |unfortunately |still |also )*(?:have no|have not|don't have|do not have|don't currently have|haven't got|haven't|don't see|do not see|see no|find no|found no|lack) (?:any |that |this |such |the |enough |an? |specific |more |much |further |other |previous |prior |personal |stored |clear |direct |got )*{_FACTS}{_NO_I}[^,;]*
i (?:have no|don't have|do not have|don't currently have) (?:any )?access to\b(?=[^,;]*(?:information|conversation|chat|history|memor|record|message|data))[^,;]*
i (?:have no|don't have|do not have|don't have any) way (?:to know|of knowing)\b[^,;]*
i (?:have nothing|don't have anything|do not have anything|have not got anything) (?:about|on|regarding|stored|recorded|noted)\b[^,;]*
(?:i |we )?(?:could not|couldn't|can't|cannot|can not|was unable to|wasn't able to|am unable to|am not able to|don't|do not|didn't|did not) (?:find|see|locate|recall|think of) (?:anything(?: (?:about|on|regarding|related|relevant|in (?:my|our|the)|for (?:that|this))\b[^,;]*)?(?=\W*$|[,;])|(?:any|a|the|that|this|specific|more|clear|further| )* ?{_FACTS}{_NO_I}[^,;]*)
i(?:'m| am) (?:unable|not able) to (?:find|answer|recall|see|say|tell|determine)\b{_NO_I}[^,;]*
i (?:can't|cannot|couldn't) (?:answer (?:that|this)|determine|confirm)\b{_NO_I}[^,;]*
i found nothing\b[^,;]*
i (?:don't|do not) (?:think|believe) (?:you've|you have|you ever|you|we've|we have|we|that|it|this)\b[^,;]*(?:mentioned|told|said|discussed|talked|shared|come up|came up|mention|recorded)[^,;]*
(?:but |and |as |since |because )?you (?:haven't|have not|havent|didn't|did not|never|hadn't|have never)(?: yet| ever| actually| really| previously)* {_SAID}\b(?! (?:me |us )?(?:that |how )?(?:you|there|we|it's)\b)(?! (?:me|us) off\b)(?![^,;]*\b(?:i|we)\b)(?![^?!]*[?!])[^,;]*
(?:that|this|it|which)(?: \w+){{0,2}}? ?(?:was|is|has|'s)(?:n't| not| never)(?: been| yet| ever| explicitly| specifically| actually)* (?:mentioned|specified|stated|recorded|stored|known|remembered|discussed|provided|documented|noted|shared|clear|something (?:you|we|i))\b{_NO_I}[^,;]*
(?:there is|there's|there was|there are|there were|i see|we have|i have) (?:no|not any|no such|not enough|nothing) ?(?:\w+ ){{0,2}}?(?:{_FACTS}|(?<=nothing )(?:about|on|in (?:my|our|the)|regarding)\b){_NO_I}[^,;]*
there (?:isn't|wasn't|aren't|weren't) (?:any|enough|anything|a)(?: \w+)? ?(?:{_FACTS}|about|regarding|on (?:that|this))[^,;]*
nothing (?:relevant |matching |specific |certain )?(?:(?:is|was|has been) (?:known|remembered|recorded|stored|mentioned|noted|said)|about|regarding|found|comes up|came up|in (?:my|our|the) (?:memory|notes|records?|conversations?|chats?)|on (?:that|this|record))\b[^,;]*
no (?:relevant |matching |such |further |specific |other )*(?:information|records?|mentions?|results?|matches|data|details|memories|entries)(?: (?:is|was|were|are))?(?: (?:found|available|about|of|on|for|exists?|stored|yet|here|in (?:my|our|the))\b[^,;]*)?(?=\W*$|[,;])
(?:(?:please )?(?:let me|lemme)|i'll|i will|i'm going to|i am going to|give me (?:a|one) (?:moment|second|sec|minute)(?: to)?|i need to|i have to) ?(?:just |quickly |go |have to |go and )*(?:check|look|see|think|search|find out|get back(?: to)?|verify|double[- ]check|confirm|pull|have a look|take a look)(?: (?:{_NOTES}|about|to|if|what|i|can|find)\b)*(?: your [^,;]{{0,30}}| what i can find[^,;]*)?(?=\W*$|[,;])
(?:(?:please )?(?:give me|wait|hold on|hang on)? ?(?:one|just a|just one|a|1) (?:quick )?(?:moment|second|sec|minute|min)|hold on|hang on|bear with me|just a sec|please wait|wait)(?: please| while i [^,;]*)?(?=\W*$|[,;])
(?:that's|that is|it's|this is) not something (?:you|we)\b[^,;]*
i (?:haven't|have not|wasn't|was not|never was) (?:been )?(?:told|given|informed)\b(?![^,;]*\b(?:i|we|my|our)\b)[^,;]*
i (?:don't|do not) have (?:that|this|it|any of (?:that|this|it)) (?:on record|on file|stored|recorded|noted|in my (?:memory|notes|records|files))\b[^,;]*
(?:i |we )?(?:could not|couldn't|can't|cannot|can not) find (?:that|it|this|any of (?:that|this)) in (?:our|my|the|any)\b(?=[^,;]*(?:conversation|chat|note|memor|record|histor|log|message))[^,;]*
(?:it|that) (?:doesn't|does not) (?:look|seem|appear)\b[^,;]* (?:like )?(?:we|you)(?: have|'ve)? (?:talked|discussed|mentioned|told|said|shared|covered)\b[^,;]*
i'm drawing a blank\b[^,;]*
my (?:memory|notes|records|memories|logs?|files) (?:does not|doesn't|do not|don't) (?:contain|include|mention|have|say|show|cover)\b[^,;]*
i (?:can't|cannot|couldn't|can not) (?:recall|remember)(?: the| her| his| their| your| what| who| when| where| which| how| any| that| this)+\b(?! time\b)(?![^,;]*\b(?:i|we)\b)[^,;]*
(?:it's|that's|that is|it is|this is) (?:unknown|not known)(?: to me)?(?=\W*$|,)
we (?:haven't|have not|never|didn't|did not)(?: yet| ever| actually| really)* (?:talked|discussed|spoken|spoke|talk|discuss|covered|cover)\b(?: about| of)?(?: that| this| it| yet| before| any [^,;]*| your [^,;]*| the [^,;]*)*(?=\W*$|,)
(?:that|it|this) (?:hasn't|has not|never|didn't|did not)(?: ever| yet)? (?:come|came) up\b[^,;]*
i (?:don't|do not) (?:think|believe) i (?:know|have|remember|recall)(?: that| this| it| anything about [^,;]*)*(?=\W*$|,)
nothing (?:comes|came) to mind\b[^,;]*
(?:i've|i have) (?:got )?nothing (?:on|about|regarding)\b[^,;]*
i wish i knew(?=\W*$|,)
(?:checking|looking)(?: now| it up| into it| that)*(?=\W*$|,)
i (?:have not|haven't) (?:seen|found|come across) (?:anything (?:about|on)\b|(?:any|a) (?:\w+ )?(?:mention|record|note|reference|information|details?)\b)[^,;]*
you(?:'d| would|'ll)? (?:have|need) to (?:tell|remind) me\b[^,;]*
as an ai\b[^.]*
"""

GERMAN = r"""
\b(?:ich kann|kann ich) mich (?:leider )?(?:daran )?nicht (?:daran )?erinnern(?:(?=\W*$)|, dass du\b.*)
\bkann ich (?:dir|ihnen|euch)?(?: leider| dazu| gerade| noch)* (?:nicht|nichts)(?: genau| dazu| darüber)* (?:sagen|beantworten)(?=\W*$)
\b(?:darüber|davon|dazu) haben wir (?:noch |bisher )*(?:nicht|nie|nichts) (?:gesprochen|geredet|besprochen)(?=\W*$)
\bweiß ich (?:das |es |leider |noch |gerade |jetzt |auch |gar |darüber |davon |selbst )*(?:nicht|nichts)(?: mehr| genau)?(?=\W*$|,)
\bich weiß (?:es |das |leider |auch |noch |gar |darüber |davon )*(?:nicht|nichts)(?: mehr| genau| darüber| davon| dazu)?(?:(?=\W*$)|, (?:wer|was|wie|wo|wann|warum|welche\w*|ob|wohin|woher|wem|wen|wessen)\b(?!.*\b(?:ich|wir|mich|mir|mein\w*|uns|man|zu)\b).*)
\b(?:bin ich|ich bin) mir (?:da |leider |noch |darüber )*(?:nicht (?:ganz |so )?|un)sicher(?:(?=\W*$)|, (?:wer|was|wie|wo|wann|warum|welche\w*|ob)\b(?!.*\b(?:ich|wir|mich|mir|mein\w*|uns|man)\b).*)
\bkeine? (?:ahnung|idee|schimmer)(?=\W*$|,)
\b(?:habe|hab|liegen|finde|gibt|konnte)\b(?!.*\bmein\w*)[^,]*\b(?:keinerlei|keine?n?|nichts)\b[^,]*(?:information\w*|angabe\w*|erinnerung\w*|hinweis\w*|eintr[aä]g\w*|dazu|darüber|davon)\b[^,]*
\b(?:dazu|darüber|davon|hierzu|mir)\b[^,]*\b(?:nichts|nicht) (?:bekannt|gespeichert|erwähnt|vermerkt|gefunden|gesagt)
\b(?:du hast|hast du|sie haben|haben sie)\b[^,?!]*\b(?:nicht|nie|nichts)\b[^,?!]*\b(?:gesagt|erzählt|erwähnt|mitgeteilt|genannt|verraten)(?=\W*$|,)
(?:^|[,،、，])\W*(?:einen |kleinen |nur einen )*moment(?: bitte| mal)?(?=\W*$|,)
\b(?:lass mich|ich)(?: das| es| kurz| mal| eben| schnell| sehe| schaue| schau| gucke| prüfe| muss)+(?: das| es| kurz| mal| eben| schnell| nach| nachsehen| nachschauen| prüfen| überprüfen)*(?=\W*$)
"""

FRENCH = r"""
\bsais pas(?: trop| encore| du tout| vraiment)*(?=\W*$|,)
\bsais pas (?:qui|quand|où|pourquoi|comment|combien|quel\w*|si|ce qu\w*)\b(?! \w+(?:er|ir|re)\b)(?!.*\b(?:je|j'|me|m'|moi|mon|ma|mes|nous|notre|nos)).*
\b(?:n'en|j'en) sais rien\b
\b(?:n'en |ne )suis pas (?:tout à fait |vraiment |trop )?(?:sûre?|certaine?)(?: de (?:ça|cela|ceci)| à ce sujet)?(?=\W*$|,)
\b(?:n'ai|ne dispose d|n'y a|ne possède|ne vois|ne trouve)\b[^,]*(?:aucune?|pas d|plus d)[^,]*(?:information|info|donnée|détail|souvenir|trace|mention)s?\b[^,]*
\baucune (?:idée|information|trace|mention)(?=\W*$|,)
\b(?:tu|vous) ne (?:me |m'|l'|nous )*(?:as|avez)\b[^,?!]*(?:pas|jamais)[^,?!]*(?:dit|parlé|mentionn\w+|raconté|précisé)\b[^,]*
\b(?:je n'ai rien trouvé|je ne trouve rien)\b[^,]*
\bje ne m'en (?:souviens|rappelle) (?:pas|plus)\b
(?:^|[,،、，])\W*(?:un (?:petit )?(?:instant|moment)|une (?:petite )?(?:seconde|minute))(?: s'il (?:te|vous) plaît)?(?=\W*$|,)
\b(?:je|laissez-moi|laisse-moi|je vais) (?:vérifie\w*|regarde\w*|cherche\w*)(?: ça| cela)?(?=\W*$)
"""

SPANISH = r"""
\bno recuerdo (?:que (?:me )?hayas?\b|nada (?:sobre|de|al respecto)|eso\W*$|haberlo)[^,]*
\bno (?:lo )?sé(?: todavía| aún| la verdad| bien| con certeza)*(?=\W*$|,)
\bno sé (?:quién|cuándo|dónde|por qué|cómo|cuánt\w+|cuál\w*|qué|si)\b(?! \w+(?:ar|er|ir)\b)(?!.*\b(?:yo|me|mi|mis|nos|nuestr\w+)\b).*
\bno estoy (?:muy |del todo )?segur[oa](?: de (?:eso|ello|esto)| sobre eso)?(?=\W*$|,)
\bno estoy segur[oa] de (?:quién|cuándo|dónde|cómo|cuál|qué)\b.*
\bno (?:tengo|hay|dispongo de|encuentro|encontré|he encontrado|veo)\b[^,]*(?:información|datos|detalles|registros?|constancia|mención|nada (?:sobre|acerca|al respecto|de (?:eso|ello)))\b(?![^,]*\bmis?\b)[^,]*
\b(?:ni|no tengo (?:ni )?)(?: la menor)? ?idea(?=\W*$|,)
\b(?:no|nunca) (?:me )?(?:lo )?(?:(?:has|ha|han|habías) (?:dicho|contado|mencionado|hablado|compartido)|dijiste|contaste|mencionaste)\b[^,]*
(?:^|[,،、，])\W*un (?:momento|segundo|minuto|momentito)(?: por favor)?(?=\W*$|,)
\b(?:déjame|déjeme|permíteme|voy a) (?:ver|revisar\w*|comprobar\w*|buscar\w*|verificar\w*|mirar\w*|consultar\w*)(?: eso| esto| mis notas)?(?=\W*$)
"""

ITALIAN = r"""
\bnon ricordo (?:che tu|nulla (?:su|di)|niente (?:su|di))\b.*
\bnon (?:lo |ne )?so(?: ancora| proprio| nulla| niente| con certezza)*(?=\W*$|,)
\bnon so (?:chi|quando|dove|perché|come|quant\w+|qual\w*|cosa|che cosa|se)\b(?! \w+(?:are|ere|ire)\b)(?!.*\b(?:io|mi|mio|mia|miei|ci|noi|nostr\w+)\b).*
\bnon (?:ne )?sono (?:proprio |del tutto |molto )?sicur[oa](?: di (?:questo|ciò|quello))?(?=\W*$|,)
\bnon (?:ho|ci sono|dispongo di|trovo|ho trovato|risultano|vedo)\b[^,]*(?:informazion\w+|dati|dettagli|ricordi|traccia|menzion\w+)\b[^,]*
\bnon (?:ho trovato|trovo|risulta) (?:nulla|niente) (?:su|al riguardo|in merito|a riguardo)\w*\b[^,]*
\b(?:non (?:ne )?ho (?:la minima |la più pallida |alcuna )?|nessuna )idea(?=\W*$|,)
\bnon (?:me )?(?:lo |l'|mi |ci )?(?:hai|ha|avete)(?: ancora| mai)? (?:detto|raccontato|menzionato|parlato)\b[^,]*
(?:^|[,،、，])\W*un (?:attimo|momento|secondo|minuto)(?: per favore| solo)?(?=\W*$|,)
\b(?:fammi|lasciami|mi faccia|lasci che) (?:controllare|vedere|verificare|cercare|controlli)(?=\W*$)
(?:^|,)\W*(?:controllo|verifico|guardo)(?=\W*$)
"""

PORTUGUESE = r"""
\bnão (?:o )?sei(?: ainda| dizer| ao certo| bem)*(?=\W*$|,)
\bnão sei (?:quem|quando|onde|por que|porquê|como|quant\w+|qual|quais|o que|se)\b(?! \w+(?:ar|er|ir)\b)(?!.*\b(?:eu|me|meu|minha|nós|nosso|nossa)\b).*
\bnão (?:tenho (?:a )?certeza|estou cert[oa])(?: disso| sobre isso| quanto a isso)?(?=\W*$|,)
\bnão (?:tenho|há|encontrei|encontro|achei|disponho de|consta\w*|vejo)\b[^,]*(?:informaç\w+|dados|detalhes|registr?os?|menção|nada (?:sobre|a respeito))\b(?![^,]*\bminhas?\b)[^,]*
\b(?:não (?:faço|tenho) (?:a menor |nenhuma |a mínima )?|nenhuma |sem )ideia(?=\W*$|,)
\b(?:você|tu)\b[^,?!]* (?:não|nunca) (?:me )?(?:disse|contou|mencionou|falou|disseste|contaste|mencionaste)\b[^,]*
(?:^|[,،、，])\W*(?:só )?um (?:momento|instante|segundo|minuto|momentinho)(?: por favor)?(?=\W*$|,)
\b(?:deixa eu|deixe-me|deixa-me|vou) (?:ver|verificar|checar|procurar|conferir)(?: isso)?(?=\W*$)
"""

DUTCH = r"""
\bweet ik (?:dat |het |helaas |ook |nog )*(?:niet|niets)(?: precies| zeker| van| over)?(?=\W*$|,)
\bik weet (?:het |dat |helaas |ook )*(?:niet|niets)(?: precies| zeker)?(?=\W*$|,)
\bik weet (?:helaas )?niet (?:wie|wat|waar|wanneer|waarom|hoe|hoeveel|welke?|of)\b(?!.*\b(?:ik|mij|me|mijn|wij|we|ons|onze|te|men)\b).*
\bik ben er niet (?:helemaal )?zeker van
\b(?:ik heb|heb ik|er is|er zijn|ik vind|ik zie)\b[^,]*\bgeen\b[^,]*(?:informatie|gegevens|details|herinnering\w*|vermelding\w*)\b(?![^,]*\bmijn\b)[^,]*
\bgeen (?:idee|flauw idee)(?=\W*$|,)
\bik (?:kon|kan|heb)\b[^,]*\b(?:niets|niks)\b[^,]*(?:over|daarover|erover)[^,]*
\bik (?:kon|kan|heb)\b[^,]*\b(?:daarover|erover|hierover)\b[^,]*\b(?:niets|niks)\b[^,]*
\b(?:je hebt|heb je|u heeft|heeft u)\b[^,?!]*(?:niet|nooit|niets)[^,?!]*(?:verteld|gezegd|genoemd|vermeld|gedeeld)\b[^,]*
(?:^|[,،、，])\W*(?:een |één )?(?:momentje|moment|ogenblik\w*|seconde)(?: alsjeblieft| geduld)?(?=\W*$|,)
\b(?:laat me|ik)(?: dat| het| even| kijk| zal| zoek)+(?: dat| het| even| kijken| nakijken| controleren| checken| nazoeken| na| op)*(?=\W*$)
"""

POLISH = r"""
\bnie wiem(?: niestety| tego| jeszcze| dokładnie)*(?=\W*$)
\bnie wiem,? (?:kto|co|gdzie|kiedy|dlaczego|jak\w*|ile|czy|któr\w+|skąd|dokąd)\b(?!.*\b(?:ja|mnie|mi|mój|moja|moje|my|nas|nam|nasz\w*|\w+(?:łem|łam|łbym|łabym))\b)(?! \w+ć\b).*
\bnie (?:jestem|mam) (?:tego )?(?:pewien|pewna|pewny|pewności)(?: co do tego)?(?=\W*$)
\bnie (?:mam|znalazł[ea]m|znajduję|ma|widzę|posiadam)\b[^,]*(?:informacj\w+|danych|szczegółów|wzmian\w+|pojęcia)\b(?![^,]*\b(?:moi\w*|moje\w*)\b)[^,]*
\b(?:nic (?:nie|o tym nie|na ten temat nie) (?:znalazł[ea]m|wiem|wiadomo)|nie znalazł[ea]m nic|brak (?:informacji|danych))\b[^,]*
\bnie (?:powiedział|mówił|wspomniał|wspominał|podał)[ae]ś\b[^,?!]*(?:, (?:jak|kto|co|gdzie|kiedy|ile|czy)\b.*)?
(?:^|[,،、，])\W*(?:chwileczkę|chwilę|chwilka|chwila|moment|momencik)(?: proszę)?(?=\W*$|,)
\b(?:sprawdzę|zobaczę|poszukam)(?: to)?(?=\W*$)
"""

RUSSIAN = r"""
\bне знаю(?: этого| точно| пока| об этом)*(?=\W*$)
\bне знаю,? (?:кто|что|где|когда|почему|как\w*|сколько|чей|чья|куда|откуда)\b(?! \w+(?:ть|ться)\b)(?!.*\b(?:я|мне|меня|мой|моя|моё|мои|мы|нас|нам|наш\w*)\b).*
\bне увер[её]н[аы]?(?: в этом| насч[её]т этого)?(?=\W*$)
\bнет (?:\w+ )?(?:информации|данных|сведений|записей|упоминани\w+)\b[^,]*
\b(?:понятия не имею|без понятия)
\bничего не (?:наш[её]л|нашла|найдено|знаю|известно|нашлось)\b[^,]*
\bне (?:наш[её]л|нашла|могу найти|нашлось) (?:информации|ничего|упоминани\w+|данных)\b[^,]*
\b(?:вы|ты) (?:мне |ещё |еще |никогда |об этом )*не (?:говорил|сказал|рассказывал|рассказал|упоминал|упомянул|сообщал)\w*[^,?!]*(?:, (?:как|кто|что|где|когда|сколько)\b.*)?
(?:^|[,،、，])\W*(?:минутку|минуточку|секунду|секундочку|момент|одну минуту)(?: пожалуйста)?(?=\W*$|,)
\b(?:проверю|посмотрю|уточню|поищу)(?: это)?(?=\W*$)
\bдай(?:те)? (?:мне )?(?:проверить|подумать|посмотреть)(?=\W*$)
"""

TURKISH = r"""
^(?!.*m[ea]y[iı] bilmiyorum)(?!.*[ıiuü]m[ıiuü] bilmiyorum).*\bbilmiyorum(?=\W*$)
^(?!.*(?:ğ[ıiuü]m|c[ae]ğ[ıi]m)[dt][ae]n emin).*\bemin değilim(?=\W*$)
\b(?:bilgim|bilgi|kaydım|kayıt|fikrim|fikri) yok\b
\bbilgiye sahip değilim\b
\b(?:bir şey|bilgi|hiçbir şey|kayıt) bulamadım\b
\b(?:söyleme|bahsetme|anlatma|belirtme)d[iı]n(?:[iı]z)?(?=\W*$)
(?:^|[,،、，])\W*(?:bir (?:dakika|saniye|an)|biraz bekle\w*|lütfen bekle\w*)(?: lütfen)?(?=\W*$|,)
\b(?:kontrol ed(?:eyim|eceğim|iyorum)|bakayım)(?=\W*$)
"""

ARABIC = r"""
لا (?:أعرف|أعلم|ادري|أدري|اعرف|اعلم)(?: ذلك| هذا| بعد| بالضبط)*(?=\W*$|،)
لا (?:أعرف|أعلم|أدري|اعرف|اعلم) (?:من|متى|أين|اين|لماذا|كيف|كم|ما|ماذا|إن كان|إذا|أي)\b(?! أ)[^،]*
لا (?:أعرف|أعلم) (?:اسم|عنوان|موعد|تاريخ)(?!ي\b)\w*(?=\W*$|،)
لست متأكد\w*(?: من (?:ذلك|هذا|الأمر|هذه))?(?=\W*$|،)
(?:ليس|ليست|لا توجد|لا يوجد|لا أملك|لا تتوفر)(?: \w+){0,2} (?:معلومات|بيانات|تفاصيل|فكرة|ذكر)\b[^،]*
لم أجد (?:شيئا|شيئًا|أي|معلومات|ذكر)\b[^،]*(?:عن|حول|بخصوص)[^،]*
لم (?:تخبرني|تخبريني|تذكر لي|تذكري لي|تقل لي|تقولي لي)\b[^،]*
(?:^|[,،、，])\W*(?:لحظة|دقيقة|ثانية|انتظر)(?: واحدة| من فضلك)*(?=\W*$|،)
(?:دعني |سوف )(?:أتحقق|أبحث|أرى)|سأتحقق|سأبحث
"""

_ZH_DOUBT = "(?:不知道|不清楚|不太清楚|不晓得|不曉得|不太确定|不太確定|不确定|不確定|不太知道)"
_ZH_ASKED = "(?:什么|什麼|谁|誰|哪|怎么|怎麼|为什么|為什麼|多少|几|幾|何时|何時|是否|是不是|有没有|有沒有|叫啥)"
CHINESE = rf"""
(?:^|[，,])\W*(?:我|这个|這個|这|這|那个|那個|也|还|還|真的?|目前|暂时|暫時|就|并|並)*(?:{_ZH_DOUBT}|不记得|不記得)(?:了|呢|啊|哦|这个|這個|这件事|這件事|这个问题|這個問題|这一点|這一點)*(?=\W*$)
{_ZH_DOUBT}[^我，。]*{_ZH_ASKED}[^我]*$
(?:^|[，,])\W*我?(?:没有|沒有|没|沒|无|無)(?:找到|查到|发现|發現|看到|有)?[^，。我]{{0,14}}(?:信息|資訊|资讯|資料|资料|记录|記錄|紀錄|内容|內容|记忆|記憶|相关|相關)
(?:你|您)(?:还|還|从|從|从来|從來|并|並|之前|也)*(?:没有|沒有|没|沒|未)(?:跟我|对我|對我|向我|和我)?(?:告诉|告訴|提|说|說|讲|講).*
(?:^|[，,])\W*(?:请|請)?(?:稍等|等一下|等等|等一等|稍候)(?:一下)?(?=\W*$|，)
(?:让我|讓我|我)(?:来|來|先|再|去)?(?:查|看|想|确认|確認|核实|核實|检查|檢查|找)(?:一下|一查|看|查|想)(?:吧|看)?(?=\W*$)
"""

JAPANESE = r"""
(?:伺って|おっしゃって)\w*(?:ません|ない)\w*
^(?!.*(?:方|かた)[がをはも])(?!.*(?:すれば|したら|べき|私|僕|俺)).*(?:知りません|分かりません|わかりません|分からない|わからない|知らない|存じません|不明です|覚えていません|覚えておりません)(?:でした|です|ね|よ|が|けど)*(?=\W*$)
(?:情報|記録|記憶|データ|言及|内容)(?:は|が|も)?(?:まだ)?(?:あり|ござい|残って|見つか|見当た|持って)\w*(?:ません|ない|なかった)\w*
(?:何も|なにも)(?:見つか|見当た|わか|分か|記録され|覚え)\w*(?:ません|ない|なかった)\w*
(?:まだ|一度も)(?:\w*)(?:聞いて|教えてもらって|伺って|おっしゃって|教えていただいて)\w*(?:ません|ない)\w*
(?:^|[,،、，])\W*(?:少々|しばらく|ちょっと|少し)お?待(?:ち|って)\w*(?=\W*$|、)
(?:確認し|調べ|調べてみ|確認してみ|チェックし)ます(?:ので|ね)*(?=\W*$)
"""

KOREAN = r"""
^(?!.*(?:법을|방법을|줄|할지|내가|제가|우리가)).*(?:모르겠|모릅니|몰라|모르네)\w*(?=\W*$)
(?:정보|기록|기억|데이터|자료|언급)(?:이|가|은|는|도)? (?:전혀 |아직 |남아 )?(?:없|않)\w*
아무것도 (?:찾지 못|없|모르|기억)\w*
(?:대해|대한|관련)\w*[^,]*찾(?:지 못했|을 수 없)\w*
(?:말해|알려|이야기해|얘기해|언급해?|말씀해?)\s?(?:주지|주시지|하지) (?:않|못)\w*
(?:말한|언급한|말씀하신|얘기한|들은|들어본) 적이? 없\w*
^(?!.*(?:내가|제가|고 싶)).*(?:확실하지 않|확실히 모르)\w*
(?:^|[,،、，])\W*(?:잠시만|잠깐만)(?: 기다려\s?\w*|요)?(?: 주세요)?(?=\W*$|,)
(?:확인해|찾아|알아|확인)\s?(?:볼게요|보겠습니다|볼게|하겠습니다|보죠)(?=\W*$)
"""

THAI = r"""
(?:ไม่รู้|ไม่ทราบ|ไม่แน่ใจ|จำไม่ได้)(?:ค่ะ|ครับ|นะ|คะ|เลย|เรื่องนั้น|เรื่องนี้|เหมือนกัน|จริงๆ|\s)*$
(?:ไม่รู้|ไม่ทราบ|ไม่แน่ใจ)(?:เลย|เหมือนกัน)?ว่า(?!ฉัน|ผม|ดิฉัน|เรา|จะ).*(?:อะไร|ใคร|ไหน|เมื่อ|ทำไม|อย่างไร|ยังไง|เท่า|กี่|หรือ).*
ไม่(?:มี|พบ|เจอ)(?:ข้อมูล|บันทึก|รายละเอียด|การกล่าวถึง|อะไร(?:เกี่ยวกับ|ในบันทึก)).*
(?:คุณ|เธอ)(?:ก็)?(?:ยัง)?ไม่(?:ได้|เคย)(?:บอก|พูดถึง|เล่า|กล่าวถึง).*
(?:^|[,،、，])\W*(?:รอสักครู่|สักครู่|รอแป๊บ|แป๊บนึง|เดี๋ยวนะ)\w*
(?:ขอ|เดี๋ยว)(?:เช็ค|ตรวจสอบ|ดู|หา|คิด)(?:ดู|ก่อน|ให้|สักครู่|นะ|ค่ะ|ครับ|\s)*$
"""

NO_ANSWERS = {
    "en": ENGLISH,
    "de": GERMAN,
    "fr": FRENCH,
    "es": SPANISH,
    "it": ITALIAN,
    "pt": PORTUGUESE,
    "nl": DUTCH,
    "pl": POLISH,
    "tr": TURKISH,
    "ru": RUSSIAN,
    "ar": ARABIC,
    "zh": CHINESE,
    "ja": JAPANESE,
    "ko": KOREAN,
    "th": THAI,
}
"""By language an expression a line. English ones begin where a clause begins, others are looked for within a sentence."""

SIGNS = {
    "en": """
    don't dont didn't doesn't drawing not no never nothing can't cannot couldn't haven't havent hasn't isn't wasn't aren't weren't hadn't
    dunno idk unsure unknown uncertain unable moment sec second minute min hold hang wait wish tell remind beats check checking looking let lemme verify
    confirm ai
    """,
    "de": "nicht kein keine keinen keiner keinerlei nichts moment nach nachsehen nachschauen prüfen überprüfen prüfe unsicher",
    "fr": "pas aucun aucune rien instant moment seconde minute vérifie vérifier regarde regarder cherche chercher",
    "es": "no ni nunca momento momentito segundo minuto déjame déjeme permíteme voy",
    "it": "non nessuna attimo momento secondo minuto fammi lasciami controllo verifico guardo",
    "pt": "não nunca momento momentinho instante segundo minuto nenhuma sem deixa deixe-me deixa-me vou",
    "nl": "niet geen niets niks moment momentje ogenblik seconde laat kijk zoek",
    "pl": "nie nic chwileczkę chwilę chwilka chwila moment momencik brak sprawdzę zobaczę poszukam",
    "tr": """
    bilmiyorum değilim yok bulamadım söylemedin söylemediniz bahsetmedin bahsetmediniz anlatmadın anlatmadınız belirtmedin
    belirtmediniz dakika saniye an bekle bekleyin edeyim edeceğim ediyorum bakayım
    """,
    "ru": """
    не нет понятия понятия минутку минуточку секунду секундочку момент минуту проверю посмотрю уточню поищу дай дайте
    """,
    "ar": "لا لست ليس ليست لم لحظة دقيقة ثانية انتظر دعني سوف سأتحقق سأبحث",
}
"""Words of which each such text has one, in the languages that put a space between words."""

NEUTRAL = r"""
(?:(?:that's a |that is a )?(?:good|great) question|(?:i )?can't help|as far as (?:i|we)|to (?:my|the best)|(?:but )?if you (?:tell|share|let|give|can|have|remind|provide|mention|want)|feel free|let me know|please (?:share|provide|tell|let|give|clarify|remind)|i'd be (?:happy|glad)|i would be (?:happy|glad)|happy to|once you|you can (?:tell|share)|want me to|apolog|i'll (?:remember|keep)|i will (?:remember|keep)|hope|sorry|yet|so far|unfortunately|at the moment|right now|from (?:our|what)|in (?:our|my|the) (?:\w+ )?(?:conversation|memory|notes|records|chats)|based on|according to|leider|sag mir|aber|wenn du|désolé|si tu|lo siento|si me|mi dispiace|se vuoi|desculp|se você|sorry|als je|przepraszam|jeśli|извини|если|к сожалению|üzgünüm|آسف|إذا|抱歉|如果|すみません|申し訳|もし|죄송|ขอโทษ|ถ้า)
"""
"""How a clause beside such an expression begins that tells nothing either."""
