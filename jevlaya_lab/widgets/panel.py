"""The control panel of an experiment: parameters, run and stop, words, frame and picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ipywidgets

from jevlaya_lab.experiments import ExperimentResult, ExperimentStopped, find
from jevlaya_lab.experiments.options import Parameter, checked
from jevlaya_lab.experiments.verdict import WORDS
from jevlaya_lab.frames.showing import answers_table
from jevlaya_lab.markup import details, note
from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.widgets.background import Worker
from jevlaya_lab.widgets.shown import Shown, error_text, label, notice

__all__ = ["Panel"]


class Panel(Shown):
    """Run an experiment with the parameters chosen; made by :meth:`jevlaya_lab.Lab.panel`.

    Args:
        name: Of the experiment.
        agent: The agent or router to run it on; ``None`` for the embedded registry.

    Attributes:
        result: Of the last run that ended; ``None`` before.
        controls: The control of each parameter by its name.

    Raises:
        InvalidOption: There is no such experiment.
    """

    def __init__(self, name: str, agent: Any = None) -> None:
        self.experiment = find(name)
        self.result: ExperimentResult | None = None
        self.controls = {each.name: _control(each) for each in self.experiment.parameters}
        self._agent = agent
        self._run = ipywidgets.Button(description="Run", icon="play", button_style="primary")
        self._stop = ipywidgets.Button(description="Stop", icon="stop", disabled=True)
        self._bar = ipywidgets.IntProgress(min=0, max=1, layout=ipywidgets.Layout(width="14em"))
        self._said = ipywidgets.HTML()
        self._outcome = ipywidgets.HTML()
        self._worker = Worker(self._failed, self._ended)
        self._run.on_click(lambda _: self.run())
        self._stop.on_click(lambda _: self.stop())
        title = self.experiment.title
        before = notice(f"Experiment: {title}", "Not run yet; choose the parameters and press Run.")
        super().__init__(
            self._box(),
            before,
            f"Panel of the experiment {name}: its controls need a running kernel",
        )
        for control in self.controls.values():
            control.observe(lambda _: self._say_call(), "value")
        self._say_call()

    @property
    def values(self) -> dict[str, Any]:
        """The parameters as the controls say them, checked.

        Raises:
            InvalidOption: One of them does not fit; the message names it.
        """
        read = {each.name: _read(each, self.controls[each.name].value) for each in self._parameters}
        return checked(self._parameters, read)

    def run(self) -> bool:
        """Start it, unless it is running.

        Returns:
            Whether it was started.
        """
        try:
            values = self.values
        except InvalidOption as error:
            self._said.value = error_text(error)
            return False
        if self._worker.busy:
            return False
        self._run.disabled, self._stop.disabled = True, False
        self._said.value = note("starting")
        return self._worker.start(lambda: self._work(values), f"jevlaya-{self.experiment.name}")

    def stop(self) -> None:
        """Stop it at its next step."""
        if self._worker.busy:
            self._worker.stop()
            self._said.value = note("stopping after this step")

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is running.

        Args:
            timeout: Seconds.

        Returns:
            Whether nothing is running.
        """
        return self._worker.wait(timeout)

    # --- in the thread -----------------------------------------------------------------------

    def _work(self, values: Mapping[str, Any]) -> None:
        result = self.experiment.run(self._agent, progress=self._report, **values)
        self.result = result
        self._outcome.value = details(
            f"{WORDS[result.held]}; frame of {len(result.frame)} rows",
            answers_table(result.frame, n_rows=30),
        )
        self.show(result.figure())
        self._said.value = note("done; the result is panel.result")

    def _report(self, done: int, total: int, step: str) -> None:
        if self._worker.stopping:
            raise ExperimentStopped(
                f"{self.experiment.name} was stopped after {done} of {total} steps; "
                "press Run to start it again"
            )
        self._bar.max, self._bar.value = max(total, 1), done
        self._said.value = note(f"step {min(done + 1, total)} of {total}: {step}" if step else "")

    def _failed(self, error: BaseException) -> None:
        self._said.value = error_text(error)

    def _ended(self) -> None:
        self._run.disabled, self._stop.disabled = False, True

    # --- the controls ------------------------------------------------------------------------

    @property
    def _parameters(self) -> tuple[Parameter, ...]:
        return self.experiment.parameters

    def _say_call(self) -> None:
        """The same as code, so that what was tried can be kept."""
        try:
            values = self.values
        except InvalidOption as error:
            self._call.value = error_text(error)
            return
        changed = {
            each.name: values[each.name]
            for each in self._parameters
            if values[each.name] != each.check(each.default)
        }
        arguments = "".join(f", {name}={value!r}" for name, value in changed.items())
        name = self.experiment.name
        flags = "".join(f" {_flag(name, value)}" for name, value in changed.items())
        self._call.value = note(
            f'lab.experiment("{name}"{arguments})   or, with the Lab in a variable lab,   '
            f"%jevlaya experiment {name}{flags} --lab lab"
        )

    def _box(self) -> Any:
        self._call = ipywidgets.HTML()
        rows = []
        for each in self._parameters:
            help_text = ipywidgets.HTML(note(each.option.help))
            rows.append(
                ipywidgets.HBox(
                    [label(each.name), self.controls[each.name], help_text],
                    layout=ipywidgets.Layout(flex_flow="row wrap"),
                )
            )
        return ipywidgets.VBox(
            [
                label(f"Experiment: {self.experiment.title}"),
                *rows,
                self._call,
                ipywidgets.HBox([self._run, self._stop, self._bar, self._said]),
                self._outcome,
            ]
        )


def _control(parameter: Parameter) -> Any:
    """A stock control that the keyboard reaches also inside of JupyterLab."""
    option, default = parameter.option, parameter.default
    if parameter.many:
        return ipywidgets.Text(" ".join(str(each) for each in default))
    if option.choices:
        return ipywidgets.ToggleButtons(
            options=list(option.choices), value=default, style={"button_width": "auto"}
        )
    if parameter.kind is bool:
        return ipywidgets.Checkbox(default, indent=False, layout=ipywidgets.Layout(width="auto"))
    if parameter.kind is str:
        return ipywidgets.Text(default)
    whole = parameter.kind is int
    control = ipywidgets.BoundedIntText if whole else ipywidgets.BoundedFloatText
    low = option.low if option.low is not None else -1e9
    high = option.high if option.high is not None else 1e9
    return control(
        default,
        min=int(low) if whole else low,
        max=int(high) if whole else high,
        step=1 if whole else 0.05,
        layout=ipywidgets.Layout(width="8em"),
    )


def _read(parameter: Parameter, value: Any) -> Any:
    """What a control says, in the parameter's kind.

    Raises:
        InvalidOption: A word among several is of another kind.
    """
    if not parameter.many:
        return value
    words = str(value).replace(",", " ").split()
    if parameter.kind is str:
        return words
    try:
        return [parameter.kind(word) for word in words]
    except ValueError:
        raise InvalidOption(
            f"{parameter.name}: numbers with spaces between them, such as "
            f"{' '.join(str(each) for each in parameter.default)!r}; got {value!r}"
        ) from None


def _flag(name: str, value: Any) -> str:
    """A parameter as the magic takes it."""
    dashed = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{dashed}" if value else f"--no-{dashed}"
    words = value if isinstance(value, tuple) else (value,)
    return f"--{dashed} {' '.join(str(each) for each in words)}"
