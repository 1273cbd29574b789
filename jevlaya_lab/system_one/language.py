"""Which scripts and which language a state is written in, or that it cannot be told.

Scripts are the Unicode property of every letter (``fontTools.unicodedata``). A script that only one
language of weight uses decides alone; any other text is judged by ``py3langid``, sentence by
sentence, so that a second language is seen. Neither is imported before it is needed.
"""

from __future__ import annotations

import threading
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from jevlaya_lab.system_one.language_tables import (
    CANDIDATES,
    CLOSE,
    LETTERS,
    ONE_LANGUAGE,
    SPELLING,
    WORDS,
)
from jevlaya_lab.system_one.prose import PIECE, pieces_of, read_values

__all__ = ["Detection", "detect", "script_of"]

SURE: Final = 0.5
"""Probability among the languages of its script from which on a language is named."""

SURE_SECOND: Final = 0.7
"""The same for a second language, which is claimed against the rest of the text."""

BY_WORDS: Final = 0.99
"""Confidence of a verdict by frequent words or by spelling, without the model."""

SPELT: Final = 30
"""Letters from which on the spelling of a script's main language is trusted."""

NOT_ENGLISH: Final = 0.02
"""Probability of English below which text of an unnamed language is called not English."""

MIN_WORDS: Final = 3
"""Words that a model needs: two content words may be a title in any language."""

_NO_LETTERS: Final = bytes(b for b in range(256) if not chr(b).isalpha() or b > 127)

_lock = threading.Lock()
_models: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Detection:
    """What a state is written in.

    Attributes:
        scripts: Shares of the letters read, by Unicode script, most first: ``{"Latin": 1.0}``.
        language: ISO 639-1 code of the language of most of it; ``None`` where it cannot be told.
        confidence: Probability of ``language`` among the languages of its script, weighted by
            letters; ``BY_WORDS`` where words or spelling decide, 1.0 where the script does, and
            ``None`` where there is no language. It is no calibrated chance of being right.
        second: Another language that a part of the text is surely in.
        is_english: ``True`` where English is all that was seen, ``False`` where a part that counts
            is not English (even if its language has no name here), ``None`` where nothing tells.
        n_letters: Letters that were read.
        reason: One sentence for people.
    """

    scripts: dict[str, float]
    language: str | None
    confidence: float | None
    second: str | None
    is_english: bool | None
    n_letters: int
    reason: str


class _Piece(NamedTuple):
    """A sentence's verdict: its language, how sure, its letters, and whether it is English."""

    language: str | None
    confidence: float
    letters: int
    english: bool | None


def detect(state: Any) -> Detection:
    """The scripts and the language of a state; the same answer for the same state, always.

    Values are read, keys are not; URLs, addresses, code, ids and numbers are left out, and so are
    values of one word (``"open"``) beside longer ones. Scripts are counted in all of it; for the
    language at most ``PIECES`` pieces of ``PIECE`` characters are judged, or two of each of
    ``VALUES`` values.

    Args:
        state: Text, a JSON object (also as text), or a conversation (a list of turns). Anything
            else has no letters.

    Returns:
        What was found. Never raises for what a state holds.
    """
    values = read_values(state)
    counts = _count_scripts("\n".join(values))
    n_letters = sum(counts.values())
    if not n_letters:
        return Detection({}, None, None, None, None, 0, "There are no letters of any language.")
    if len(counts) == 1:
        script = next(iter(counts))
        scripts = {script: 1.0}
    else:
        script = None
        scripts = {name: n / n_letters for name, n in counts.most_common()}
    parts = list(pieces_of(values))
    if script is None and len(parts) == 1:
        pieces = [_judge(parts[0], *_leading_script(counts))]
    else:
        pieces, before = [], None
        for part in parts:
            piece = _judge(part, script, before=before)
            pieces.append(piece)
            if piece.confidence == BY_WORDS:
                before = piece.language
    if len(pieces) > 1 and not any(piece.language for piece in pieces):
        pieces = [_judge(" ".join(values)[: 2 * PIECE], script), *pieces]
    return _verdict(scripts, n_letters, pieces)


def _verdict(scripts: dict[str, float], n_letters: int, pieces: list[_Piece]) -> Detection:
    if len(pieces) == 1 and pieces[0].language is not None:
        language, confidence, _, english = pieces[0]
        reason = f"It reads as {language!r}."
        return Detection(scripts, language, confidence, None, english, n_letters, reason)
    weights: dict[str, float] = {}
    sure: dict[str, float] = {}
    for piece in pieces:
        if piece.language is not None:
            weight = piece.letters * piece.confidence
            weights[piece.language] = weights.get(piece.language, 0.0) + weight
            sure[piece.language] = max(sure.get(piece.language, 0.0), piece.confidence)
    if not weights:
        if any(piece.english is False for piece in pieces):
            reason = "It is not English; which language it is cannot be told."
            return Detection(scripts, None, None, None, False, n_letters, reason)
        reason = f"Too little to tell a language by: {n_letters} letters."
        return Detection(scripts, None, None, None, None, n_letters, reason)
    language = max(weights, key=weights.__getitem__)
    letters = sum(piece.letters for piece in pieces if piece.language == language)
    confidence = weights[language] / letters
    others = [
        other
        for other in weights
        if other != language and sure[other] >= SURE_SECOND and not _are_close(language, other)
    ]
    second = max(others, key=weights.__getitem__, default=None)
    if second is None:
        reason = f"It reads as {language!r}."
    else:
        reason = f"Most of it reads as {language!r}, a part as {second!r}."
    unnamed = any(
        p.language is None and p.english is False and p.letters * 10 >= n_letters for p in pieces
    )
    english = language == "en" and second is None and not unnamed
    return Detection(scripts, language, confidence, second, english, n_letters, reason)


def _judge(
    piece: str, script: str | None, letters: int | None = None, before: str | None = None
) -> _Piece:
    """The verdict of a piece that is of ``script``, or mixed where that is ``None``.

    ``before`` is the language that words decided for a piece of the same text.
    """
    if script is None:
        script, letters = _leading_script(_count_scripts(piece))
    elif letters is None:
        letters = len(piece)
    if script in ONE_LANGUAGE:
        # A lone letter is a symbol (Ω, π); two or three ideographs may be Japanese as well.
        enough = letters >= {"Han": 4, "Hiragana": 2, "Katakana": 2, "Hangul": 2}.get(script, 3)
        return _Piece(
            ONE_LANGUAGE[script] if enough else None, 1.0, letters, None if letters < 2 else False
        )
    english = None if script in ("Latin", "Common", "Inherited") or letters < 3 else False
    if letters >= SPELT and script in SPELLING:
        for language, needed, foreign in SPELLING[script]:
            if needed.search(piece) and not foreign.search(piece):
                return _Piece(language, BY_WORDS, letters, False)
    if script not in CANDIDATES or piece.count(" ") < MIN_WORDS - 1:
        return _Piece(None, 0.0, letters, english)
    lowered = piece.lower()
    if script == "Latin":
        words = set(lowered.split())
        by_words = _by_words(
            words, words if lowered.isascii() else words | _marks.intersection(lowered), before
        )
        if by_words is not None:
            return _Piece(by_words, BY_WORDS, letters, by_words == "en")
    if sum(map(str.isupper, piece)) * 2 > letters:
        piece = lowered
    model = _models.get(script) or _load(script)
    language, confidence = model.classify(piece)
    if confidence >= SURE and language != "zxx":
        return _Piece(language, confidence, letters, language == "en")
    if script == "Latin":
        ranked = dict(model.rank(piece))
        if ranked["en"] + ranked["zxx"] <= NOT_ENGLISH:
            english = False
    return _Piece(None, confidence, letters, english)


def _by_words(words: set[str], signs: set[str], before: str | None = None) -> str | None:
    """The language that most signs point to: at least two, and a tenth as many as the words.

    English needs three and a quarter: its titles are quoted in every language. Where a text has
    shown its language before, any signs will do that all agree with it.
    """
    found = [_language_of[sign] for sign in signs if sign in _language_of]
    if before is not None and found and set(found) == {before}:
        return before
    if len(found) < 2:
        return None
    language = max(set(found), key=found.count)
    n = found.count(language)
    least, share = (3, 0.25) if language == "en" else (2, 0.1)
    if n < least or n < share * len(words) or (len(found) - n) * 4 > n:
        return None
    return language


def _leading_script(counts: Counter[str]) -> tuple[str, int]:
    """The script that a piece is judged by, and its letters.

    A third of other letters outweighs Latin, which stands for names and terms in any script, and
    any kana makes ideographs Japanese unless it is a single borrowed letter among many.
    """
    letters = counts.total()
    kana = counts["Hiragana"] + counts["Katakana"]
    if kana and counts["Han"] < 10 * kana:
        counts["Hiragana"] = kana + counts.pop("Han", 0)
        counts["Katakana"] = 0
    ranked = [item for item in counts.most_common() if item[0] not in ("Common", "Inherited")]
    if not ranked:
        return "Common", letters
    script, n = ranked[0]
    if script == "Latin" and len(ranked) > 1 and ranked[1][1] * 3 >= letters:
        script, n = ranked[1]
    return script, n


def _are_close(one: str, other: str) -> bool:
    return any(one in group and other in group for group in CLOSE)


def _load(script: str) -> Any:
    """The model of a script's languages; read once, whichever thread asks first."""
    with _lock:
        if script not in _models:
            from py3langid.langid import (  # type: ignore[import-untyped, unused-ignore]
                MODEL_FILE,
                LanguageIdentifier,
            )

            model = _models.get("") or LanguageIdentifier.from_model_file(MODEL_FILE)
            _models[""] = model  # the tables of all scripts, most of which are shared
            model.set_languages(CANDIDATES[script].split())
            # In single precision the product goes through BLAS, which halves the time of a call.
            _models[script] = LanguageIdentifier(
                model.nb_ptc.astype("float32", order="C"),
                model.nb_pc.astype("float32"),
                model.nb_classes,
                model.tk_nextmove,
                model.tk_output,
                norm_probs=True,
                tk_row=model.tk_row,
            )
        return _models[script]


def _count_scripts(text: str) -> Counter[str]:
    """Letters of the text by script."""
    if text.isascii():
        letters = len(text.encode().translate(None, _NO_LETTERS))
        return Counter({"Latin": letters} if letters else {})
    counts = Counter(map(_scripts.__getitem__, text))
    counts.pop("", None)
    return counts


def script_of(character: str) -> str | None:
    """The Unicode script of a letter, such as ``"Latin"`` or ``"Han"``; ``None`` for a non-letter.

    Letters that scripts share (``ー``, ``𝐀``) are of the script ``"Common"``. Letters newer
    than the interpreter's Unicode tables count where ``fontTools`` knows their script.

    Args:
        character: One code point.
    """
    return _scripts[character] or None


class _Scripts(dict[str, str]):
    """Script names of the characters met so far; ``""`` for what is no letter."""

    def __missing__(self, character: str) -> str:
        from fontTools import (  # type: ignore[import-untyped, unused-ignore]
            unicodedata as scripts,
        )

        category = unicodedata.category(character)
        name = str(scripts.script_name(scripts.script(character)))
        letter = category[0] == "L" or (category == "Cn" and name not in _NO_SCRIPT)
        self[character] = name if letter else ""
        return self[character]


_language_of: Final = {word: code for code, words in WORDS.items() for word in words.split()} | {
    letter: code for code, letters in LETTERS.items() for letter in letters
}
_marks: Final = frozenset("".join(LETTERS.values()))
_NO_SCRIPT: Final = frozenset({"Common", "Inherited", "Unknown"})
_scripts: Final = _Scripts()
