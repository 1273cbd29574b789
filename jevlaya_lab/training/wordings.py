"""How questions are worded in training: many ways to ask for the same thing.

``{label}`` stands for a label's name, ``{other}`` for the second text of a pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = [
    "ANY_CHOICE",
    "CHOICE",
    "DESCRIPTIONS",
    "LABEL_STATEMENTS",
    "NOUL_OPTIONS",
    "PAIRS",
    "RETRIEVE",
    "SAME_MEANING",
    "SCALES",
    "STATEMENTS",
    "Scale",
    "Statements",
]

ANY_CHOICE: Final = (
    "Which option fits best?",
    "Choose the label that fits the text.",
    "Which of these describes the text best?",
    "Classify the text.",
)

CHOICE: Final[Mapping[str, tuple[str, ...]]] = {
    "intent": (
        "What does the user want?",
        "Which intent does the message express?",
        "What is the request about?",
        "Pick the intent of this message.",
        "What should be done for the user?",
        "Classify the customer's request.",
        "Which action does the utterance ask for?",
        "Where should this message be routed?",
        "What is being asked for?",
        "Which team or function should handle the message?",
    ),
    "topic": (
        "What is the text about?",
        "Which topic does the text belong to?",
        "Which subject area is this?",
        "In which section of a newspaper would this stand?",
        "Choose the category of the text.",
    ),
    "emotion": (
        "Which emotion does the text express?",
        "How does the writer feel?",
        "What is the tone of the message?",
        "Pick the feeling that shows in the text.",
        "Which mood is this?",
    ),
}

DESCRIPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "intent": (
        "the user's message is about {label}",
        "requests of the kind {label}",
        "anything to do with {label}",
    ),
    "topic": ("texts about {label}", "everything on {label}"),
    "emotion": ("the writer shows {label}", "the text expresses {label}"),
}

RETRIEVE: Final[Mapping[str, tuple[str, ...]]] = {
    "qnli_dev": ("Which question does the text answer?", "Which question is this about?"),
    "boolq": ("Which question can be answered from the text?", "Which question fits the text?"),
    "fever_dev_pairs": ("Which claim is the text about?", "Which statement does this bear on?"),
    "perspectrum_stance": ("Which claim is the text about?", "Which debate is this part of?"),
}
"""Asking which second text belongs to a first one."""

SAME_MEANING: Final = (
    "Which message asks for the same thing?",
    "Which example is most like the text?",
    "Pick the sentence with the same intent.",
)

LABEL_STATEMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "intent": (
        "Is the message about {label}?",
        "Is the message about '{label}'?",
        "Does the user ask about {label}?",
        "The message is about {label}.",
        "The user's request is: {label}.",
        "Is this a request of the kind '{label}'?",
        "Does the user want this: {label}?",
        "{label}",
    ),
    "topic": (
        "Is the text about {label}?",
        "The text is about {label}.",
        "Does this belong to the topic {label}?",
        "{label}",
    ),
    "emotion": (
        "Does the text express {label}?",
        "The writer feels {label}.",
        "Is there {label} in this text?",
        "Is the writer's emotion {label}?",
        "The text shows {label}.",
        "{label}",
    ),
}

NOUL_OPTIONS: Final = (
    ("false: no, the statement does not hold", "true: yes, the statement holds"),
    ("no: no, the statement does not hold", "yes: yes, the statement holds"),
    ("false: no", "true: yes"),
    ("no: it is not so", "yes: it is so"),
)
"""Texts of the two answers of a noul; the first is what a question without criteria gets."""


@dataclass(frozen=True, slots=True)
class Statements:
    """Wordings that hold for the labels in ``true`` and do not hold for those in ``false``."""

    true: tuple[str, ...]
    false: tuple[str, ...]
    affirming: tuple[str, ...]
    denying: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()


STATEMENTS: Final[Mapping[str, Statements]] = {
    "sms_spam": Statements(
        ("spam",),
        ("not spam",),
        ("Is this message spam?", "The message is unwanted advertising or a scam.", "Is it spam?"),
        ("Is this an ordinary personal message?", "The message is legitimate."),
        (("not spam", "spam"), ("ordinary message", "unwanted advertising or scam")),
    ),
    "spamassassin_email": Statements(
        ("spam",),
        ("not spam",),
        ("Is this e-mail spam?", "This is an unsolicited bulk e-mail.", "Is it junk mail?"),
        ("Is this a legitimate e-mail?", "The e-mail is wanted correspondence."),
        (("not spam", "spam"), ("legitimate e-mail", "junk e-mail")),
    ),
    "query_wellformedness": Statements(
        ("well formed",),
        ("not well formed",),
        ("Is the question well formed?", "The question is grammatical and complete."),
        ("Does the question contain mistakes?", "The question is badly worded."),
        (("not well formed", "well formed"), ("badly worded question", "correct question")),
    ),
    "emobank_valence": Statements(
        ("positive", "very positive"),
        ("negative", "very negative"),
        ("Is the text positive?", "The writer is pleased.", "Is this good news?", "A happy text."),
        ("Is the text negative?", "The writer is unhappy.", "Is this bad news?", "A complaint."),
        (("negative", "positive"), ("bad", "good"), ("unhappy", "happy")),
    ),
    "emobank_arousal": Statements(
        ("excited", "very excited"),
        ("calm", "very calm"),
        ("Is the text excited?", "The writer is agitated.", "Is there strong feeling in the text?"),
        ("Is the text calm?", "The writer is relaxed."),
        (("calm", "excited"),),
    ),
    "goemotions": Statements(
        (
            "admiration",
            "amusement",
            "approval",
            "caring",
            "excitement",
            "gratitude",
            "joy",
            "love",
            "optimism",
            "pride",
            "relief",
        ),
        (
            "anger",
            "annoyance",
            "disappointment",
            "disapproval",
            "disgust",
            "embarrassment",
            "fear",
            "grief",
            "nervousness",
            "remorse",
            "sadness",
        ),
        (
            "Is the comment positive?",
            "The sentiment is positive.",
            "Does the writer like it?",
            "Is the writer satisfied?",
        ),
        (
            "Is the comment negative?",
            "The sentiment is negative.",
            "Is the writer dissatisfied?",
            "Does the writer complain?",
        ),
        (("negative", "positive"), ("negative sentiment", "positive sentiment"), ("bad", "good")),
    ),
}

PAIRS: Final[Mapping[str, Statements]] = {
    "nlupp_intent_yesno": Statements(("yes",), ("no",), ("{other}",)),
    "boolq": Statements(("yes",), ("no",), ("{other}?", "According to the text: {other}?")),
    "qnli_dev": Statements(
        ("yes",),
        ("no",),
        ("Does the text answer the question: {other}", "The text says: {other}"),
        ("The text leaves this question open: {other}",),
    ),
    "fever_dev_pairs": Statements(
        ("supported",),
        ("refuted",),
        ("{other}", "Is it true that: {other}", "Does the text support the claim: {other}"),
        ("Does the text refute the claim: {other}", "The text contradicts this: {other}"),
    ),
    "perspectrum_stance": Statements(
        ("supports",),
        ("undermines",),
        ("Does the text speak for this claim: {other}", "The writer agrees: {other}"),
        ("Does the text speak against this claim: {other}", "The writer disagrees: {other}"),
    ),
}


@dataclass(frozen=True, slots=True)
class Scale:
    """Wordings of an ordered question, and ways to name its levels from low to high."""

    asking: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]


SCALES: Final[Mapping[str, Scale]] = {
    "emobank_valence": Scale(
        ("How positive is the text?", "Rate the sentiment.", "How pleased is the writer?"),
        (
            ("very negative", "negative", "neutral", "positive", "very positive"),
            ("terrible", "bad", "neither good nor bad", "good", "excellent"),
            ("very unhappy", "unhappy", "indifferent", "happy", "very happy"),
        ),
    ),
    "emobank_arousal": Scale(
        ("How excited is the text?", "Rate how agitated the writer is.", "How strong is it?"),
        (
            ("very calm", "calm", "neutral", "excited", "very excited"),
            ("no feeling at all", "little feeling", "some feeling", "strong feeling", "extreme"),
        ),
    ),
    "complex_word_difficulty": Scale(
        ("{other}",),
        (
            ("very easy", "easy", "neutral", "difficult", "very difficult"),
            ("trivial", "simple", "average", "hard", "very hard"),
        ),
    ),
    "gitbugs_hadoop_priority": Scale(
        ("How urgent is the report?", "What priority has this bug?", "How severe is the problem?"),
        (
            ("trivial", "minor", "major", "critical", "blocker"),
            ("not urgent", "can wait", "important", "very urgent", "an emergency"),
        ),
    ),
}
