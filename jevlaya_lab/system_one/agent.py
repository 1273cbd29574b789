"""Agent: one checkpoint that answers typed questions about states.

``predict_batch`` is the only implementation; ``predict`` and ``system_one`` are calls of it. It
brackets the four steps of :mod:`inference` with the lifecycle. ``predict_long``, for states longer
than the network's window, comes from :mod:`scanning` and does the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jevlaya_lab.markup import safely
from jevlaya_lab.system_one import lifecycle
from jevlaya_lab.system_one.calibration import Calibration, read_calibration, write_calibration
from jevlaya_lab.system_one.checkpoint import Checkpoint, copy_checkpoint, read_checkpoint
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.decoding import apply_min_confidence, check_min_confidence
from jevlaya_lab.system_one.encoding import check_count, check_lang
from jevlaya_lab.system_one.errors import InvalidOption, InvalidResult
from jevlaya_lab.system_one.hooks import CallableArg, HookArg
from jevlaya_lab.system_one.models import Network
from jevlaya_lab.system_one.models.opening import open_network
from jevlaya_lab.system_one.questions import Questions
from jevlaya_lab.system_one.scanning import LongStates
from jevlaya_lab.system_one.showing import agent_html

__all__ = ["Agent"]


class Agent(LongStates):
    """A checkpoint, ready to answer; may be used from many threads at once (L-38).

    Args:
        model_id_or_path: ``"embedded"`` for the checkpoint that comes with the package, a
            checkpoint folder, or ``org/name`` on a Hugging Face Hub.
        device: ``None`` for the best there is, or a name such as ``"cpu"`` or ``"cuda:1"``.
        token: Access token for the hub.
        subfolder: The folder of the source that is the checkpoint.
        revision: Branch, tag or commit on the hub.
        expected_sha256: Digests by file name, checked before the file is read.
        lang_temperatures: Temperatures by language, ``{"de": {"temperature": [3 numbers]}}``.
        calibration: A calibration file that replaces the checkpoint's temperatures.
        network: A network to use instead of loading a checkpoint; ``model_id_or_path`` is then only
            its name.
        config: The config of such a network (temperatures).
        hooks: Hooks to install, see ``HookRegistry`` for these and the following.
        on_predict_start: Functions to install as start hooks.
        on_predict_end: Functions to install as end hooks.
        hooks_raise: Whether a failing hook fails the call.
        hooks_concurrent: Whether hooks may run in several threads at once.
        hooks_timeout: Seconds that one hook call may take.

    Attributes:
        model_id: The checkpoint's name as given.
        config: The checkpoint's config.
        network: The network.
        calibration: The temperatures in use.
        memory_split_count: How often a forward pass was split because memory ran out.
        cpu_fallback_count: How often a state was answered on the CPU for the same reason.
        last_fallback_reason: What the device said then; ``None`` where it never happened.

    Raises:
        CheckpointNotFound: No checkpoint there, or a file of it is missing.
        CheckpointInvalid: It is damaged or of an unknown kind.
        InvalidHook: A hook is none.
        InvalidOption: An argument is outside what it takes.
    """

    def __init__(
        self,
        model_id_or_path: str | os.PathLike[str] = "embedded",
        device: Any = None,
        *,
        token: str | None = None,
        subfolder: str | None = None,
        revision: str | None = None,
        expected_sha256: Mapping[str, str] | None = None,
        lang_temperatures: Mapping[str, Any] | None = None,
        calibration: str | os.PathLike[str] | None = None,
        network: Network | None = None,
        config: Mapping[str, Any] | None = None,
        hooks: HookArg = None,
        on_predict_start: CallableArg = None,
        on_predict_end: CallableArg = None,
        hooks_raise: bool = True,
        hooks_concurrent: bool = True,
        hooks_timeout: float | None = None,
    ) -> None:
        super().__init__(
            hooks, on_predict_start, on_predict_end, hooks_raise, hooks_concurrent, hooks_timeout
        )
        self.model_id = os.fspath(model_id_or_path)
        self.subfolder = subfolder
        self._checkpoint: Checkpoint | None = None
        if network is None:
            checkpoint = self._checkpoint = read_checkpoint(
                model_id_or_path,
                subfolder=subfolder,
                revision=revision,
                token=token,
                expected_sha256=expected_sha256,
            )
            self.config, temperatures = checkpoint.config, checkpoint.calibration
        else:
            self.config = dict(config or {})
            temperatures = Calibration.from_config(self.config)
        if calibration is not None:
            temperatures = self._calibration_from(calibration)
        self.calibration = temperatures.with_languages(lang_temperatures)
        # Last, since this is what takes time: whatever is wrong with the rest is said before.
        self.network = open_network(checkpoint, device) if network is None else network

    def predict_batch(
        self,
        states: Sequence[Any],
        questions: Questions,
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
        sort_by_length: bool | None = None,
        min_confidence: float | Mapping[str, float] | None = None,
    ) -> list[dict[str, Any]]:
        """Answer the same typed questions about many states.

        Args:
            states: A list of states: text, JSON objects, or conversations (lists of turns).
            questions: ``{id: definition}``, plain dicts or ``Choice``, ``Score``, ``Noul``.
            batch_size: States per forward pass. ``None`` fills each pass up to a token budget.
            lang: Code of the states' language, where the agent has ``lang_temperatures`` for it.
            hooks: Hooks for this call, run after the installed ones.
            on_predict_start: Functions run as start hooks after those.
            on_predict_end: Functions run as end hooks after those.
            hooks_raise: For this call instead of the agent's setting.
            hooks_timeout: For this call instead of the agent's setting, in seconds.
            max_len: Token budget of a state with all that goes with it; ``None``: the checkpoint's.
            head_max_len: Token budget of the question part; ``None``: the checkpoint's.
            sort_by_length: Put states of similar length together, to save padding. ``None`` does so
                where ``batch_size`` is ``None`` as well. Results keep the order of ``states``.
            min_confidence: A threshold for ``answer_confidence``, or thresholds by bucket; adds
                ``abstention`` and ``abstention_threshold`` to each answer, and ``low_confidence``
                to those below.

        Returns:
            One result per state, in order, ``{"model", "answers", "usage"}``, as the end hooks left
            them.

        Raises:
            InvalidQuestion: A definition cannot be answered.
            InvalidState: ``states`` is no list, or holds what is no state.
            InvalidOption: A budget, ``batch_size`` or ``min_confidence`` is out of range.
            BaseException: What a hook raised.

        Source: rules L-1 to L-10; the payload is that of ``laya`` 0.4.15.
        """
        active = self.active_hooks(
            hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout
        )
        batch_size = check_count("batch_size", batch_size)
        thresholds = check_min_confidence(min_confidence)
        check_lang(lang)
        ctx = PredictContext(
            states=states,
            questions=questions,
            model=self.model_id,
            agent=self,
            max_len=max_len,
            head_max_len=head_max_len,
            entry="predict_batch",
        )

        def work(_: Sequence[PredictContext]) -> None:
            if ctx.results is None:
                ctx.results = self._infer(ctx, batch_size, sort_by_length, lang)
            ctx.results = apply_min_confidence(ctx.results, thresholds)

        lifecycle.run((ctx,), active, work)
        return ctx.results  # type: ignore[return-value]  # an end hook may leave anything (L-10)

    def predict(
        self,
        state: Any,
        questions: Questions,
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
        """Answer typed questions about one state: ``predict_batch([state], …)[0]`` (L-1).

        Args:
            state: Text, a JSON object, or a conversation as a list of turns.
            questions: As for :meth:`predict_batch`, like all other arguments.
            lang: See :meth:`predict_batch`.
            hooks: See :meth:`predict_batch`.
            on_predict_start: See :meth:`predict_batch`.
            on_predict_end: See :meth:`predict_batch`.
            hooks_raise: See :meth:`predict_batch`.
            hooks_timeout: See :meth:`predict_batch`.
            max_len: See :meth:`predict_batch`.
            head_max_len: See :meth:`predict_batch`.
            min_confidence: See :meth:`predict_batch`.

        Returns:
            The result of the state.

        Raises:
            InvalidResult: The hooks left something else than a list with a result.
            JevlayaError: As :meth:`predict_batch`.
        """
        results = self.predict_batch(
            [state],
            questions,
            lang=lang,
            hooks=hooks,
            on_predict_start=on_predict_start,
            on_predict_end=on_predict_end,
            hooks_raise=hooks_raise,
            hooks_timeout=hooks_timeout,
            max_len=max_len,
            head_max_len=head_max_len,
            min_confidence=min_confidence,
        )
        if not isinstance(results, (list, tuple)) or not results:
            raise InvalidResult(
                f"predict: the hooks left {results!r} where a list with one result belongs"
            )
        return results[0]

    system_one = predict

    @property
    def lang_temperatures(self) -> Mapping[str, Calibration]:
        """The temperatures of languages by code (``"de"``); empty where there are none."""
        return MappingProxyType(dict(self.calibration.by_language))

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the checkpoint as a folder, with the temperatures in use (not those of languages).

        Weights and tokenizer are copied as they are; ``laya`` reads the folder of a cross-encoder.

        Returns:
            The folder.

        Raises:
            InvalidOption: This agent was made with ``network=`` and has no files to copy.
        """
        if self._checkpoint is None:
            raise InvalidOption(
                "this agent was made with network=, so there are no files to copy; write them with "
                "jevlaya_lab.system_one.checkpoint.write_checkpoint"
            )
        return copy_checkpoint(replace(self._checkpoint, calibration=self.calibration), folder)

    def save_calibration(self, path: str | os.PathLike[str]) -> Path:
        """Write the temperatures in use, and which checkpoint they are for, in laya's form.

        Returns:
            The path.
        """
        return write_calibration(
            self.calibration,
            path,
            model=self.model_id,
            config=self.config,
            subfolder=self.subfolder,
        )

    def load_calibration(self, path: str | os.PathLike[str]) -> None:
        """Use the temperatures of a file written here or by ``laya``; those of languages stay.

        A file that was fitted for another checkpoint is taken with a ``UserWarning``.

        Raises:
            CheckpointNotFound: There is no such file.
            CheckpointInvalid: It has another shape; the temperatures in use are kept.
        """
        languages = self.calibration.by_language
        self.calibration = replace(self._calibration_from(path), by_language=languages)

    def _calibration_from(self, path: str | os.PathLike[str]) -> Calibration:
        return read_calibration(
            path, model=self.model_id, config=self.config, subfolder=self.subfolder
        )

    def _repr_html_(self) -> str:
        return safely(self, agent_html)

    def __repr__(self) -> str:
        facts = self.network.info()
        device = f", device={facts['device']!r}" if "device" in facts else ""
        return f"Agent({self.model_id!r}, {facts['architecture']}{device}, hooks={self.hooks!r})"
