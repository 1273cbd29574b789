"""The routing policy: from a state, questions and hints to a decision. Pure, no checkpoint needed.

The first of these that says something decides::

    model=  →  task=  →  workflow (opt-in)  →  lang=  →  lang_guess=  →  Router(lang_guess=)
            →  the script and language of the state  →  the default
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from jevlaya_lab.markup import safely
from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.system_one.language import Detection, detect
from jevlaya_lab.system_one.registry import Source
from jevlaya_lab.system_one.showing import decision_html

__all__ = [
    "WORKFLOWS",
    "Hints",
    "Policy",
    "RouteDecision",
    "decide",
    "is_english_code",
    "workflow_of",
]

WORKFLOWS: Final[Mapping[str, frozenset[str]]] = {
    "agent_trace_observability": frozenset(
        {"action", "needs_review", "outcome", "risk", "urgency"}
    ),
    "customer_service": frozenset({"action", "category", "churn_risk", "needs_human", "urgency"}),
    "invoice_processing": frozenset(
        {"discrepancy_severity", "disposition", "duplicate", "matches_order", "urgency"}
    ),
    "security_incidents": frozenset(
        {"credential_compromise", "disposition", "severity", "true_positive", "urgency"}
    ),
}
"""Question ids by which the workflows of the ``typed-decisions`` checkpoint are recognised."""

_NO_LANGUAGE: Final = frozenset({"c", "posix", "und", "zxx", "mul", "mis", "root"})
_ENGLISH: Final = frozenset({"en", "eng", "english"})
_STAND_IN: Final = "; an embedded stand-in answers, its weights are English-trained"


class RouteDecision(dict[str, Any]):
    """Which checkpoint answers, and why. A dict whose keys can be read as attributes too.

    Keys:
        model: The checkpoint's name.
        repo: Where it comes from; ``None`` for an attached agent.
        reason: One sentence for people.
        detection: What the detector saw, where it was asked; else ``None``.
        workflow: The workflow whose question ids these are; else ``None``.
        stand_in: Whether something else stands in for the checkpoint that the name means.
    """

    __slots__ = ()

    model: str
    repo: str | None
    reason: str
    detection: dict[str, Any] | None
    workflow: str | None
    stand_in: bool

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def copy(self) -> RouteDecision:
        """Another decision with the same items."""
        return RouteDecision(self)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"this decision has no {name!r}; it has {list(self)}") from None

    def _repr_html_(self) -> str:
        return safely(self, decision_html)

    def __repr__(self) -> str:
        return f"RouteDecision(model={self.get('model')!r}, reason={self.get('reason')!r})"


class Hints(NamedTuple):
    """What a caller says about one request; see :meth:`Router.route`."""

    model: str | None = None
    task: str | None = None
    lang: str | None = None
    lang_guess: Any = None


class Policy(NamedTuple):
    """What a Router is set to.

    Attributes:
        resolve: Gives the registered name of a name or alias, or raises.
        source_of: Gives the source of a registered name; ``None`` for an attached agent.
        default: The checkpoint for states of which nothing can be told.
        lang_guess: A language code, or a callable of the state that gives one or ``None``.
        auto_task_detection: Whether question ids may choose ``typed-decisions``.
    """

    resolve: Callable[[Any], str]
    source_of: Callable[[str], Source | None]
    default: str
    lang_guess: Any = None
    auto_task_detection: bool = False


def decide(
    state: Any,
    questions: Mapping[Any, Any],
    hints: Hints,
    policy: Policy,
    explain: bool = False,
) -> RouteDecision:
    """Decide which checkpoint answers a request.

    Args:
        state: What the decision is about.
        questions: What is asked; only the ids matter here.
        hints: What the caller says.
        policy: What the Router is set to.
        explain: Add to ``detection`` the shares of all scripts, the number of letters and the
            detector's own sentence.

    Raises:
        UnknownCheckpoint: ``model`` or ``task`` names none.
        InvalidOption: A hint is of the wrong kind.
    """
    if hints.model is not None:
        return _decision(policy, hints.model, f"explicit model={hints.model!r}")
    if hints.task is not None:
        return _decision(policy, hints.task, f"explicit task={hints.task!r}")
    workflow = workflow_of(questions)
    if workflow is not None and policy.auto_task_detection:
        reason = f"the question ids are those of the {workflow!r} workflow"
        return _decision(policy, "typed-decisions", reason, workflow=workflow)
    for said, hint in (
        ("explicit lang=", hints.lang),
        ("lang_guess", hints.lang_guess),
        ("the Router's lang_guess", policy.lang_guess),
    ):
        if hint is None:
            continue
        code = hint(state) if callable(hint) and hint is not hints.lang else hint
        english = is_english_code(code, said)
        if english is not None:
            reason = f"{said}{code!r}" if said.endswith("=") else f"{said} says {code!r}"
            name = "english" if english else "multilingual"
            return _decision(policy, name, reason, workflow=workflow)
    found = detect(state)
    name, reason = _by_language(found, policy.default)
    return _decision(policy, name, reason, workflow=workflow, detection=_shown(found, explain))


def workflow_of(questions: Mapping[Any, Any]) -> str | None:
    """The workflow whose question ids are exactly these."""
    if len(questions) != 5 or ("urgency" not in questions and "disposition" not in questions):
        return None
    ids = set(questions)
    return next((name for name, known in WORKFLOWS.items() if ids == known), None)


def is_english_code(code: Any, name: str = "lang") -> bool | None:
    """Whether a language code means English; ``None`` where it names no language.

    Args:
        code: Such as ``en``, ``en-US``, ``de_DE.UTF-8``; blank, ``C`` and ``und`` name none.
        name: The argument, for the message.

    Raises:
        InvalidOption: It is neither text nor ``None``.
    """
    if code is None:
        return None
    if not isinstance(code, str):
        raise InvalidOption(
            f"{name.rstrip('=')} takes a language code such as 'de', or None to abstain; "
            f"got {code!r}"
        )
    primary = code.strip().lower().split(".", 1)[0].replace("_", "-").split("-", 1)[0]
    if not primary or primary in _NO_LANGUAGE:
        return None
    return primary in _ENGLISH


def _by_language(found: Detection, default: str) -> tuple[str, str]:
    if found.n_letters == 0:
        return default, f"there is no text to tell a language by; using the default, {default!r}"
    if found.is_english is None:
        return default, f"the language cannot be told; using the default, {default!r}"
    if found.is_english:
        return "english", "the text is English"
    script = next(iter(found.scripts))
    if found.second is not None and "en" in (found.language, found.second):
        other = found.second if found.language == "en" else found.language
        return "multilingual", f"a part of the text is English, a part reads as {other!r}"
    if script != "Latin":
        share = f"{100 * found.scripts[script]:.0f} % of the letters are {script}"
        reads = f", it reads as {found.language!r}" if found.language else ""
        return "multilingual", f"{share}{reads}; the English checkpoint cannot read it"
    if found.language == "en":
        return "multilingual", "most of the text is English, a part is not"
    if found.language is None:
        return "multilingual", "the text is not English; which language it is cannot be told"
    return "multilingual", f"the text reads as {found.language!r}, not English"


def _shown(found: Detection, explain: bool) -> dict[str, Any]:
    """What a decision says of a detection; the first four keys are those of laya."""
    script = next(iter(found.scripts), None)
    shown: dict[str, Any] = {
        "script": script.lower() if script else "unknown",
        "language": found.language,
        "is_english": found.is_english is True,
        "language_undecided": found.is_english is None,
        "confidence": found.confidence,
        "second": found.second,
    }
    if explain:
        shown |= {
            "scripts": dict(found.scripts),
            "non_latin_fraction": 1.0 - found.scripts.get("Latin", 0.0) if found.scripts else 0.0,
            "n_letters": found.n_letters,
            "reason": found.reason,
        }
    return shown


def _decision(
    policy: Policy,
    name: Any,
    reason: str,
    *,
    detection: dict[str, Any] | None = None,
    workflow: str | None = None,
) -> RouteDecision:
    model = policy.resolve(name)
    source = policy.source_of(model)
    stand_in = source is not None and source.stand_in
    return RouteDecision(
        model=model,
        repo=None if source is None else str(source),
        reason=reason + _STAND_IN if stand_in else reason,
        detection=detection,
        workflow=workflow,
        stand_in=stand_in,
    )
