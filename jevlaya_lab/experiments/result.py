"""What an experiment gives back: a frame, a picture, words, and whether its hypothesis held."""

from __future__ import annotations

import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import pandas as pd

from jevlaya_lab import __version__
from jevlaya_lab.experiments.verdict import WORDS, with_verdict
from jevlaya_lab.frames.csv_files import checked_target, write_frames
from jevlaya_lab.views.layout import Layout
from jevlaya_lab.views.picture import Picture

__all__ = ["Claim", "ExperimentResult", "versions"]

_PACKAGES: Final = ("torch", "transformers", "pandas", "numpy")


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that an experiment expected.

    Attributes:
        text: What was expected, as a sentence.
        held: Whether it came so; ``None`` where these parameters cannot tell.
        evidence: What was seen, with numbers.
        rule: The rule of ``docs/lifecycle.md`` that it is about, such as ``"L-26"``, or empty.
    """

    text: str
    held: bool | None
    evidence: str
    rule: str = ""

    def __post_init__(self) -> None:
        if self.held is not None:  # NumPy's own True and False are others than Python's
            object.__setattr__(self, "held", bool(self.held))

    def __str__(self) -> str:
        word = {True: "held", False: "DID NOT HOLD", None: "cannot be told"}[self.held]
        rule = f"{self.rule}: " if self.rule else ""
        return f"{word:>14}  {rule}{self.text} {self.evidence}".rstrip()


@dataclass(frozen=True, kw_only=True)
class ExperimentResult(ABC):
    """What came out of one run of an experiment.

    Attributes:
        name: Of the experiment.
        hypothesis: What it set out to test, as a sentence.
        claims: The hypothesis in parts, each with what was seen.
        frame: The measurements.
        parameters: What it ran with, as plain values; ``agent`` says on what.
        seed: Of all that is random in it.
        versions: Of Python and the packages that matter.
    """

    name: str
    hypothesis: str
    claims: tuple[Claim, ...]
    frame: pd.DataFrame
    parameters: Mapping[str, Any]
    seed: int
    versions: Mapping[str, str] = field(default_factory=lambda: versions())

    @property
    def held(self) -> bool | None:
        """Whether all claims held; ``None`` where none was broken and one cannot be told."""
        if any(claim.held is False for claim in self.claims):
            return False
        return None if any(claim.held is None for claim in self.claims) else True

    @abstractmethod
    def layout(self) -> Layout:
        """The picture of what was measured, as data."""

    def figure(self) -> Picture:
        """The picture of it, with hypothesis and claims below."""
        return Picture(with_verdict(self.layout(), self.hypothesis, self.held, self.claims))

    def summary(self) -> str:
        """It in words: the hypothesis, and claim by claim what was seen."""
        word = {True: "It held.", False: "It did not hold.", None: "It cannot be told."}[self.held]
        return "\n".join(
            [f"{self.name}: {self.hypothesis} {word}", *(f"  {claim}" for claim in self.claims)]
        )

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the frame, and beside it a schema with parameters, seed, versions and claims.

        :func:`jevlaya_lab.frames.read_csv` gives the frame back.

        Returns:
            The path.
        """
        target = checked_target(path)
        write_frames(
            "frame",
            {"frame": (target, self.frame)},
            target,
            seed=self.seed,
            experiment=self.name,
            hypothesis=self.hypothesis,
            held=self.held,
            claims=[
                {"rule": c.rule, "text": c.text, "held": c.held, "evidence": c.evidence}
                for c in self.claims
            ],
            parameters=dict(self.parameters),
            versions=dict(self.versions),
        )
        return target

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The picture, and for what shows no pictures the words."""
        data, meta = self.figure()._repr_mimebundle_()
        return {**data, "text/plain": self.summary()}, meta

    def __init_subclass__(cls) -> None:
        cls.__repr__ = ExperimentResult.__repr__  # type: ignore[method-assign]  # not a dataclass's

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {WORDS[self.held]}, {len(self.frame)} rows>"


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide what an experiment measures."""
    found = {"python": platform.python_version(), "jevlaya_lab": __version__}
    return found | {name: metadata.version(name) for name in _PACKAGES}
