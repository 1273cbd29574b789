"""Three-letter codes of the multilingual sets, as the two-letter codes that detection gives."""

from __future__ import annotations

CODES = {
    "arb": "ar",
    "ben": "bn",
    "deu": "de",
    "fra": "fr",
    "hin": "hi",
    "ind": "id",
    "ita": "it",
    "jpn": "ja",
    "kor": "ko",
    "nld": "nl",
    "pol": "pl",
    "por": "pt",
    "rus": "ru",
    "spa": "es",
    "swh": "sw",
    "tur": "tr",
    "ukr": "uk",
    "vie": "vi",
    "zho": "zh",
}
