"""Function words, which say nothing of what a question is about, by language.

Short lists of our own: those of the packages hold words like *fire*, *bill* and *computer*, which people look for. A
word of one language is a meaningful word in another (*die*, *war*, *son*), so only those of the question's own language
are dropped: of the language that most of its words are function words of, and no word that is written as a name.
"""

# As words are folded: of one language function words, and what people look for or whom they are called in another. They
# are no sign of a question's language: *son school*, *shoe size*, *Sara's birthday*, *fur coat*.
NO_SIGN = frozenset(
    """
    ad ai ale ate ben bin bo come dal dan die door dove due era fur go hat hem hoe jest kim man meme men mia nun os par
    per pod pour reeds sans sara sea sen sim sin size sob son sue tan ten ton tout uber van var want war
    """.split()  # noqa: SIM905
)

# By language, English first.
FUNCTION_WORDS = {
    "en": """
    a about above after again against all also am an and any are aren as at be because been before being below between
    both but by can cannot could couldn d did didn do does doesn doing don down during each ever every few for from
    further get gets got had hadn has hasn have haven having he her here hers herself him himself his how i if in into
    is isn it its itself just let ll m may me might mightn more most must mustn my myself needn no nor not now of off
    on once one only or other ought our ours ourselves out over own please re s same shall shan she should shouldn so
    some such t tell than that the their theirs them themselves then there these they this those through to too under
    until up upon us ve very was wasn we were weren what when where which while who whom whose why will with won would
    wouldn y you your yours yourself yourselves
    """,
    "de": """
    aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes auch auf aus bei beim
    bin bis bist da dabei damit dann das dass dazu dein deine deinem deinen deiner dem den denn der deren des dessen
    dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines er es etwas
    euch euer eure für gegen habe haben hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im
    in ins ist ja jede jedem jeden jeder jedes jene jetzt kann kannst kein keine keinem keinen keiner können könnte mal
    man mein meine meinem meinen meiner mich mir mit muss müssen nach nicht nichts noch nun nur ob oder ohne sehr sein
    seine seinem seinen seiner seit sich sie sind so solche soll sollte sondern sonst über um und uns unser unsere unter
    viel vom von vor während wann war waren warum was weil welche welchem welchen welcher welches wenn wer werde werden
    weshalb wessen wie wieder will wir wird wo woher wohin wollen wollte womit wurde wurden zu zum zur zwar zwischen
    """,
    "es": """
    a al algo alguien algún alguna algunas alguno algunos ante antes aquel aquella aquello así aún aunque cada como con
    contra cuál cuáles cualquier cuándo cuando cuánto cuánta cuántos cuántas de del desde donde dónde dos durante e el él
    ella ellas ellos en entre era eran eres es esa esas ese eso esos esta está están estas este esto estos estoy fue
    fueron ha hace hacia haber había han has hasta hay he la las le les lo los más me mi mí mis mucho muy nada ni no nos
    nosotros nuestra nuestras nuestro nuestros o os otra otro para pero poco por porque puede puedo que qué quien quién
    quiénes se sea según ser si sí sido sin sobre son soy su sus suya suyo también tan tanto te tengo tiene tienen todo
    todos tu tú tus un una unas uno unos usted ustedes y ya yo
    """,
    "fr": """
    a ai aie au aucun aussi autre aux avait avec avez avoir avons c ce ceci cela celle celui ces cet cette ceux chaque
    chez comme comment d dans de depuis des donc dont du duquel elle elles en encore entre es est et était été être eu
    eux fait il ils j je jusqu l la laquelle là le lequel les lesquels leur leurs lors lui m ma mais me même mes moi mon
    n ne ni nos notre nous on ont où ou par parce pas pendant peu peut peux plus pour pourquoi qu quand que quel quelle
    quelles quels qui quoi s sa sans se sera ses si son sont sous suis sur t ta te tes toi ton tous tout toute très tu un
    une vos votre vous y
    """,
    "it": """
    a ad agli ai al alla alle allo anche ancora avere aveva c che chi ci ciò come con contro cosa così cui d da dagli dai
    dal dalla dalle dallo degli dei del della delle dello di dopo dove due e è ed era erano essere fa fino fra già gli ha
    hai hanno ho i il in io l la le lei li lo loro lui ma me mentre mi mia mie miei mio molto ne negli nei nel nella nelle
    nello no noi non nostra nostro o ogni per perché perciò però più poco poi potere può qual quale quali quando quanta
    quante quanti quanto quella quelle quelli quello questa queste questi questo s sarà se sei senza si sia siamo sono su
    sua sue sugli sui sul sulla sulle suo suoi tra tu tua tuo tutti tutto un una uno vi voi
    """,
    "pt": """
    a à ao aos aquela aquele aquilo as às até cada com como contra da das de dela dele deles depois desde do dos e é ela
    elas ele eles em entre era eram essa essas esse esses esta está estão estas este estes estou eu foi foram há isso
    isto já lhe lhes mais mas me mesmo meu meus minha minhas muito na nas nem no nos nós nossa nosso num numa não o onde
    os ou para pela pelas pelo pelos pode por porque porquê posso qual quais quando quanta quantas quanto quantos que quê
    quem se seja sem ser seu seus sim sob sobre somos sou sua suas são só também te tem têm tenho ter teu tua tudo um uma
    umas uns você vocês
    """,
    "nl": """
    aan al alle als altijd andere ben bij daar dan dat de deze die dit doch doen door dus een eens en er ge geen had heb
    hebben heeft hem het hier hij hoe hun ik in is ja je jij jou jouw kan kon kunnen maar me meer men met mij mijn moet
    na naar niet niets nog nu of om omdat ons onze ook op over reeds te tegen toch toen tot tussen u uit uw van veel voor
    waar waarom wanneer want waren was wat we wel welk welke werd wezen wie wij wil worden wordt zal ze zich zij zijn zo
    zonder zou
    """,
    "pl": """
    a aby albo ale ani aż bardzo bez bo by być był była było były ci cię co czego czemu czy czyj czyja dla do gdy gdzie go
    i ich ile im ja jak jaka jaki jakie jako je jego jej jest jestem jeszcze jeśli już każdy kiedy kim kogo komu która
    które którego której który którzy kto lub ma mam mi mnie moja moje może mój mu my na nad nam nas nasz nasza nic nie
    niż o od on ona one oni ono oraz po pod przed przez przy są się skąd ta tak także tam te tego tej ten to tobie tu twoja
    twoje twój ty tylko tym u w was wasz we wy z za ze że
    """,
    "ru": """
    а без бы был была были было быть в вам вас ваш во вот все всё всего вы где да для до его ее её если есть еще ещё же за
    и из или им их к как какая какие какого какое какой когда кого кому которая которые который кто куда ли лишь меня мне
    мной мои мой моя мы на над нам нас наш не него нее неё нет ни них но о об он она они оно от откуда очень по под почему
    при про с сам свой себя со так такая такой там тебя тем то тобой тогда того тоже только том тот ты у уже чего чей чем
    что чтобы чья эта эти это этот я
    """,
    "tr": """
    acaba ama ancak bana bazı belki ben benden beni benim bir biz bize bizi bizim bu bunu bunun çok çünkü da daha de değil
    diye en gibi hangi hangisi hem hep hepsi her hiç için ile ise kaç kendi ki kim kime kimi kimin mi mı mu mü nasıl ne
    neden nerede nereye nereden niçin niye o ona onlar onu onun sana sen seni senin siz size sizin şey şu tüm var ve veya
    ya yani yok
    """,
}
