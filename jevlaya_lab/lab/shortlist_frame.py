"""From the answers about many options to the frame of a shortlist, and what it saved."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pandas as pd

from jevlaya_lab.lab.options import ManyOptions, Outcomes

__all__ = ["SHORTLIST", "ShortlistFrame"]

SHORTLIST: Final = "jevlaya_shortlist"
"""Under this name ``attrs`` of the frame say how much was asked, and how much was saved."""


class ShortlistFrame:
    """What is known of each row that was asked, and the frame of it.

    Args:
        many: The rows and their options.
        method: ``embed`` or ``tournament``.
        size: How many options are asked about at once.

    Attributes:
        similarity: By row, the similarity of each option that is asked about.
        kept: By row, these options in their order.
    """

    def __init__(self, many: ManyOptions, method: str, size: int) -> None:
        self._many = many
        self._method = method
        self._size = size
        self.similarity: dict[int, dict[int, float]] = {}
        self.kept: dict[int, list[int]] = {}
        self._rounds: dict[int, int] = {}
        self._found: dict[int, Any] = {}

    def begin_round(self, places: Iterable[int]) -> None:
        """Count a round of a tournament for some rows."""
        for place in places:
            self._rounds[place] = self._rounds.get(place, 0) + 1

    def take(self, outcomes: Outcomes, final: set[int] | None = None) -> None:
        """Note answers; in a tournament only those of the rows whose last round it is."""
        for place, answer in outcomes.items():
            if isinstance(answer, Exception):
                self._many.wrong[place] = answer
            elif final is None or place in final:
                self._found[place] = answer
                if final is not None:
                    self.kept[place] = answer.likeliest
            elif answer.option is None:  # a hook left it open in an earlier round
                self._found[place] = answer

    def made(self) -> pd.DataFrame:
        """The frame of the rows that are done."""
        many = self._many
        place_of = many.place_of
        done = [i for i, at in enumerate(place_of) if at in self._found or at in many.wrong]
        rows = [place_of[i] for i in done]
        found = [self._found.get(at) if at not in many.wrong else None for at in rows]
        codes = [-1 if one is None or one.option is None else one.option for one in found]
        columns: dict[str, Any] = {
            "answer": pd.Categorical.from_codes(codes, pd.Index(many.labels, dtype=object)),
            "confidence": [np.nan if one is None else one.confidence for one in found],
            "answer_confidence": [
                np.nan if one is None else one.answer_confidence for one in found
            ],
        }
        if self._method == "embed":
            ranks = [
                self.kept[at].index(code) + 1 if code in self.kept.get(at, ()) else None
                for at, code in zip(rows, codes, strict=True)
            ]
            columns["rank"] = pd.array(ranks, dtype="Int64")
            columns["similarity"] = [
                self.similarity.get(at, {}).get(code, np.nan)
                for at, code in zip(rows, codes, strict=True)
            ]
        else:
            columns["rounds"] = pd.array([self._rounds.get(at) for at in rows], dtype="Int64")
        columns["n_asked"] = pd.array([many.n_asked.get(at, 0) for at in rows], dtype="Int64")
        kept = [self.kept.get(at) for at in rows]
        columns["kept"] = pd.array(
            [
                None if one is None else json.dumps([many.labels[i] for i in one], default=str)
                for one in kept
            ],
            dtype="string",
        )
        if many.coerce:
            problems = [many.wrong.get(at) for at in rows]
            columns["error"] = pd.array(
                [None if one is None else f"{type(one).__name__}: {one}" for one in problems],
                dtype="string",
            )
        index = many.index if len(done) == len(many.index) else many.index[done]
        frame: pd.DataFrame = pd.DataFrame(columns, index=index)
        frame.attrs[SHORTLIST] = self._account()
        return frame

    def _account(self) -> dict[str, Any]:
        many = self._many
        states = [at for at in many.to_ask if at in self._found]
        of, asked = len(states) * len(many.labels), sum(many.n_asked[at] for at in states)
        share = f" ({(of - asked) / of:.0%})" if of else ""
        what = f"{of - asked:,}{share} saved" if asked <= of else f"{asked - of:,} more"
        return {
            "method": self._method,
            "keep": self._size,
            "states": len(states),
            "options": len(many.labels),
            "asked": asked,
            "saved": of - asked,
            "says": f"asked about {asked:,} pairs of state and option, of {of:,}: {what}",
        }
