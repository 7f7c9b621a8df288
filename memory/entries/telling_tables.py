"""Endings, letters, days, months and numbers, by language: what telling words are compared by."""

from layerlore.memory.parts.search_words import split_words

# The longest first; of equal ones those that stand first.
_SUFFIXES = """
    ingly edly ations ation ments ment ness ings ing ied ies ed es s ly er ers al e y
    ungen ung en em ern st te ten tet t n
    ements ement ait ais ons ez ent ant a o as os i ar ir are ere ire ado ido ando iendo aron amos ato ito uto ują
    uje am ami ach ów ow u ie ę ą
    ами ями ого его ому ему ых их ый ий ая яя ое ее ой ей ом ем ам ям ах ях ы и а я о е у ю ь ть л ла ли ет ит ют ят
    ları leri lar ler dan den da de ı yor iyor
"""
SUFFIXES = tuple(sorted(_SUFFIXES.split(), key=len, reverse=True))

# Each letter, and behind it the Latin ones for it.
_CYRILLIC = """
    а a б b в v г g д d е e ж zh з z и i й i к k л l м m н n о o п p р r с s т t у u ф f х kh ц ts ч ch ш sh щ shch ы y э e
    ю yu я ya і i ї i є e ґ g
"""
_GREEK = "α a β v γ g δ d ε e ζ z η i θ th ι i κ k λ l μ m ν n ξ x ο o π p ρ r σ s ς s τ t υ y φ f χ ch ψ ps ω o"
_LETTERS = f"{_CYRILLIC} {_GREEK}".split()
LATIN_LETTERS = {**dict(zip(_LETTERS[::2], _LETTERS[1::2], strict=True)), "ъ": "", "ь": ""}

_DAYS = """
    monday mon montag lundi lunes lunedi segunda maandag poniedziałek понедельник pazartesi
    tuesday tue tues dienstag mardi martes martedi terça dinsdag wtorek вторник salı
    wednesday wed mittwoch mercredi miércoles mercoledi quarta woensdag środa среда среду çarşamba
    thursday thu thurs donnerstag jeudi jueves giovedi quinta donderdag czwartek четверг perşembe
    friday fri freitag vendredi viernes venerdi sexta vrijdag piątek пятница пятницу пятницам cuma
    saturday sat samstag sonnabend samedi sábado sabato zaterdag sobota sobotę суббота субботу cumartesi
    sunday sun sonntag dimanche domingo domenica zondag niedziela niedzielę воскресенье pazar
"""

_MONTHS = """
    january jan januar jänner janvier enero gennaio janeiro januari styczeń stycznia январь января ocak
    february feb februar février febrero febbraio fevereiro februari luty lutego февраль февраля şubat
    march mär märz mars marzo março maart marzec marca март марта mart
    april apr avril abril aprile kwiecień kwietnia апрель апреля nisan
    may mai mayo maggio maio mei maj maja май мая mayıs
    june jun juni juin junio giugno junho czerwiec czerwca июнь июня haziran
    july jul juli juillet julio luglio julho lipiec lipca июль июля temmuz
    august aug août agosto augustus sierpień sierpnia август августа ağustos
    september sep sept septembre septiembre settembre setembro wrzesień września сентябрь сентября eylül
    october oct oktober octobre octubre ottobre outubro październik października октябрь октября ekim
    november nov novembre noviembre novembro listopad listopada ноябрь ноября kasım
    december dec dezember décembre diciembre dicembre dezembro grudzień grudnia декабрь декабря aralık
"""

_NUMBERS = """
    0 zero null zéro cero ноль sıfır
    1 one ein eins eine einen einem un une uno una um uma een jeden jedna один одна одну bir first erste ersten premier primero primo primeiro eerste pierwszy первый
    2 two zwei deux dos due dois duas twee dwa dwie два две iki twice second zweite zweiten deuxième segundo secondo tweede drugi второй couple
    3 three drei trois tres tre três drie trzy три üç third dritte troisième tercero terzo terceiro derde trzeci третий thrice
    4 four vier quatre cuatro quattro quatro cztery четыре dört fourth vierte
    5 five fünf cinq cinco cinque vijf pięć пять beş fifth fünfte
    6 six sechs seis sei zes sześć шесть altı sixth
    7 seven sieben sept siete sette sete zeven siedem семь yedi seventh
    8 eight acht huit ocho otto oito osiem восемь sekiz eighth
    9 nine neun neuf nueve nove negen dziewięć девять dokuz ninth
    10 ten zehn dix diez dieci dez tien dziesięć десять on tenth
    11 eleven elf onze once undici jedenaście одиннадцать
    12 twelve zwölf douze doce dodici doze twaalf dwanaście двенадцать dozen dutzend
    13 thirteen dreizehn treize trece
    14 fourteen vierzehn quatorze catorce fortnight
    15 fifteen fünfzehn quinze quince quindici vijftien
    20 twenty zwanzig vingt veinte venti vinte twintig dwadzieścia двадцать yirmi
    30 thirty dreißig trente treinta trenta trinta dertig trzydzieści тридцать otuz
    40 forty vierzig quarante cuarenta quaranta quarenta veertig
    50 fifty fünfzig cinquante cincuenta cinquanta cinquenta vijftig
    60 sixty sechzig soixante sesenta sessanta
    90 ninety neunzig
    100 hundred hundert cent cien ciento cento cem honderd sto сто yüz
    1000 thousand tausend mille mil duizend tysiąc тысяча тысяч bin grand
    1000000 million millionen
"""

_SELDOM_NUMBERS = """
    one ein eine einen einem un une uno una um uma een on bin first second couple sei sept once mil sto due tre dos
    otto null mars mart mar sun sat wed mon jan may mai maj
"""
SELDOM_NUMBERS = frozenset(_SELDOM_NUMBERS.split())


def _table(listed: str, prefix: str, *, named: bool = False) -> dict[str, str]:
    found: dict[str, str] = {}
    for at, line in enumerate(listed.strip().splitlines()):
        words = line.split()
        key = words[0] if named else str(at + 1)
        for word in words[named:]:
            found["".join(split_words(word))] = prefix + key
    return found


_TIMES = """
    hourly stündlich horaire
    daily täglich tägliche täglichen täglicher quotidien quotidienne diario diaria diariamente quotidiano quotidiana dagelijks dagelijkse codziennie ежедневно ежедневный günlük
    weekly wöchentlich wöchentliche wöchentlichen hebdomadaire semanal settimanale wekelijks wekelijkse tygodniowo еженедельно еженедельный haftalık
    monthly monatlich monatliche monatlichen mensuel mensuelle mensual mensile mensal maandelijks miesięcznie ежемесячно ежемесячный aylık
    quarterly vierteljährlich trimestriel trimestral trimestrale
    yearly annual annually jährlich jährliche jährlichen annuel annuelle anual annuale jaarlijks rocznie ежегодно ежегодный yıllık
"""
CALENDAR = _table(_DAYS, "day:") | _table(_MONTHS, "month:") | _table(_TIMES, "every:")

CALENDAR_KEYS = ("day:", "month:", "every:")
NUMBER_WORDS = _table(_NUMBERS, "", named=True)
