"""The playground: write a state, edit questions, order hooks, run, and watch the lifecycle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import ipywidgets

from jevlaya_lab.lab.asking import is_router
from jevlaya_lab.lab.lab import Lab
from jevlaya_lab.markup import Markup, join, note, table
from jevlaya_lab.system_one.errors import InvalidState, JevlayaError
from jevlaya_lab.system_one.hooks import entries, listed
from jevlaya_lab.system_one.questions import Choice, Noul, Score
from jevlaya_lab.widgets.background import Worker
from jevlaya_lab.widgets.hooks_form import HooksForm, ready_made
from jevlaya_lab.widgets.questions_form import QuestionsForm
from jevlaya_lab.widgets.shown import Shown, error_text, label, notice

__all__ = ["Playground"]

STATE: Final = "The invoice of May was charged twice. Please refund one, or I will cancel."
QUESTIONS: Final[Mapping[str, Any]] = {
    "team": Choice("Which team should answer?", ["billing", "technical support", "shipping"]),
    "urgency": Score("How urgent is it?", ["it can wait", "soon", "right now"]),
    "refund": Noul("The customer asks for a refund."),
}
_EMPTY: Final = notice(
    "Nothing was asked yet", "Write a state, edit the questions, pick hooks, and press Run."
)
_BY_ITSELF: Final = "by itself"


class Playground(Shown):
    """Ask one state at a time; made by :meth:`jevlaya_lab.Lab.playground`.

    Args:
        lab: The Lab whose agent or router is asked; its trace records the calls.
        state: The first state: text, a dict or a conversation.
        questions: The first questions; ``None`` for three of a help desk.
        hooks: Hooks to pick from, before the ready-made ones; they are picked at the start.

    Attributes:
        answers: The frame of the last call; ``None`` before it, and where it failed.
        questions_form: The rows of questions.
        hooks_form: The list of hooks.
    """

    def __init__(
        self,
        lab: Lab,
        state: Any = None,
        questions: Mapping[str, Any] | None = None,
        hooks: Any = None,
    ) -> None:
        given = listed(hooks)
        entries("call", given)  # refuses what is no hook
        self._lab = lab
        self.answers: Any = None
        self.questions_form = QuestionsForm(QUESTIONS if questions is None else questions)
        self.hooks_form = HooksForm([*given, *ready_made()], picked=len(given))
        self._state = ipywidgets.Textarea("", rows=4, layout=ipywidgets.Layout(width="98%"))
        self._as_json = ipywidgets.Checkbox(
            False,
            description="the state is JSON (a dict, or a conversation)",
            indent=False,
            layout=ipywidgets.Layout(width="auto"),
        )
        self._model = ipywidgets.ToggleButtons(
            options=_checkpoints(lab.agent), style={"button_width": "auto"}
        )
        self._run = ipywidgets.Button(description="Run", icon="play", button_style="primary")
        self._stop = ipywidgets.Button(description="Stop", icon="stop", disabled=True)
        self._said = ipywidgets.HTML()
        self._table = ipywidgets.HTML()
        self._worker = Worker(lambda _: None)
        self._run.on_click(lambda _: self.run())
        self._stop.on_click(lambda _: self.stop())
        self.state = STATE if state is None else state
        super().__init__(self._controls(), _EMPTY, "Playground: its controls need a running kernel")

    @property
    def state(self) -> Any:
        """The state as it will be asked.

        Raises:
            InvalidState: It is empty, or is said to be JSON and is none.
        """
        words: str = self._state.value
        if not words.strip():
            raise InvalidState("the state is empty; write what the questions are about")
        if not self._as_json.value:
            return words
        try:
            return json.loads(words)
        except ValueError as error:
            raise InvalidState(f"the state is not JSON: {error}") from None

    @state.setter
    def state(self, value: Any) -> None:
        try:
            words = value if isinstance(value, str) else json.dumps(value, indent=1)
        except TypeError as error:
            raise InvalidState(f"the state cannot be written as JSON: {error}") from None
        self._as_json.value, self._state.value = not isinstance(value, str), words

    def run(self) -> bool:
        """Ask, unless something is being asked.

        Returns:
            Whether it was begun; otherwise the controls say why not.
        """
        try:
            state, questions = self.state, self.questions_form.questions
        except JevlayaError as error:
            self._said.value = error_text(error)
            self._table.value, self.answers = "", None
            self.show(notice("Nothing was asked", "What is wrong stands above."))
            return False
        options = {} if self._model.value == _BY_ITSELF else {"model": self._model.value}
        hooks = self.hooks_form.hooks
        if self._worker.busy:
            return False
        # What an earlier, left call still says is said to a worker that nobody listens to.
        worker = self._worker = Worker(
            lambda error: self._failed(worker, error), lambda: self._ended(worker)
        )
        self._run.disabled, self._stop.disabled = True, False
        self._said.value = note("asking; the first call loads the checkpoint")
        return worker.start(
            lambda: self._ask(worker, state, questions, hooks, options), "jevlaya-playground"
        )

    def stop(self) -> None:
        """Leave the call: it is finished in the background, and its answer is not shown.

        A pass of the network, a load or a hook that has begun cannot be broken off.
        """
        if self._worker.busy:
            self._worker = Worker(lambda _: None)
            self._run.disabled, self._stop.disabled = False, True
            self._said.value = note(
                "left; what has begun is finished in the background, and its answer is not shown"
            )

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is being asked.

        Args:
            timeout: Seconds.

        Returns:
            Whether nothing is being asked.
        """
        return self._worker.wait(timeout)

    # --- in the thread -----------------------------------------------------------------------

    def _ask(
        self,
        worker: Worker,
        state: Any,
        questions: Any,
        hooks: Sequence[Any],
        options: Mapping[str, Any],
    ) -> None:
        try:
            answers = self._lab.predict(
                [state],
                questions,
                hooks=hooks,
                layout="long",
                detail=True,
                progress=False,
                **options,
            )
        finally:
            if worker is self._worker and not self._lab.trace.runs.empty:
                self.show(self._lab.lifecycle())
        if worker is self._worker:
            self.answers = answers
            self._table.value = answers_html(answers)
            self._said.value = note("done; the frame is playground.answers")

    def _failed(self, worker: Worker, error: BaseException) -> None:
        if worker is self._worker:
            self.answers = None
            self._table.value = ""
            self._said.value = error_text(error)

    def _ended(self, worker: Worker) -> None:
        if worker is self._worker:
            self._run.disabled, self._stop.disabled = False, True

    def _controls(self) -> Any:
        parts = [label("State"), self._state, self._as_json]
        parts += [label("Questions"), self.questions_form.box]
        parts += [label("Hooks"), self.hooks_form.box]
        if len(self._model.options) > 1:
            parts += [label("Checkpoint"), self._model]
        parts += [ipywidgets.HBox([self._run, self._stop, self._said]), self._table]
        return ipywidgets.VBox(parts)


def answers_html(answers: Any) -> Markup:
    """The long frame of one state: each answer with its probabilities, and how it was routed."""
    rows = []
    for row in answers.to_dict("records"):
        shares = json.loads(row["probabilities"]) if isinstance(row["probabilities"], str) else {}
        rows.append(
            [
                *(row["question"], row["type"], row[row["type"]]),
                "   ".join(f"{name}: {share:.3f}" for name, share in shares.items()),
            ]
        )
    routed = [row.get("routing_reason") for row in answers.to_dict("records")[:1]]
    said = [note(f"{answers['routing_model'].iloc[0]}: {each}") for each in routed if each]
    return join(table(["question", "type", "answer", "probabilities"], rows), *said)


def _checkpoints(agent: Any) -> list[str]:
    if not is_router(agent):
        return [_BY_ITSELF]
    return [_BY_ITSELF, *(str(name) for name in getattr(agent, "models", ()))]
