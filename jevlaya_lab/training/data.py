"""The public text-classification sets: which there are, what they ask for, and their readers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = [
    "HELD_OUT",
    "SETS",
    "InputMissing",
    "Row",
    "SetInfo",
    "labels_of",
    "read_rows",
    "require",
    "training_sets",
]


class InputMissing(Exception):
    """Data or weights that are not there; the message says what is expected, and where."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a set.

    Attributes:
        text: The text to decide about (``premise`` in pair sets).
        other: The second text of a pair (``hypothesis`` or ``question``); empty elsewhere.
        label: Readable name of the label.
        score: The number behind the label, where the set has one.
        test: Whether the row belongs to the test split.
    """

    text: str
    other: str
    label: str
    score: float | None
    test: bool


@dataclass(frozen=True, slots=True)
class SetInfo:
    """What is known of a set, and how much of it is read.

    Attributes:
        kind: ``intent``, ``topic``, ``emotion``, ``yes_no``, ``ordered`` or ``pair``.
        licence: Its licence.
        cite: Whom to name.
        n_train: Most training rows that are used; None for all.
    """

    kind: str
    licence: str
    cite: str
    n_train: int | None = None


_CC_BY = "CC BY 4.0"
_CC_BY_SA = "CC BY-SA 4.0"

SETS: Final[Mapping[str, SetInfo]] = {
    "banking77": SetInfo("intent", _CC_BY, "Casanueva et al. 2020 (NLP4ConvAI)"),
    "clinc150": SetInfo("intent", "CC BY 3.0", "Larson et al. 2019 (EMNLP-IJCNLP)"),
    "snips": SetInfo("intent", "CC0 1.0", "Coucke et al. 2018 (arXiv 1805.10190)"),
    "bitext_customer_support": SetInfo(
        "intent", "CDLA-Sharing-1.0", "Bitext, Customer Service Tagged Training Dataset"
    ),
    "home_assistant_intents_english": SetInfo(
        "intent", "Apache-2.0", "Home Assistant / Open Home Foundation, Intents for Home Assistant"
    ),
    "nlupp_intent_yesno": SetInfo("pair", _CC_BY, "Casanueva et al. 2022 (Findings of NAACL)"),
    "sib200_english_topics": SetInfo(
        "topic", "Apache-2.0; sentences CC BY-SA 4.0", "Adelani et al. 2024 (EACL)"
    ),
    "goemotions": SetInfo("emotion", _CC_BY, "Demszky et al. 2020 (ACL)", 12_000),
    "xed_english_emotions": SetInfo("emotion", _CC_BY, "Öhman et al. 2020 (COLING)", 9_000),
    "emobank_valence": SetInfo("ordered", _CC_BY_SA, "Buechel and Hahn 2017 (EACL)"),
    "emobank_arousal": SetInfo("ordered", _CC_BY_SA, "Buechel and Hahn 2017 (EACL)"),
    "boolq": SetInfo("pair", "CC BY-SA 3.0", "Clark et al. 2019 (NAACL)", 2_500),
    "qnli_dev": SetInfo(
        "pair", _CC_BY_SA, "Wang et al. 2019 (ICLR); Rajpurkar et al. 2016 (EMNLP)"
    ),
    "fever_dev_pairs": SetInfo("pair", "CC BY-SA 3.0", "Thorne et al. 2018 (NAACL)", 8_000),
    "perspectrum_stance": SetInfo("pair", _CC_BY_SA, "Chen et al. 2019 (NAACL)"),
    "creak_claims": SetInfo("yes_no", "MIT", "Onoe et al. 2021 (NeurIPS Datasets)"),
    "query_wellformedness": SetInfo("yes_no", _CC_BY_SA, "Faruqui and Das 2018 (EMNLP)", 6_000),
    "complex_word_difficulty": SetInfo(
        "ordered", _CC_BY, "Shardlow et al. 2020 (READI), 2021 (SemEval)", 5_000
    ),
    "gitbugs_hadoop_priority": SetInfo("ordered", _CC_BY, "Patil 2025 (arXiv 2504.09651)", 1_200),
    "spamassassin_email": SetInfo(
        "yes_no", "ODC PDDL 1.0; contents CC0 1.0", "Apache SpamAssassin corpus; stdlib", 1_500
    ),
    "sms_spam": SetInfo("yes_no", _CC_BY, "Almeida et al. 2011 (DocEng)", 3_000),
    "davidson_offensive_tweets": SetInfo("emotion", "MIT", "Davidson et al. 2017 (ICWSM)"),
}
"""The English sets. The multilingual ones are left out: the encoder reads English, and one of them
derives from a held-out set (Snips)."""

HELD_OUT: Final = (
    "banking77",
    "home_assistant_intents_english",
    "snips",
    "davidson_offensive_tweets",
    "creak_claims",
)
"""Sets that no training step, temperature or choice of a setting may see."""


def training_sets() -> tuple[str, ...]:
    """The names of the sets that are trained on."""
    return tuple(name for name in SETS if name not in HELD_OUT)


def require(data: Path, names: tuple[str, ...]) -> None:
    """Check that the folder holds these sets and ``labels.json``.

    Raises:
        InputMissing: Naming the first path that is not there.
    """
    if not data.is_dir():
        raise InputMissing(
            f"{data}: no such folder; --data expects the folder of training sets "
            "(one NAME.jsonl.gz per set, labels.json)"
        )
    for file in ("labels.json", *(f"{name}.jsonl.gz" for name in names)):
        if not (data / file).is_file():
            what = (
                "the label names of every set" if file == "labels.json" else "one JSON row a line"
            )
            raise InputMissing(f"{data / file}: no such file; expected there: {what}")


def labels_of(data: Path, name: str) -> tuple[str, ...]:
    """The labels of a set; of an ordered one from low to high."""
    require(data, ())
    listed = json.loads((data / "labels.json").read_text(encoding="utf-8"))
    return tuple(listed[name]["labels"])


def read_rows(data: Path, name: str) -> Iterator[Row]:
    """Read a set in file order.

    Raises:
        InputMissing: The folder or the set's file is not there.
    """
    require(data, (name,))
    with gzip.open(data / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            raw = json.loads(line)
            yield Row(
                text=raw.get("text") or raw.get("premise") or "",
                other=raw.get("hypothesis") or raw.get("question") or "",
                label=raw["label"],
                score=raw.get("score"),
                test=raw["split"] == "test",
            )
