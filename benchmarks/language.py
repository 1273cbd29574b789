"""Is it English, which language is it, and what does the answer cost: beside laya and lingua.

    python benchmarks/language.py

Sentences of ../shared/training-data: 30 of each language of sib200_multilingual_topics (news-like,
one sentence) and of xsid_multilingual_intents (spoken commands), and as many English ones. The
word lists come from the first half of each file's rows, and only the second half is drawn from
here; the threshold of the model was chosen on a sample of both. Costs are medians per state of
rounds in which ours and laya take turns on every state; lingua runs afterwards, as its tables push
theirs out of the cache.

Measured on two shared cores, 990 sentences of 24 languages (py3langid 0.4.0, lingua 2.1.1):

    detector  decides English or not  of these right  names the language  of these right  median us
    ours                       0.970           0.998               0.932           0.989       24.5
    laya                       1.000           0.842               0.378           0.714       32.5
    lingua                     1.000           0.981               1.000           0.920        455

Short commands that are no English (xsid) cost as much here as in laya: 26.2 and 26.5 us.
"""

from __future__ import annotations

import gzip
import json
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from jevlaya_lab.system_one.language import detect

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from language_codes import CODES

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "training-data"
SETS = {
    "sib200_multilingual_topics": None,
    "xsid_multilingual_intents": None,
    "sib200_english_topics": "en",
    "clinc150": "en",
}
PER_LANGUAGE = 30
ROUNDS = 7
LATIN = {"af", "da", "de", "en", "es", "fr", "id", "it", "lt", "nl", "pl", "pt", "sw", "tr", "vi"}

Answer = tuple[str | None, bool | None]


def main() -> None:
    texts = sentences()
    detectors = {"ours": ours, **laya(), **lingua()}
    for name, answer in detectors.items():
        print(f"\n{name}\n{accuracy(texts, answer).to_string()}")
    pair = {name: detectors[name] for name in ("ours", "laya")}
    print(f"\n{costs(texts, pair).to_string()}")
    if "lingua" in detectors:
        alone = {"lingua": detectors["lingua"]}
        print(f"\n{costs(texts, alone).to_string()}")


def sentences() -> list[tuple[str, str, str]]:
    """(set, language, text), ``PER_LANGUAGE`` of each language of each set."""
    rows: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, fixed in SETS.items():
        with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                lang = fixed or CODES.get(row["lang"][:3], row["lang"])
                rows[name, lang].append(row["text"])
    draw = random.Random(7)
    return [
        (name.split("_")[0], lang, text)
        for (name, lang), found in sorted(rows.items())
        for text in draw.sample(found[len(found) // 2 :], PER_LANGUAGE)
    ]


def ours(text: str) -> Answer:
    found = detect(text)
    return found.language, found.is_english


def laya() -> dict[str, Callable[[str], Answer]]:
    from laya.lang import analyse

    def answer(text: str) -> Answer:
        found = analyse(text)
        return found["language"], found["is_english"]

    return {"laya": answer}


def lingua() -> dict[str, Callable[[str], Answer]]:
    try:
        from lingua import LanguageDetectorBuilder
    except ImportError:
        print("lingua is left out: pip install lingua-language-detector")
        return {}
    detector = LanguageDetectorBuilder.from_all_languages().with_preloaded_language_models().build()

    def answer(text: str) -> Answer:
        found = detector.detect_language_of(text)
        code = found.iso_code_639_1.name.lower() if found else None
        return code, None if code is None else code == "en"

    return {"lingua": answer}


def accuracy(texts: list[tuple[str, str, str]], answer: Callable[[str], Answer]) -> pd.DataFrame:
    rows = []
    for name, lang, text in texts:
        language, english = answer(text)
        rows.append(
            {
                "set": name,
                "lang": lang,
                "n": 1,
                "English or not decided": english is not None,
                "English or not right": english == (lang == "en") if english is not None else None,
                "language named": language is not None,
                "language right": language == lang if language is not None else None,
            }
        )
    frame = pd.DataFrame(rows)
    how = dict.fromkeys(frame.columns[3:], "mean")
    frame = frame.astype(dict.fromkeys(how, "float"))
    by_language = frame.groupby("lang").agg({"n": "sum", **how})
    by_set = frame.groupby("set").agg({"n": "sum", **how})
    total = frame.assign(all="all").groupby("all").agg({"n": "sum", **how})
    return pd.concat([by_language, by_set, total]).round(3)


def costs(
    texts: list[tuple[str, str, str]], detectors: dict[str, Callable[[str], Answer]]
) -> pd.DataFrame:
    """Microseconds per state: median over states in each round, and their spread over rounds."""
    functions: dict[str, Callable[[str], Any]] = dict(detectors)
    if "laya" in detectors:
        from laya.lang import analyse

        functions |= {"ours": detect, "laya": analyse}
    groups = {
        name: [t for s, _, t in texts if s == name] for name in ("sib200", "xsid", "clinc150")
    }
    groups["Latin script"] = [t for _, lang, t in texts if lang in LATIN]
    groups["other scripts"] = [t for _, lang, t in texts if lang not in LATIN]
    groups["all"] = [t for _, _, t in texts]
    rows = []
    for group, states in groups.items():
        medians: dict[str, list[float]] = defaultdict(list)
        for turn in range(ROUNDS):
            taken: dict[str, list[float]] = defaultdict(list)
            for i, state in enumerate(states):
                names = list(functions)
                start = (turn + i) % len(names)
                for name in names[start:] + names[:start]:
                    began = time.perf_counter()
                    functions[name](state)
                    taken[name].append((time.perf_counter() - began) * 1e6)
            for name, times in taken.items():
                medians[name].append(statistics.median(times))
        for name, found in medians.items():
            rows.append(
                {
                    "states": group,
                    "detector": name,
                    "n": len(states),
                    "median us": statistics.median(found),
                    "lowest round": min(found),
                    "highest round": max(found),
                }
            )
    return pd.DataFrame(rows).set_index(["states", "detector"]).round(1)


if __name__ == "__main__":
    main()
