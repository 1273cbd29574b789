"""``series.jevlaya`` and ``frame.jevlaya``: typed questions asked where the data is.

>>> tickets["text"].jevlaya.noul("The customer wants to cancel.")        # doctest: +SKIP
>>> tickets.jevlaya.ask({"team": Choice(...)}, state=["subject", "text"])  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from jevlaya_lab.lab.inputs import StateColumns
from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.system_one.questions import Choice, Noul, Questions, Score

if TYPE_CHECKING:
    from jevlaya_lab.lab.lab import Lab

__all__ = ["FrameQuestions", "SeriesQuestions", "register"]

NAME: Final = "jevlaya"


class _Questions:
    """What the accessor of a Series and that of a DataFrame share."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def choice(
        self,
        instructions: Any,
        criteria: Mapping[Any, Any] | Sequence[Any],
        *,
        option_order: Sequence[int] | None = None,
        lab: Lab | None = None,
        **options: Any,
    ) -> pd.Series[Any]:
        """Which option each row is.

        Args:
            instructions: What is asked, see ``Choice``.
            criteria: ``{label: description}``, or a list of labels.
            option_order: See ``Choice``.
            lab: Who asks; ``None`` is ``jevlaya_lab.default_lab()``.
            **options: As for ``Lab.predict``; of a DataFrame ``state=``, the column or columns that
                hold the states. ``layout`` and ``detail`` go with :meth:`ask`.

        Returns:
            A ``category`` Series named ``choice``, on the same index; the categories are the
            labels in their order.

        Raises:
            JevlayaError: As ``Lab.predict``.
        """
        question = Choice(instructions, criteria, option_order=option_order)
        return self._one("choice", question, lab, options)

    def score(
        self,
        instructions: Any,
        criteria: Sequence[Any],
        *,
        option_order: Sequence[int] | None = None,
        lab: Lab | None = None,
        **options: Any,
    ) -> pd.Series[Any]:
        """Where each row stands on ordered levels.

        Args:
            instructions: What is asked, see ``Score``.
            criteria: The description of each level, lowest first.
            option_order: See ``Score``.
            lab: See :meth:`choice`.
            **options: See :meth:`choice`.

        Returns:
            A ``float64`` Series named ``score``, on the same index: the expected level, 0 to
            ``len(criteria) - 1``.

        Raises:
            JevlayaError: As ``Lab.predict``.
        """
        question = Score(instructions, criteria, option_order=option_order)
        return self._one("score", question, lab, options)

    def noul(
        self,
        instructions: Any,
        criteria: Mapping[Any, Any] | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        option_order: Sequence[int] | None = None,
        lab: Lab | None = None,
        **options: Any,
    ) -> pd.Series[Any]:
        """Whether it is so, for each row.

        Args:
            instructions: The question or statement, see ``Noul``.
            criteria: Descriptions of the two answers.
            labels: Words for them.
            option_order: See ``Noul``.
            lab: See :meth:`choice`.
            **options: See :meth:`choice`.

        Returns:
            A ``float64`` Series named ``noul``, on the same index: the probability of yes.

        Raises:
            JevlayaError: As ``Lab.predict``.
        """
        question = Noul(instructions, criteria, labels=labels, option_order=option_order)
        return self._one("noul", question, lab, options)

    def ask(self, questions: Questions, *, lab: Lab | None = None, **options: Any) -> pd.DataFrame:
        """Several questions at once: ``Lab.predict`` about this data.

        Args:
            questions: ``{id: definition}``.
            lab: See :meth:`choice`.
            **options: As for ``Lab.predict``; of a DataFrame ``state=``.

        Returns:
            The frame of ``Lab.predict``, on the same index.

        Raises:
            JevlayaError: As ``Lab.predict``.
        """
        return _lab(lab).predict(self._data, questions, **options)

    def embed(
        self, embedding: Any = None, *, state: StateColumns = None, errors: str = "raise"
    ) -> pd.DataFrame:
        """The vectors of the states, also in a notebook, whose loop is running.

        Args:
            embedding: An ``EmbeddingGenerator``; ``None`` for the embedded all-MiniLM-L6-v2.
            state: Of a DataFrame: the column or columns that hold the states.
            errors: ``"raise"``, or ``"coerce"``: missing and blank states get a row of NaN.

        Returns:
            A ``float32`` frame on the same index, ``e0000``, ``e0001``, …; its
            ``attrs["jevlaya_embedding"]`` say which model the numbers come from.

        Raises:
            JevlayaError: A state is missing or blank, or embedding failed.
        """
        from jevlaya_lab.lab.vectors import embed_frame

        return embed_frame(self._data, embedding, state=state, errors=errors)

    def near_duplicates(
        self, threshold: float = 0.9, *, state: StateColumns = None, embedding: Any = None
    ) -> pd.Series[Any]:
        """Which rows say nearly the same, see :func:`jevlaya_lab.near_duplicates`.

        Args:
            threshold: Cosine, above 0, at most 1.
            state: Of a DataFrame: the column or columns that hold the states.
            embedding: An ``EmbeddingGenerator``; ``None`` for the embedded all-MiniLM-L6-v2.

        Returns:
            An ``Int64`` Series named ``group``, on the same index; missing states have no group.

        Raises:
            JevlayaError: As the function.
        """
        from jevlaya_lab.lab.vectors import near_duplicates

        return near_duplicates(self._data, threshold, state=state, embedding=embedding)

    def _one(
        self, name: str, question: Any, lab: Lab | None, options: Mapping[str, Any]
    ) -> pd.Series[Any]:
        for option in ("layout", "detail"):
            if option in options:
                raise InvalidOption(
                    f"{option}= gives more than one column; write "
                    f".{NAME}.ask({{{name!r}: ...}}, {option}=...) for it"
                )
        answers = _lab(lab).predict(self._data, {name: question}, **options)
        found: pd.Series[Any] = answers[name]
        return found


class SeriesQuestions(_Questions):
    """The accessor of a Series: each value is a state."""


class FrameQuestions(_Questions):
    """The accessor of a DataFrame; ``state=`` says what of a row is its state."""


def register() -> None:
    """Make the accessor known to pandas; where it is already, nothing happens."""
    for owner, accessor, to_pandas in (
        (pd.Series, SeriesQuestions, pd.api.extensions.register_series_accessor),
        (pd.DataFrame, FrameQuestions, pd.api.extensions.register_dataframe_accessor),
    ):
        known = getattr(owner, NAME, None)
        # By name: after a reload of this module the class is another one.
        if getattr(known, "__qualname__", None) != accessor.__qualname__:
            to_pandas(NAME)(accessor)


def _lab(lab: Lab | None) -> Lab:
    from jevlaya_lab.lab.default import check_lab, default_lab

    return default_lab() if lab is None else check_lab(lab)
