"""Expressions that change what a clause claims, by language, for text in lower case with straight apostrophes: that it is
not so, was so, may be so, or is so on a condition."""

import regex

_NEGATIONS = (
    r"n't\b|\b(?:no|not|never|none|nobody|nothing|neither|nor|without|cannot|dont|doesnt|didnt|cant|wont|isnt|hardly|barely)\b"
    r"|\b(?:nicht|kein\w*|nie|niemals|niemand|nichts|ohne|weder)\b"
    r"|\b(?:pas|jamais|sans|aucune?|rien|personne|ne|ni)\b|\bn'(?=\p{L})"
    r"|\b(?:non|mai|senza|nessun\w*|niente)\b|\b(?:nunca|jamás|sin|ningun\w*|ningún|nadie|nada|tampoco)\b"
    r"|\b(?:não|sem|nenhum\w*|ninguém)\b|\b(?:niet|geen|zonder|nooit|niemand|niets)\b"
    r"|\b(?:nie|bez|nigdy|żaden|żadn\w*|nikt|nic)\b|\b(?:не|нет|никогда|без|никто|ничего|нельзя)\b"
    r"|\b(?:değil\w*|yok\w*|asla|hiç|hiçbir)\b|\p{L}m[aıiuü]yor\w*|\p{L}m[ae]z\b|\p{L}m[ae]d[ıi]\w*"
    r"|\b(?:ليس\w*|لا|لم|لن|بدون|غير|ما)\b|[不没沒無未别勿]|ない|ません|なく|ず、|않|안 |못|없|아니|ไม่|未"
)
NEGATION = regex.compile(_NEGATIONS)
NOT_NEGATED = regex.compile(
    r"\bcan(?:'t|not) wait\b|\bnot only\b|\bno doubt\b|\b(?:don't|do not|never) (?:forget|hesitate|worry)\b|\bno (?:problem|worries|matter)\b"
    r"|\bnever ?mind\b|\bwhy not\b|\bnot bad\b|\bnothing but\b|\bno\. ?\d|\bno later than\b|\bno (?:more|less|fewer) than\b"
    r"|\bnicht nur\b|\bvergiss (?:bitte )?nicht\b|\bvergessen sie (?:bitte )?nicht\b|\bnon seulement\b|\bn'oublie[sz]?(?: surtout)? pas\b|\bno s[oó]lo\b|\bno olvides?\b"
    r"|\bnon dimenticare\b|\bnon solo\b|\bnão (?:só|esqueça|esqueças|se esqueça)\b|\bvergeet niet\b|\bnie zapomnij\b|\bне забудь\w*|\bне только\b"
    r"|\bnot to be (?:confused|mistaken)\b|\bnicht zu verwechseln\b|\b(?:à )?ne pas confondre\b|\bno (?:se )?confund\w+\b|\bda non confondere\b"
    r"|\bnão confund\w+\b|\bniet te verwarren\b|\bnie mylić\b|\bне путать\b"
    r"|不错|不过|不仅|不要忘|别忘|不但|忘れないで|しなければならない|なければなりません|なければ|잊지"
)
"""What looks like one, and denies nothing."""
CONTRADICTS_BEFORE = regex.compile(
    r"\W*(?:(?:oh|ah|uh|well|actually|sorry|wait) ?,? ?)?(?:(?:no|nope|nah|nein|nee|non|não|nie|нет|hayır|yok|لا|不|不是|不对|いいえ|いや|違う|아니|아니요)\W*)+"
)
"""A clause that is nothing but a no: it denies what somebody said before, and nothing of what follows it."""
ALIKE = regex.compile(
    r"\b(?:avoid|dislik|hate|hating|refus|forbid|forbad|prohibit|ban\b|banned|except|only\b|instead|rather|fail|lack|miss|wrong|unable|unless"
    r"|stop|quit|reject|against|den(?:y|ied|ies)|decline|rul\w+ out|exclud|former|used to|allerg|intoleran|vegan|vegetarian|disabl|remov"
    r"|drop|replac|previous|past\b|opposed|opposes|broken|breaks|free\b|abandon|cancel|absent|empty|off\b|un\p{L}{4,}|in(?:valid|correct|active|compatib)\w*|im(?:possib)\w*|ir(?:relev)\w*|dis\p{L}{4,}|impossible|skip|leave out|left out|cease|end(?:ed|s)\b"
    r"|vermeid|hass|verbot|verbiet|statt|außer|lehn|gegen\b|fehl|ausgeschloss|früher|ehemal|aufgehört|unmöglich|nur\b"
    r"|évit|détest|refus|interdi|sauf|contre\b|manqu|plutôt|seulement"
    r"|evit|odi[ao]|rechaz|prohib|salvo|excepto|contra\b|solo\b|sólo\b|proib|rifiut|vietat|evita|tranne|somente|apenas"
    r"|vermijd|haat|verboden|alleen\b|tegen\b|unika|zabron|nienawi|tylko\b|избег|ненавид|запре|только|против|кроме|yasak|sadece|nefret"
    r"|ممنوع|فقط)"
    r"|避免|讨厌|討厭|禁止|只|嫌い|避け|だけ|싫|금지|만 |안"
)
"""What says without a negation that something is not so."""

HEDGE = regex.compile(
    r"\b(?:might|maybe|perhaps|possibly|probably|presumably|supposedly|allegedly|apparently|rumou?r\w*|could be|may be|may have|might have|not (?:yet )?(?:sure|certain|decided)|unsure|undecided|consider(?:s|ing)?"
    r"|thinking (?:of|about)|think about|wondering|suspects?|guess|assum\w+|hypothetical\w*|pretend\w*|imagine|suppose|let's say|what if|as if|joking|kidding|just kidding|dream(?:s|t|ed)? (?:of|about|that)|i wish i|roughly guess|seems?|looks like|tentative\w*|in theory|not confirmed|unconfirmed"
    r"|vielleicht|möglicherweise|eventuell|wahrscheinlich|vermutlich|angeblich|überleg\w*|könnte\w*|stell dir vor|angenommen|mal angenommen|unsicher|scheint|anscheinend"
    r"|peut-être|probablement|sans doute|imagine[zr]?|j'hésite|apparemment|il paraît|supposons"
    r"|quizás?|tal vez|probablemente|posiblemente|a lo mejor|imagina|supongamos|estoy pensando|puede que"
    r"|forse|probabilmente|magari|immagina|supponiamo|sto pensando|può darsi"
    r"|talvez|provavelmente|possivelmente|imagine|suponha\w*|estou pensando|acaso"
    r"|misschien|wellicht|waarschijnlijk|mogelijk|stel dat|blijkbaar|ik overweeg"
    r"|może|chyba|prawdopodobnie|wyobraź|zastanawiam|załóżmy|być może"
    r"|возможно|может быть|наверное|вероятно|кажется|представь\w*|допустим|думаю о|подумываю|предположим"
    r"|belki|muhtemelen|galiba|sanırım|diyelim|herhalde"
    r"|ربما|لعل|يمكن أن|تخيل|افترض)\b"
    r"|也许|可能|大概|或许|假设|想象|好像|かもしれ|たぶん|多分|おそらく|仮に|もしかし|だろう|でしょう|아마|혹시|같아|수도 있|가정|อาจ"
)
"""What may be so."""
CONDITION = regex.compile(
    r"\b(?:if|unless|provided(?: that)?|in case|as long as|assuming|supposing|should (?:we|you|they|he|she|it|i)\b(?=[^?]*,)|had (?:i|we|he|she|they|it)\b(?=[^?]*,)"
    r"|wenn|falls|sofern|solange|s'ils?|à condition|au cas où|siempre que|en caso|qualora|a patto|desde que|indien|tenzij|mits|jeśli|jeżeli|gdyby\w*|gdy|o ile"
    r"|если|коли|при условии|eğer|şayet|takdirde|إذا|لو)\b|\p{L}{2,}s[ae]\b(?=,)"
    # Words that mean something else in the language beside it.
    r"|^\W*(?:(?:et|y|e|mais|pero|ma|mas|en|maar)\s)?(?:si (?!chiama|tratta|trova|può|deve|è)|se (?:il|lo|i|gli|non|ti|mi|vuoi|puoi|devo|posso|o|a|os|as|eu|você|ele|ela|for|não|tiver|quiser|houver|precisar|estiver|tudo|passar\w*)\b"
    r"|caso \p{L}+ |als (?:je|u|ik|het|de|we|wij|hij|zij|er|ze|dit|dat)\b)"
    r"|如果|要是|假如|只要|除非|もし|れば|たら|なら|만약|으면|라면|ถ้า"
)
_WITH_YOU = regex.compile(
    r"\b(?:if|when|unless|in case) (?:you|possible|needed|in doubt|i (?:ask|say|forget|don't|am not|write|call|mention))\b"
    r"|\b(?:wenn|falls) (?:du|man|möglich|nötig|ich (?:frage|sage))\b|\bsi (?:tu|vous|possible|je te|je vous)\b|\bsi (?:es posible|me|te|usted|puedes)\b|\bse (?:ti|puoi|possibile|você|possível)\b|\bals (?:je|u|ik je)\b|\bесли (?:ты|вы|я)\b|如果你|如果我"
)
CONDITIONED = regex.compile(
    CONDITION.pattern
    + r"|\b(?:when|whenever|while|until|before|after|once|provided|condition\w*|depend\w*|would|upon|subject to|pending"
    r"|sobald|bevor|nachdem|würde\w*|bedingung\w*|quand|lorsque|condition\w*|cuando|condici\w+|quando|condizion\w*|condiç\w+"
    r"|wanneer|voordat|nadat|voorwaarde|kiedy|zanim|когда|условии|zaman|koşul\w*|عند)\b|当|时|とき|場合|때"
)
"""What keeps a condition in an entry."""
FORMERLY = regex.compile(
    r"\b(?:used to|formerly|previously|back then|no longer|not anymore|any ?more|once (?:was|were|had|lived|worked)|in the past|as a (?:child|kid|student|teenager)|until (?:last|recently)|was going to|were going to|were supposed to|was supposed to|had planned"
    r"|früher|ehemals|damals|nicht mehr|als kind|autrefois|avant|ancien\w*|ne plus|antes|solía|de niño|de niña|ya no|una volta|prima|da bambin\w*|non più|antigamente|costumava|já não|não mais"
    r"|vroeger|destijds|niet meer|dawniej|kiedyś|już nie|раньше|когда-то|прежде|больше не|eskiden|artık değil|سابقا|كان)\b"
    r"|以前|曾经|过去|不再|昔|かつて|もう|예전|옛날|더 이상"
)
"""What was so once."""
PAST = regex.compile(
    r"\b(?:was|were|had|did|used to|former\w*|previous\w*|ex|past|once|no longer|not|stopped|until|before|\p{L}{3,}ed|lived|left|went|gave|kept|ago|earlier|back|don't|doesn't|anymore|switched|moved"
    r"|war|waren|hatte\w*|früher|ehemal\w*|nicht|kein\w*|damals|wurde\w*|\p{L}{3,}te[nt]?|vorher|mehr"
    r"|avait|était|avant|ancien\w*|autrefois|plus|\p{L}{3,}ait|pas|antes|era|solía|\p{L}{3,}aba|\p{L}{3,}ía|ya no|no|una volta|prima|\p{L}{3,}va|non|antigamente|não|já"
    r"|vroeger|was|had|niet|dawniej|kiedyś|nie|раньше|прежде|не|больше|\p{L}{2,}л[аио]?|eskiden|değil|\p{L}{2,}(?:du|dı|di|dü))\b"
    r"|以前|曾|过去|不再|了|昔|かつて|た|예전|였|었|않"
)
"""What keeps in an entry that it is over."""
RETRACTION = regex.compile(
    r"(?:^|\s)/s\b|\b(?:just kidding|kidding|j/k|joking|a joke|not serious(?:ly)?|(?:that's|that is|this is|it's|that was|which is|he's|she's|they're) (?:just |simply |completely |plain )?(?:wrong|false|untrue|not true|incorrect|nonsense|a lie)"
    r"|scratch that|take (?:that|it) back|(?<!n't )(?<!not )(?<!never )forget (?:that\b(?! i\b)|what i (?:just )?said)|strike that|i was wrong|i misspoke|my mistake|correction:|not what i meant"
    r"|(?:nur |bloß )?(?:ein )?scherz|(?:nur|bloß) spaß|stimmt (?:aber |so |gar )?nicht|das ist falsch|quatsch|une blague|je plaisante|je rigole|c'est faux|es falso|una broma|en broma|uno scherzo|scherzavo|scherzando|è falso"
    r"|brincadeira|é mentira|grapje|żart\w*|żartuję|шучу|шутка|неправда|şaka)\b|开玩笑|不是真的|冗談|うそです|농담"
)
"""What takes back what was said just before."""
INTENT = regex.compile(
    r"^\W*(?:please|pls|kindly|bitte|merci de|por favor|per favore|alsjeblieft|proszę|пожалуйста|lütfen)\b|\b(?:will|'ll|going to|gonna|plan(?:s|ning)? to|want(?:s)? to|would like to|'d like to|hope(?:s)? to|hoping to|intend(?:s)? to|need(?:s)? to|try(?:ing)? to|tomorrow|next (?:week|month|year|sprint)|soon|later|about to|should|have to|must|could|can|may|might|todo|to do)\b"
    r"|\b(?:werde|werden|wird|will|wollen|möchte\w*|plane\w*|vor|morgen|müssen|muss|soll\w*)\b|\b(?:vais|va|allons|vont|veux|voulons|voudrais|demain|dois|devons)\b"
    r"|\b(?:voy a|va a|vamos a|quiero|queremos|quisiera|mañana|debo|debemos)\b|\b(?:voglio|vorrei|domani|devo|dobbiamo)\b|\b(?:vou|vamos|quero|queria|amanhã|devo)\b"
)
"""What is meant to be done, and is not."""
DONE = regex.compile(
    r"\b(?:was|were|has|have|had|did) (?:been |just |already |now )*\p{L}{3,}(?:ed|en|t|ne|ade|ent)\b|\b(?:is|are) (?:done|finished|complete|completed|live|deployed|over|now)\b"
    r"|(?<!\b(?:is|are|be|to be|being|get|gets|asked|want|wants|wanted|planned|needed|intended|decided|scheduled|supposed|expected|agreed) )\b(?!need|shed|speed|feed|seed|breed|wanted|planned|needed|intended|agreed|scheduled|asked|decided|hoped|requested|expected|supposed|preferred|liked|allowed|used|required|called|named|based|located|interested|married|allergic)\p{L}{3,}ed\b"
    r"|\b(?:hat|haben|wurde|wurden|ist|sind)\b[^.]*\bge\p{L}{3,}(?:t|en)\b|\b(?:a|ont|ai|avons) \p{L}{2,}é\w*\b|\b(?:ha|han|he|hemos) \p{L}{2,}(?:ado|ido)\b|\b(?:ha|hanno|ho|abbiamo) \p{L}{2,}(?:ato|uto|ito)\b"
)
"""What an entry says was done."""
WISH = regex.compile(
    r"^\W*(?:(?:and|so|also|ok|okay|hey|hi)\W+)*(?:can|could|would|will) you\b(?=.*\b(?:please|always|never|from now on|in (?:the )?future|stop|remember|keep in mind|note that|call me|avoid|make sure|only|instead)\b)"
    r"|\bwould you mind\b|\b(?:kannst|könntest|würdest) du\b(?=.*\b(?:bitte|immer|nie|ab jetzt|künftig|in zukunft|merk\w*|nur|aufhören)\b)|\b(?:können|könnten|würden) sie\b(?=.*\b(?:bitte|immer|nie|künftig|nur)\b)"
    r"|\b(?:peux-tu|pourrais-tu|tu peux|tu pourrais|pouvez-vous|pourriez-vous)\b(?=.*\b(?:toujours|jamais|désormais|plus|arrêter|retenir|noter|s'il)\b)"
    r"|\b(?:puedes|podrías|puede|podría)\b(?=.*\b(?:siempre|nunca|por favor|recordar|dejar de|a partir)\b)|\b(?:puoi|potresti|può|potrebbe)\b(?=.*\b(?:sempre|mai|per favore|ricordare|smettere|d'ora)\b)"
    r"|\b(?:pode|poderia|podes|podias)\b(?=.*\b(?:sempre|nunca|por favor|lembrar|parar)\b)|\b(?:kun|kan|zou|wil) (?:je|u)\b(?=.*\b(?:altijd|nooit|voortaan|alsjeblieft|onthouden|stoppen)\b)"
    r"|\b(?:możesz|mógłbyś|mogłabyś)\b(?=.*\b(?:zawsze|nigdy|proszę|pamiętać)\b)|\b(?:можешь|можете|мог бы|могли бы)\b(?=.*\b(?:всегда|никогда|пожалуйста|запомнить|перестать)\b)"
)
"""A wish in the shape of a question."""
FIRST_PERSON = regex.compile(
    r"\b(?:i|i'm|i'd|i've|i'll|me|my|mine|myself|we|we're|we've|us|our|ours|ich|mich|mir|mein\w*|wir|uns|unser\w*|je|j'\w+|moi|mon|ma|mes|nous|notre|nos|yo|me|mi|mis|mí|nosotr\w+|nuestr\w+|io|mio|mia|miei|mie|noi|nostr\w+"
    r"|eu|meu|minha|meus|minhas|nós|nosso\w*|nossa\w*|ik|mij|mijn|wij|we|ons|onze|ja|mnie|mi|mój|moja|moje|my|nas|nam|nasz\w*|я|меня|мне|мо\w+|мы|нас|нам|наш\w*|beni|benim|bana|biz|bizim|أنا|نحن)\b"
    r"|我|私|僕|俺|わたし|ぼく|나는|내가|저는|제가|나의|제 |우리|내 |ผม|ฉัน|\b(?:soy|estoy|tengo|vivo|trabajo|quiero|prefiero|sono|ho|abito|lavoro|vorrei|preferisco|sou|estou|tenho|moro|trabalho|quero|prefiro|jestem|mam|mieszkam|pracuję|wolę|live in|работаю|живу|предпочитаю)\b"
)
OTHERS_OWN = regex.compile(
    r"\b(?:my|our|mein\w*|unser\w*|mon|ma|mes|notre|nos|mi|mis|nuestr\w+|mio|mia|mie|nostr\w+|meu|minha|nosso|nossa|mijn|onze|ons|mój|moja|moje|nasz\w*|мой|моя|моё|мои|наш\w*)\s+(\p{L}+(?:\s+\p{L}+)?)"
)
"""Whom or what a speaker calls his own."""
REPORTED = regex.compile(
    r"\b(?:says?|said|claims?|claimed|writes|wrote|tells|told|asks|asked|thinks|believes|according to|heard that|rumou?r|reads?|sagt|sagte|behauptet|laut|schreibt|dit|affirme|selon|dice|dijo|afirma|según|secondo|diz|disse|segundo|zegt|beweert|volgens|mówi|twierdzi|według|говорит|сказал\w*|утвержда\w+|по словам|söyl\w+|iddia)\b|说|認為|言って|と言|据|말했|قال"
)


def find_negations(clause: str) -> int:
    """How many negations a clause has: two of them deny nothing."""
    return len(NEGATION.findall(NOT_NEGATED.sub(" ", clause)))


def states_condition(sentence: str) -> bool:
    """Whether a sentence is so on a condition that may not be met; what is asked of a listener is none."""
    return CONDITION.search(sentence) is not None and _WITH_YOU.search(sentence) is None
