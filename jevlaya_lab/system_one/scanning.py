"""``predict_long``: a long state through the network, window by window, as one run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from jevlaya_lab.system_one import lifecycle
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.decoding import apply_min_confidence, check_min_confidence
from jevlaya_lab.system_one.encoding import check_count, check_lang, check_states, state_text
from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.system_one.hooks import CallableArg, HookArg, HookRegistry
from jevlaya_lab.system_one.inference import FourSteps
from jevlaya_lab.system_one.long import (
    Scored,
    Window,
    check_skipped,
    choose_window,
    merge,
    plan_windows,
)
from jevlaya_lab.system_one.models import Budget
from jevlaya_lab.system_one.questions import Question, Questions, prepare

__all__ = ["LongStates"]


class LongStates(FourSteps, HookRegistry):
    """The part of an Agent that reads states longer than its network's window."""

    def predict_long(
        self,
        state: Any,
        questions: Questions,
        window: int | None = None,
        stride: int | None = None,
        aggregate: str = "auto",
        batch_size: int | None = None,
        *,
        lang: str | None = None,
        hooks: HookArg = None,
        on_predict_start: CallableArg = None,
        on_predict_end: CallableArg = None,
        hooks_raise: bool | None = None,
        hooks_timeout: float | None = None,
        max_len: int | None = None,
        head_max_len: int | None = None,
        min_confidence: float | Mapping[str, float] | None = None,
    ) -> dict[str, Any]:
        """Answer typed questions about a state that may be longer than the network's window.

        The state is cut into overlapping windows, all questions are asked of all windows in one
        run, and of each question one window's answer is taken as it is: the one with the highest
        P(yes) of a noul, the one with the highest ``answer_confidence`` of a choice or a score.

        **The answer is that window's; it is not calibrated for the whole state.** The highest of
        many probabilities rises with the number of windows also where there is nothing to find,
        and a choice may rest on a window that is sure of something beside the point. So
        ``answer["window"]`` says which window it was; read that span before you rely on the number.

        A state that fits whole into the room that the questions leave (or into an explicit
        ``window``) is asked as :meth:`predict` asks it, and its answers name no window.

        Hooks see one run: ``ctx.entry`` is ``predict_long``, ``ctx.states`` the texts of the
        windows, and at the end ``ctx.results`` one result for each of them, before they are merged.
        A start hook may

        - answer with ``ctx.skip([result])``, one result for the whole state, which is returned with
          ``usage["windows"]`` at 0;
        - assign other ``ctx.states``: answers are merged over these and name no window. What the
          hook made longer than the room is cut, as in :meth:`predict_batch`; ``usage`` says so;
        - change questions or budgets, as long as the texts still fit.

        Args:
            state: Text, a JSON object, or a conversation as a list of turns.
            questions: As for :meth:`predict_batch`.
            window: State tokens of a window; ``None``: ``max(64, max_len - head_max_len - 8)``. At
                most the room that the questions leave: more is cut to it with a warning. Smaller
                windows find a short passage better, and there are more of them.
            stride: State tokens from one window's start to the next one's, at most a window;
                ``None``: half a window.
            aggregate: ``"auto"``, the rule above, is the only one.
            batch_size: Windows per forward pass; ``None`` fills each pass up to a token budget.
            lang: See :meth:`predict_batch`, as for all that follow.
            hooks: See :meth:`predict_batch`.
            on_predict_start: See :meth:`predict_batch`.
            on_predict_end: See :meth:`predict_batch`.
            hooks_raise: See :meth:`predict_batch`.
            hooks_timeout: See :meth:`predict_batch`.
            max_len: See :meth:`predict_batch`.
            head_max_len: See :meth:`predict_batch`.
            min_confidence: See :meth:`predict_batch`; it is compared with the window's figure.

        Returns:
            One result. ``answer["window"]`` holds ``index`` and ``count``, ``token_start`` and
            ``token_end``, ``char_start`` and ``char_end``; the last two cut the span out of the
            state, or out of ``json.dumps(state, ensure_ascii=False)`` where it is no string.
            ``usage["windows"]`` says how many windows were scored, 0 without questions. Other
            numbers of ``usage`` are summed over windows, so the overlap counts twice;
            ``truncated`` is true where any text was cut, and ``truncated_questions`` names the
            questions of all of them.

        Raises:
            InvalidQuestion: A definition cannot be answered.
            InvalidState: The state cannot be read.
            InvalidOption: An argument is out of range; the stride is larger than the window; the
                questions leave no room, or after the start hooks less than the texts need.
            InvalidResult: A start hook skipped with several results, or end hooks left other
                results than one for each window.
            BaseException: What a hook raised.

        Source: ``laya`` 0.4.15, which cuts decoded tokens; here windows are pieces of the text.
        """
        began = time.perf_counter()
        active = self.active_hooks(
            hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout
        )
        batch_size = check_count("batch_size", batch_size)
        thresholds = check_min_confidence(min_confidence)
        check_lang(lang)
        if aggregate != "auto":
            raise InvalidOption(
                f"aggregate must be 'auto', the only rule there is; got {aggregate!r}"
            )
        asked = prepare(questions)
        budget = self._budget_of(max_len, head_max_len)
        text = state_text(state)
        windows = self._windows(
            text, asked, budget, check_count("window", window), check_count("stride", stride)
        )
        texts = [text[w.char_start : w.char_end] for w in windows] or [text]
        ctx = PredictContext(
            states=list(texts) if windows else [state],
            questions=questions,
            model=self.model_id,
            agent=self,
            max_len=max_len,
            head_max_len=head_max_len,
            started_at=began,  # the state had to be tokenised for the start hooks
            entry="predict_long",
        )
        own_ids = frozenset(question.id for question in asked)
        scored = Scored(None, {}, own_ids)

        def work(_: Sequence[PredictContext]) -> None:
            nonlocal scored
            if ctx.results is None:
                kinds, as_planned = self._check_scan(ctx, texts, asked, budget)
                ctx.results = self._infer(ctx, batch_size, None, lang)
                reported = windows if as_planned else ()
                scored = Scored(len(ctx.results), kinds, own_ids, reported)
            else:
                check_skipped(ctx.results)
            ctx.results = apply_min_confidence(ctx.results, thresholds)

        lifecycle.run((ctx,), active, work)
        return merge(ctx.results, scored, self.model_id)

    def _windows(
        self,
        text: str,
        asked: tuple[Question, ...],
        budget: Budget,
        window: int | None,
        stride: int | None,
    ) -> tuple[Window, ...]:
        """The windows of a state; none where it is asked whole."""
        if not asked:
            return ()
        spans = self.network.token_spans(text)
        if not spans:
            return ()
        room = self.network.room(asked, budget)
        if room < 1:
            raise InvalidOption(
                f"the questions leave no room for the state in max_len={budget.max_len} with "
                f"head_max_len={budget.head_max_len}; raise max_len, or ask with fewer or shorter "
                "options"
            )
        size, step = choose_window(window, stride, room, budget)
        if len(spans) <= (room if window is None else size):
            return ()
        return plan_windows(text, spans, size, step, room, self._count)

    def _count(self, text: str) -> int:
        return len(self.network.token_spans(text))

    def _check_scan(
        self,
        ctx: PredictContext,
        planned: Sequence[str],
        asked: tuple[Question, ...],
        budget: Budget,
    ) -> tuple[dict[Any, str], bool]:
        """What the start hooks left: the questions' types, and whether the texts are as planned.

        Raises:
            InvalidOption: Hooks changed questions or budgets, and a text is too long for these.
        """
        texts = check_states(ctx.states)
        questions = prepare(ctx.questions)
        now = self._budget_of(ctx.max_len, ctx.head_max_len)
        if questions and (questions, now) != (asked, budget):
            room = self.network.room(questions, now)
            longest = max(map(self._count, texts), default=0)
            if longest > room:
                raise InvalidOption(
                    f"predict_long: with the questions and budgets that the start hooks left "
                    f"(max_len={now.max_len}, head_max_len={now.head_max_len}) there is room for "
                    f"{room} state tokens, and the longest of {len(texts)} texts has {longest}; "
                    f"ask for smaller windows, or leave questions and budgets as they are"
                )
        return {question.id: question.type for question in questions}, texts == list(planned)
