"""Words that decide what a text claims, by language: who wants or says it, whether it is so, was so, or may be so.

Each is a folded word, or the beginning of one with ``*`` behind it. They are few and common: what they miss is left to
the words themselves (``memory.entries.proof``).
"""

import re
from functools import cache, lru_cache

from layerlore.memory.parts.search_words import split_words

FRAME = """
    user users customer customers client clients person people somebody someone anybody anyone everybody everyone he she
    they human caller requester speaker assistant agent agents bot prefer prefers preferred preference preferences want
    wants wanted wish wishes wished expects expected say says said saying state states stated statement ask asks asked
    asking tell tells told mention mentions mentioned note notes noted report reports reported explain explained explains
    describe described describes according currently now remember remembers also today thing things something anything
    nothing found finding findings learned knows know known think thinks thought believes believe really just quite
    mr mrs ms dr via etc instead always euro euros eur usd dollar dollars pound pounds percent hour hours minute minutes
    second seconds day days week weeks month months year years km kg mb gb ms units
    benutzer benutzerin nutzer nutzerin anwender kunde kundin mochte mochten will wollen sagt sagte gesagt bevorzugt
    wunscht derzeit aktuell
    utilisateur utilisatrice client cliente prefere prefer* souhaite veut voudrait dit indique actuellement
    usuario usuaria cliente prefiere quiere desea dice dijo actualmente
    utente cliente preferisce vuole desidera dice detto attualmente
    utilizador utilizadora usuario usuaria prefere quer deseja disse atualmente
    gebruiker klant verkiest wil zegt zei momenteel
    uzytkownik uzytkowniczka klient klientka woli chce mowi powiedzial* obecnie
    пользователь пользовательница клиент клиентка предпочитает хочет говорит сказал* сеичас
    kullanici musteri tercih istiyor ister soyledi
    用户 使用 客户 顾客 ユー ーザ ザー さん お客 客様 사용자 사용자는 사용자가 고객
    المستخدم مستخدم العميل يريد يفضل قال
"""
"""Who an entry is about and that it was said: what need not stand in the words that prove it."""

FILLERS = """
    please thanks thank thx ok okay yes no yeah yep nope sure hello hi hey well oh hmm um uh right alright fine good great
    nice cool sorry actually really very just quite maybe perhaps also too so anyway bye welcome true exactly correct
    today now here there thing things something anything nothing everything stuff lot bit way kind sort
    one ones want wants need needs like know knows think thinks say says said tell told make makes made go goes going get
    got do does did done see seen use used
    bitte danke ja nein klar gut genau stimmt hallo also sehr ganz gerne gern
    merci oui non bonjour salut bien voila tres d'accord
    gracias si bueno vale hola claro muy
    grazie si certo ciao bene
    obrigad* sim nao ola claro bom muito
    bedankt dank ja nee hoi graag goed
    dziekuje prosze tak nie czesc dobrze bardzo
    спасибо да нет привет пожалуиста хорошо очень
    tesekkur* evet hayir merhaba tamam lutfen cok
    谢谢 是的 好的 你好 可以 不是 はい いい いえ ええ ござ ざい いま ます です 네 예 아니요 감사합니다 شكرا نعم لا مرحبا
"""
"""What tells nothing in a quotation."""

ASSENT = """
    yes yeah yep yup ya ok okay okey sure agreed agree accepted accept approved approve confirmed confirm deal correct
    exactly right absolutely definitely certainly perfect fine great good sounds lgtm +1 go ahead proceed works worked
    ja klar genau einverstanden passt gern gerne stimmt richtig perfekt machen mach
    oui d'accord accord parfait exactement entendu vas-y volontiers
    si claro vale acuerdo perfecto exacto correcto adelante
    certo perfetto esatto d'accordo va bene
    sim claro certo perfeito exato pode combinado
    akkoord prima goed graag klopt doe
    tak zgoda dobrze jasne oczywiscie dokladnie
    да давай давайте согласен согласна хорошо конечно точно верно ок
    evet tamam olur kesinlikle dogru
    好 好的 是 是的 对 可以 行 没问 问题 同意 はい ええ うん そう いい です いね です ます お願 願い いし しま 네 예 응 좋아 좋아요 그래
    نعم اجل موافق تمام حسنا
"""
DISSENT = """
    no nope nah never not don't dont stop wrong incorrect nein nee nicht falsch non pas jamais no nunca não nao niet nie нет
    не hayir yok değil degil 不 不是 不要 不行 いい いえ いや 아니 아니요 아뇨 لا كلا
"""
"""An answer that is nothing else, to a question or a proposal."""

LIKES = """
    like likes liked liking love loves loved loving enjoy enjoys enjoyed prefer prefers preferred preference preferences
    favour* favor* fond rather mag mags liebe liebt liebsten lieber bevorzug* gern gerne lieblings* aime* adore* prefere*
    gusta* encanta* prefier* favorit* piace* adoro preferi* preferit* gosto gosta adora* hou houdt lievelings* lubi* wole
    woli kocham uwielbiam люблю любит нрав* предпочит* seviyor* sever* tercih* 喜欢 喜歡 爱 最爱 好き 좋아* 사랑* احب يحب افضل يفضل
    best
"""
WISHES = """
    want wants wanted wish wishes wished please always mochte mochten will wunsche* wünsche* veux voudrais souhaite* quiero quisiera
    deseo voglio vorrei desidero quero gostaria wil zou chce chciał* хочу istiyorum 想 要 欲し ほし 원해* اريد
"""
"""Who wishes for something likes it; the other way round proves nothing."""
CONSENT = """
    lets allow* permit* permission* approv* authori* accept* agree* consent* confirm* okay* ok'd green-lit sign* endors*
    erlaub* genehmig* zugestimmt zustimm* einverstanden akzeptier* bestätig* bestatig* freigegeben freigabe
    autoris* approuv* accept* accord* permet* permis* confirm* valid*
    autoriz* aprob* aprueb* acept* permit* confirm* aprov* autorizz* approv* accett* confermo conferm* permett*
    toegestaan goedgekeurd akkoord bevestig* zatwierdz* zgod* zgadz* potwierd* pozwol* zezwol*
    разреш* одобр* соглас* подтверд* утверд* onayla* izin kabul*
    批准 同意 允许 许可 确认 承認 許可 同意 승인* 허락* 동의* موافق* وافق* سمح*
"""
"""Deeds that bind somebody: an entry that says one was done needs the word for it, or an answer that agrees."""

FORBIDS = """
    forbid* forbad* prohibit* ban bans banned reject* refus* den* declin* disallow* veto* block*
    verbot* verbiet* abgelehnt lehn* untersag* interdi* refus* prohib* rechaz* proib* rifiut* vietat* recus* verboden
    geweiger* zabron* odrzuc* odmow* запре* отказ* отклон* yasak* redde* 禁止 拒绝 拒絶 拒否 금지* 거부* ممنوع* رفض*
"""
DECIDES = """
    decid* decision* chose* choos* picked selected agreed settled entschied* entscheid* beschloss* gewählt gewahlt
    décid* decid* choisi* eleg* decis* scelt* scegl* escolh* besloten kies* koos gekozen zdecyd* wybra* реш* выбр* karar*
    seçti* secti* 决定 选择 決め 決定 選ん 결정* 선택* قرر*
"""
PROMISES = """
    promis* guarante* commit committed commits commitment* swore vow* pledg* versprach* versproch* garantier* promett*
    promes* garant* beloof* obiec* обещ* гарант* söz* 承诺 保证 約束 保証 약속* 보장* وعد*
"""
ENDS = """
    cancel* quit quits resign* terminat* fired dismissed divorc* bankrupt* storniert gekündigt gekundigt annul* kundig*
    cancelad* dimess* opgezegd anulowa* отмен* увол* iptal* 取消 辞职 キャ 취소* 사직* الغي
"""
PAYS = """
    pay pays paid payment* bezahl* zahlt* pay* payé* paga* pago* pagat* betaal* zapłac* zaplac* оплат* заплат* öde* ode* 支付
    付款 払っ 払い 지불* 결제* دفع
"""
OWES = """
    owe owes owed debt* schuld* dette* deuda* deve debito* schuldig dług* dlug* долж* borç* borc* 欠 借り 빚* دين
"""

COMMON = (
    "live lives lived living reside* resident* moved moves move based home wohn* leb* zog gezogen umgezogen zieh* habit* viv* demenag* déménag* mudo mudé mude resid* abit* "
    "traslo* mora moro moram mudou mudei woon* woont verhuis* mieszk* przeprowadz* жив* переех* yaşa* yasa* oturu* taşın* 住 住在 住ん 居住 搬到 搬 引っ 살 살고 산다 이사* يسكن اسكن يعيش اعيش",
    "work works worked working works job jobs employ* arbeit* angestellt travaill* boulot trabaj* lavor* trabalh* werk* prac* работ* calis* çalış* 工作 上班 働 働い 勤め 일하 일해* اعمل يعمل",
    "called named name names heiß* heiss* heißt nenn* appell* nomm* llam* nombre chiam* nome heet* naam nazyw* imie зовут имя adı adim adım 叫 名字 名前 이름* اسمي اسمه",
    "speak speaks speaking language sprech* spricht sprache parl* habl* fal* spreek* mowi* говор* konuş* 说 讲 話 말하*",
    "answer answers reply replies respond* response* antwort* repond* répons* respuest* respond* rispost* rispond* respost* odpowi* ответ* отвеч* cevap* yanıt* 回答 回复 答え 返事 대답* 답변*",
    "short brief concise terse kurz knapp court* bref breve* corto* cort* curt* kort* krótk* krotk* коротк* кратк* kısa* kisa* 简短 短 短く 짧*",
    "buy buys bought purchase* kauf* gekauft achet* compr* koop* kocht* gekocht kup* куп* satın* 买 购买 買 買っ 샀 사다 구매*",
    "use uses used using usage benutz* nutz* verwend* utilis* usa* uso utiliz* usiamo gebruik* używ* uzyw* использ* kullan* 用 使用 使 使っ 쓰 사용*",
    "own owns have has had having haben habe hat besitz* ai avons a tengo tenemos tiene ho abbiamo ha tenho temos tem heb hebben heeft mam mamy ma есть имеет var 有 持っ 飼っ 있*",
    "eat eats ate eating essen esse isst mang* com* come mangia* eten eet je jedz* jem ем ест yem* yiyo* 吃 食べ 食 먹*",
    "drink drinks drank drinking trink* boi* buv* bebe* bebo beve* bevo drink* drinkt pij* pije пью пьет iç* 喝 飲み 飲 飲ま 마시* 마셔*",
    "meeting meetings meet appointment* besprech* termin* treffen reunion* réunion* cita riunion* appuntament* reunia* reunião afspraak vergader* spotkan* встреч* toplantı* toplanti* randevu* 会议 会 会議 打ち 회의*",
    "fail fails failed failing failure broke broken breaks breaking crash* fehlgeschlagen scheiter* kaputt abgestürz* échou* echou* panne fall* fallo fallito rotto falhou mislukt* kapot zepsu* упал* слома* сбой bozul* 失败 坏 失敗 壊れ 실패* 고장*",
    "fix fixes fixed fixing solve* solved resolve* repair* cure* behob* gelöst gelost repar* corrig* répar* resuel* arregl* risol* ripar* resolv* consert* opgelost napraw* исправ* почин* çöz* duzelt* 修复 解决 直し 解決 修正 고쳤 해결*",
    "cause* caused because reason* root ursach* grund weil caus* raison parce porque causa* razón perché motivo oorzaak przyczyn* причин* neden* sebep 原因 因为 理由 원인* 이유*",
)
"""Words for what is said most often, a line for each meaning: so that it may be said in another language."""

DEEDS = (CONSENT, FORBIDS, DECIDES, PROMISES, ENDS, PAYS, OWES)

PERSONS = (
    "brother* bruder* frere* hermano* fratell* irmao* broer* brat brata bratem брат* kardes* 弟弟 哥哥 兄弟 형 남동생 اخي",
    "sister* schwester* soeur* sœur* hermana* sorell* irma zus siostr* сестр* ablam 妹妹 姐姐 姉妹 누나 여동생 اختي",
    "mother* mom mum mama* mutter* mere maman madre mamma mae moeder* matk* мам* мать матер* anne* annem 妈妈 母亲 お母 엄마* 어머니* امي",
    "father* dad papa vater* pere padre papà pai vader* ojci* tata отец* отц* пап* baba* 爸爸 父亲 お父 아빠* 아버지* ابي",
    "wife* frau ehefrau femme esposa mujer moglie vrouw zona żona жен* karım karim 妻子 太太 아내* زوجتي",
    "husband* mann ehemann mari esposo marido marito man mąż maz муж* kocam 丈夫 老公 남편* زوجي",
    "son sons sohn* fils hijo figlio filho zoon* syn* сын* oğlum oglum 儿子 息子 아들* ابني",
    "daughter* tochter* fille hija figlia filha dochter* córk* cork* доч* kızım kizim 女儿 娘 딸* ابنتي",
    "friend* freund* ami amie amigo* amiga* amic* vriend* przyjaci* друг* подруг* arkadaş* arkadas* 朋友 友達 友人 친구* صديق*",
    "partner* girlfriend* boyfriend* fiance* spouse* roommate* flatmate*",
    "boss* manager* supervisor* chef chefin jefe jefa capo chefe szef* начальник* müdür* mudur* patron* 老板 经理 上司 部長 사장* 상사* مديري",
    "colleague* coworker* teammate* kolleg* collègue* collegue* colega* collega* kolega* коллег* 同事 同僚 동료* زميل*",
    "neighbour* neighbor* nachbar* voisin* vecin* vicin* vizinh* buur* sąsiad* sasiad* сосед* komşu* komsu* 邻居 隣人 이웃* جار",
    "uncle* aunt* onkel* tante* oncle* tío tio tía tia zio zia oom wuj* ciot* дяд* тет* amca* teyze*",
    "grandmother* grandfather* grandma* grandpa* oma opa großmutter* grossmutter* grand-mère abuel* nonn* avô babci* dziad*",
    "landlord* vermieter* propriétaire* casero*",
    "doctor* arzt* ärztin* aerztin* médecin* medecin* médico* medico* lekarz* врач* doktor* 医生 医者 의사* طبيب*",
    "client* customer* kunde kundin kunden cliente* klant* klient* клиент* müşteri* 客户 顧客 고객*",
    "cousin* nephew* niece* child* kid kids parents baby",
)
"""Words for a person beside the speaker, a line each."""


MEANINGS = (LIKES, *DEEDS, *COMMON)
"""Lists of words of one meaning, in many languages."""


@cache
def match_words(listed: str) -> "re.Pattern[str]":
    """The words of a list as one expression, for a whole folded word."""
    ends: list[str] = []
    for word in listed.split():
        open_end = word.endswith("*")
        folded = split_words(word.removesuffix("*"))
        if folded:
            ends.append(re.escape(folded[0] if len(folded) == 1 else "".join(folded)) + (r"\w*" if open_end else ""))
    return re.compile(f"(?:{'|'.join(sorted(set(ends), key=len, reverse=True))})")


@lru_cache(maxsize=16_384)
def find_meanings(word: str) -> frozenset[int]:
    """The numbers of the lists of MEANINGS in which a folded word stands."""
    return frozenset(number for number, listed in enumerate(MEANINGS) if is_one_of(word, listed))


@lru_cache(maxsize=65_536)
def is_one_of(word: str, listed: str) -> bool:
    """Whether a folded word stands in a list."""
    return match_words(listed).fullmatch(word) is not None
