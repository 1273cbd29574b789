"""What the language detection knows by heart: scripts of one language, frequent words, letters."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["CANDIDATES", "CLOSE", "LETTERS", "ONE_LANGUAGE", "SPELLING", "WORDS"]

ONE_LANGUAGE: Final = {
    "Armenian": "hy",
    "Georgian": "ka",
    "Greek": "el",
    "Gujarati": "gu",
    "Gurmukhi": "pa",
    "Hangul": "ko",
    "Han": "zh",
    "Hebrew": "he",
    "Hiragana": "ja",
    "Kannada": "kn",
    "Katakana": "ja",
    "Khmer": "km",
    "Lao": "lo",
    "Malayalam": "ml",
    "Myanmar": "my",
    "Oriya": "or",
    "Sinhala": "si",
    "Tamil": "ta",
    "Telugu": "te",
    "Thaana": "dv",
    "Thai": "th",
}

# Labels of the model by script; "zxx" is its class for what is no language.
CANDIDATES: Final = {
    "Arabic": "ar fa ku ps ug ur",
    "Bengali": "as bn",
    "Cyrillic": "ba be bg kk ky mk mn ru sr tg tt uk",
    "Devanagari": "hi mr ne sa",
    "Latin": "af az br bs ca cs cy da de en eo es et eu fi fo fr fy ga gd gl ha hr ht hu id ig is"
    " it jv ku la lb lg ln lt lv mg ms mt nl nn no oc om pl pt qu ro rw se sk sl sn so sq sr st sv"
    " sw tk tl tr uz vi wa xh yo zu zxx",
}

# Frequent words that point to one of these languages: nine tenths or more of their uses in
# sentences of 20 languages are in it (English ones by hand). Where they agree, they decide without
# the model, whose tables are large and therefore slow to reach.
WORDS: Final = {
    "cs": "že jsem v mě s pro teď má kdo jste proč nás jsou jsme jen všichni vám něco jsi byl"
    " tě toho být tohle mít mám když k ji ještě byli byla bychom všechny všechno tady"
    " pořád pokud není nebo",
    "da": "hvad af hvordan ud bedste noget",
    "de": "und von sie ist für zu eine ein auf wie im einen wird dass sich nicht sind einem"
    " oder aus auch wenn haben mir wir einer nach zum mich über hat meine aber nur noch"
    " diese zur dann",
    "en": "the and you this is are to of i my what that can how from with not there when get"
    " like if your why please would know want some they just where about any which it have"
    " been has will were our could should after before again because these those other very"
    " much their them then need since while does did it's i'm",
    "es": "el los las más fue también pero cuando muy esto tiene qué hasta usted tiempo tan"
    " hace mejor algún después así ese tal tenga",
    "fi": "ei hän mitä että ole olet sinä oli olen olla niin miten tämä onko nyt mutta minä"
    " kaikki joka vain täällä olisi olin olette ihan sitten sinulle ovat mistä meidän"
    " kaksi joku jo hyvä emme anna yhdessä tässä tänä",
    "fr": "les est une pour vous dans sur plus sont été avec c'est aux cette comme être pendant"
    " votre tout nous elle très où fait qu'il ces leur ils avoir faire avait s'est sans"
    " avez quand vont",
    "hu": "nem hogy és egy még ez csak kell volt azt ezt én talán nincs jó akkor több nagyon"
    " már miért mert majd kis amit így valami vagyok vagy sosem neked maga lesz jól ő úgy"
    " volna teljesen nagy",
    "id": "yang untuk dari ini saya akan sebuah dengan ke dalam apa tidak hari ada mereka anda"
    " bisa lebih itu adalah bahwa ingin oleh apakah seperti bagaimana telah sudah tempat"
    " semua tersebut beberapa hanya kita mungkin",
    "it": "che è della più sono gli dei questo nel nella essere sarà stato mia anche dal questa"
    " degli ad prima dai molto dove tutto sia suo ogni tutti mio può dalla voglio quello"
    " tutte oggi io",
    "lt": "ar yra į iš šiandien kas koks kokia šį visus apie kad kaip bet jau labai",
    "nl": "het een voor op ik dat met zijn aan niet wat mijn deze naar uit hij wordt maar door"
    " hoe ook heeft gaat worden vind heb weer hebben veel nog zo kunnen geen wanneer",
    "no": "å hva deg noe gjør ble opp hadde dere når noen gjøre vært seg hvem fikk vent ut spør"
    " rett prøvde nå nar kanskje holde folk finne ditt deres dager blitt",
    "pl": "w się nie jest że może dla czy tym gdy jeśli być tego będzie tylko możesz już była"
    " tej był więc masz bardzo jego kiedy było jeszcze jej takie wszystko jesteś czas",
    "pt": "em é uma os não com são ao foi ele seu mas pode muito há isso tem eles onde foram"
    " estava estão seus dois tão ela essa bem ainda só ficar fazer tinha agora vão",
    "ro": "să în cu şi că pe mă fost sunt cum asta poate eşti pentru fi dacă acum îmi vreau"
    " trebuie foarte pot mea cel care aşa spui nimeni face ea când și ştiu îţi vă uite"
    " spune putea nici",
    "sv": "jag är att inte för och ett vad hon till vill här ska måste mitt varför vara hur än"
    " utan mycket hade gör där älskar tog några när honom säga nåt låta komma hennes göra"
    " gav ens behöver väl",
    "sw": "ya wa kwa katika kwenye kuwa kama cha zaidi kwamba wakati kutoka vya nyingi mara ili"
    " lakini ambayo kawaida kwanza hata sehemu hii sababu pia mnamo ilikuwa baadhi kila"
    " karibu hali baada juu njia huo hadi ambao pamoja",
    "tr": "bir için bu daha çok kadar sonra gibi iyi tüm bana zaman bugün nasıl onu yer sadece"
    " gece olduğunu içinde bunu başka benim ilgili bütün hangi hiçbir şey neden kar",
    "vi": "có và là một của được các không đã trong tôi thể những ở sẽ người với cho để này khi"
    " vào đến ra như đó trên sự từ thế việc lại đang đi bị nhất phải họ chúng cả",
}

# Letters that do the same as such words; the one of Azerbaijani is here to contradict the Turkish.
LETTERS: Final = {
    "az": "ə",
    "cs": "řůě",
    "de": "ß",
    "hu": "őű",
    "lt": "ėįų",
    "lv": "ļķģņ",
    "pl": "łśźż",
    "tr": "ğış",
    "vi": "ơưấầếềệốồộớờợạảậ",
}

# Spelling that decides a longer text of a script: the language, what it must hold, what not.
SPELLING: Final = {
    "Arabic": (("ar", re.compile(""), re.compile("[پچژگکیےہھٹڈڑںڤەێۆڕڵټډړږښڼۍېۇۈۋڭ]")),),
    "Bengali": (("bn", re.compile(""), re.compile("[ৰৱ]")),),
    "Cyrillic": (
        ("ru", re.compile("[ыэё]"), re.compile("[\u0400\u0402-\u040f\u0450\u0452-\u052f]")),
        ("uk", re.compile("[їєґ]"), re.compile("[ыэёъў]")),
        ("kk", re.compile("і.*[қғұ]|[қғұ].*і", re.DOTALL), re.compile("[ҷӣӯҳҙҫҡў]")),
    ),
    "Devanagari": (("hi", re.compile(r"\s(?:है|हैं|और|में)(?![^\s।,.?!])"), re.compile("ळ")),),
}

# Told apart by a few words: a change among them between two sentences is no second language.
CLOSE: Final = tuple(
    frozenset(group.split())
    for group in (
        "da nn no sv",
        "bs hr sl sr",
        "id jv ms",
        "cs sk",
        "ca es gl oc pt",
        "be ru uk bg mk",
        "xh zu st",
        "af nl fy",
        "hi mr ne sa",
        "kk ky tt ba",
        "ar fa ur",
    )
)
