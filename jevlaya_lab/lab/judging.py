"""What the Lab makes of answers and traces: tables against the truth, temperatures, replays."""

from __future__ import annotations

from typing import Any

import pandas as pd

from jevlaya_lab import analysis
from jevlaya_lab.frames import Trace
from jevlaya_lab.lab.asking import check_target
from jevlaya_lab.lab.fitting import fit_calibration
from jevlaya_lab.lab.replay import Replay, replay
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.system_one.hooks import HookArg

__all__ = ["Judging"]


class Judging:
    """The part of a Lab that judges what the other part has asked."""

    agent: Any
    answers: pd.DataFrame | None

    def confusion(self, truth: Any, question: Any = None) -> pd.DataFrame:
        """How often each true value got each of the last answers, see :func:`confusion`.

        Raises:
            InvalidInput: There are no answers in the wide layout, or the two do not fit.
        """
        return analysis.confusion(self._wide(), truth, question)

    def calibration(
        self, truth: Any, question: Any = None, *, n_bins: int = 10
    ) -> analysis.Calibration:
        """How far the last answers' probabilities can be trusted, see :func:`calibration`.

        Raises:
            InvalidInput: There are no answers in the wide layout with detail, or the two do not
                fit.
        """
        return analysis.calibration(self._wide(), truth, question, n_bins=n_bins)

    def fit_calibration(self, answers: Any, truth: Any, *, apply: bool = True) -> pd.DataFrame:
        """Fit temperatures on answers whose truth is known, and answer with them from now on.

        One temperature for each checkpoint and bucket of options (``choice:3-5``), between 0.5 and
        5, by the least log loss. A bucket with fewer than 20 labelled answers, or with answers
        about fewer than 5 different states, or where the held out log loss would not fall, keeps
        its temperature; so do types and buckets without labels. Rows with the same probabilities
        for all questions count as one state.
        Labels stay the same, only probabilities and confidences move. Fitting the same answers
        again gives the same, since ``answers.attrs`` say which temperatures they were made with;
        where these are lost (a file, say), those in use now are taken for them. Probabilities have
        four places, so what stands at 0 counts as 0.00005. Answers that hooks gave or changed
        would be fitted as if the checkpoint had given them: leave their rows out.

        Of a router, the agents that are resident get the temperatures of their checkpoint
        (``routing_model`` says who answered). **One that is evicted and loaded again comes with
        the temperatures of its source**: keep it resident (``max_loaded``), or save it and let the
        name stand for that, ``router.register(name, agent.save(folder))``. An agent of ``laya``
        gets them through its ``save_calibration`` and ``load_calibration``.

        Args:
            answers: An answers frame of this Lab, made with ``detail=True``, or rows of it.
            truth: On the same index, a frame with the questions' columns, or one as a named Series:
                a label, a level number, a boolean; missing where it is not known.
            apply: Whether to use the temperatures, or only to report them.

        Returns:
            One row per checkpoint and bucket: ``checkpoint`` (``agent`` where there is no router),
            ``bucket``, ``n``; ``temperature_before`` and ``temperature``; ``log_loss_before`` and
            ``log_loss``, ``ece_before`` and ``ece``, the later ones of answers that were held out
            (five folds by state, so that equal ones are not fitted on and judged at once);
            ``applied``, and in ``note`` why not.

        Raises:
            InvalidInput: No bucket has 20 labelled answers about 5 states, a true value is none of
                the options, probabilities are not there, or it is not known who answered and how.
        """
        return fit_calibration(self.agent, answers, truth, apply)

    def replay(
        self,
        trace: Trace,
        other: Any = None,
        *,
        hooks: HookArg = None,
        tolerance: float = 1e-3,
        progress: bool = True,
    ) -> Replay:
        """Ask the requests of a recorded trace again, and see what changed.

        Only what somebody asked for is asked again: not the agent's runs inside a router's, nor
        what hooks asked. Each run is a call of its own, one after the other, with the states and
        questions as the recorder saw them (behind the hooks of then), the token budgets, and the
        ``model``, ``task`` or ``lang`` that a router had been told; other options are not in a
        trace. A run that fails is kept with its error. ``lab.trace`` and ``lab.answers`` stay as
        they are.

        Args:
            trace: One with its text: of a Lab or recorder with ``capture="text"``, or read back
                with ``read_trace_csv`` or ``read_trace_parquet``.
            other: Whom to ask: a Lab, an agent or a router, of this package or ``laya``'s;
                ``None`` asks this Lab's.
            hooks: Hooks for these calls.
            tolerance: How far a score or a probability may move and count as unchanged.
            progress: Show a progress bar.

        Returns:
            ``.answers`` and ``.timings`` before and after, and ``.summary()`` in words.

        Raises:
            InvalidInput: The trace holds no text, a cell with text is damaged, or ``other`` is none
                of these.
        """
        target = (
            self.agent if other is None else other.agent if isinstance(other, Judging) else other
        )
        return replay(trace, check_target(target), hooks, progress, tolerance)

    def _wide(self) -> pd.DataFrame:
        if self.answers is None:
            raise InvalidInput("there are no answers yet; call predict first")
        if {"question", "type", "choice"} <= set(self.answers.columns):
            raise InvalidInput("the last answers are in the long layout; ask with layout='wide'")
        return self.answers
