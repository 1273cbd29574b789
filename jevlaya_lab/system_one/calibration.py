"""Temperatures of a checkpoint: by type, by number of options, by language; and as a file.

The file is the public form of ``laya`` 0.4.15 (version 2), so that a calibration fitted there is
read here and the reverse.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from jevlaya_lab.system_one.errors import CheckpointInvalid, CheckpointNotFound
from jevlaya_lab.system_one.files import whole_file
from jevlaya_lab.system_one.questions import QUESTION_TYPES, Question

__all__ = ["BUCKETS", "Calibration", "bucket", "read_calibration", "write_calibration"]

TEMPERATURE_RANGE: Final = (0.5, 5.0)
FILE_VERSION: Final = 2
_SIZES: Final = ("2", "3-5", "6-10", "11+")
BUCKETS: Final = frozenset(f"{kind}:{size}" for kind in QUESTION_TYPES for size in _SIZES)
"""The option-count buckets that temperatures and thresholds are kept by."""


def bucket(kind: str, n_options: int) -> str:
    """The bucket of a question type with that many options, such as ``choice:3-5``."""
    size = "2" if n_options <= 2 else "3-5" if n_options <= 5 else "6-10"
    return f"{kind}:{size if n_options <= 10 else '11+'}"


@dataclass(frozen=True, slots=True)
class Calibration:
    """How logits become probabilities, and ``max(p)`` becomes ``answer_confidence``.

    Attributes:
        temperature: One for each type: choice, score, noul.
        by_options: Temperatures of buckets, which go before the type's.
        by_language: Calibrations of languages (``"de"``), which go before both.
        binning: ``{bucket: [value of each of n equal bins of max(p)]}``: a histogram on top of the
            temperatures, for ``answer_confidence`` only.
    """

    temperature: tuple[float, float, float] = (1.0, 1.0, 1.0)
    by_options: Mapping[str, float] = field(default_factory=dict)
    by_language: Mapping[str, Calibration] = field(default_factory=dict)
    binning: Mapping[str, tuple[float, ...]] | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any], where: str = "the config") -> Calibration:
        """Read ``temperature`` and ``temperature_by_options``, confined to 0.5 … 5.

        A temperature below 0.5 would publish a coin flip as a certainty. What had to be replaced
        is named in a ``RuntimeWarning``.

        Args:
            config: A checkpoint's config, or an entry of ``lang_temperatures``.
            where: What errors and warnings call it.

        Raises:
            CheckpointInvalid: ``temperature`` is no list of three, or the other no object.
        """
        given = config.get("temperature")
        given = [1.0, 1.0, 1.0] if given is None else given
        by_options = config.get("temperature_by_options")
        by_options = {} if by_options is None else by_options
        if not isinstance(given, (list, tuple)) or len(given) != len(QUESTION_TYPES):
            raise CheckpointInvalid(
                f"{where}: temperature must be a list of three numbers (choice, score, noul), "
                f"got {given!r}"
            )
        if not isinstance(by_options, Mapping):
            raise CheckpointInvalid(
                f"{where}: temperature_by_options must map buckets such as 'choice:3-5' to "
                f"numbers, got {by_options!r}"
            )
        replaced: list[str] = []
        temperature = tuple(
            _usable(kind, value, replaced)
            for kind, value in zip(QUESTION_TYPES, given, strict=True)
        )
        buckets = {str(k): _usable(str(k), value, replaced) for k, value in by_options.items()}
        if replaced:
            warnings.warn(
                f"{where}: temperatures outside {TEMPERATURE_RANGE[0]:g} … "
                f"{TEMPERATURE_RANGE[1]:g} were replaced: {', '.join(replaced)}; treat the "
                "confidences of these as uncalibrated",
                RuntimeWarning,
                stacklevel=2,
            )
        return cls(temperature, buckets)  # type: ignore[arg-type]

    def with_languages(self, given: Mapping[str, Any] | None) -> Calibration:
        """The same with temperatures for languages, in laya's form.

        Args:
            given: ``{"de": {"temperature": [3 numbers], "temperature_by_options": {…}}}``. An entry
                that leaves ``temperature`` out inherits this calibration's.

        Raises:
            CheckpointInvalid: An entry has another shape.
        """
        found: dict[str, Calibration] = {}
        for language, entry in (given or {}).items():
            where = f"lang_temperatures[{language!r}]"
            if not isinstance(language, str) or not language.strip():
                raise CheckpointInvalid(f"{where}: the key must be a language code such as 'de'")
            if entry is not None and not isinstance(entry, Mapping):
                raise CheckpointInvalid(f"{where}: must be an object, got {entry!r}")
            entry = dict(entry or {})
            if entry.get("temperature") is None:
                entry["temperature"] = list(self.temperature)
            found[_language(language)] = Calibration.from_config(entry, where)
        return Calibration(self.temperature, self.by_options, found, self.binning)

    def temperature_of(self, question: Question, language: str | None = None) -> float:
        """The temperature that a question's logits are divided by."""
        special = self.by_language.get(_language(language)) if language else None
        if special is not None:
            return special.temperature_of(question)
        key = bucket(question.type, question.n_options)
        return self.by_options.get(key, self.temperature[question.type_id])

    def confidence_of(self, question: Question, top: float, language: str | None = None) -> float:
        """``answer_confidence`` for a highest probability; a language's has no histogram."""
        values = (self.binning or {}).get(bucket(question.type, question.n_options))
        if not values or (language and _language(language) in self.by_language):
            return top
        return values[min(len(values) - 1, int(top * len(values)))]


def _usable(name: str, value: Any, replaced: list[str]) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    low, high = TEMPERATURE_RANGE
    usable = number and (isinstance(value, int) or math.isfinite(value))
    kept = float(min(high, max(low, value))) if usable else 1.0
    if not number or kept != value:
        replaced.append(f"{name}={value!r} -> {kept:g}")
    return kept


def _language(code: str) -> str:
    return code.replace("_", "-").split("-")[0].strip().lower()


def write_calibration(
    calibration: Calibration,
    path: str | os.PathLike[str],
    *,
    model: str | None,
    config: Mapping[str, Any],
    subfolder: str | None = None,
) -> Path:
    """Write temperatures (not those of languages) and say which checkpoint they belong to.

    The file is there as a whole, or as it was before.

    Returns:
        The path.
    """
    payload: dict[str, Any] = {
        "version": FILE_VERSION,
        "temperature": list(calibration.temperature),
        "temperature_by_options": dict(calibration.by_options),
        "model_id_or_path": model,
        "subfolder": subfolder,
        "config": _identity(config),
    }
    if calibration.binning is not None:
        payload["binning_map"] = {
            key: {"bins": len(values), "values": list(values)}
            for key, values in calibration.binning.items()
        }
    with whole_file(path) as file:
        json.dump(payload, file, indent=2)
        file.write("\n")
    return Path(path)


def read_calibration(
    path: str | os.PathLike[str],
    *,
    model: str | None,
    config: Mapping[str, Any],
    subfolder: str | None = None,
) -> Calibration:
    """Read a calibration file; one fitted for another checkpoint is taken with a ``UserWarning``.

    Raises:
        CheckpointNotFound: There is no such file.
        CheckpointInvalid: It has another shape; the message names the field.
    """
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except OSError as exc:
        raise CheckpointNotFound(f"calibration file {os.fspath(path)!r}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise CheckpointInvalid(f"calibration file {os.fspath(path)!r} is no UTF-8 text") from exc
    where = f"calibration file {os.fspath(path)!r}"
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise CheckpointInvalid(f"{where} is no JSON: {exc}") from exc
    if not isinstance(payload, dict):
        raise CheckpointInvalid(f"{where} holds a {type(payload).__name__}, not an object")
    version = payload.get("version", 1)
    if isinstance(version, bool) or not isinstance(version, int):
        raise CheckpointInvalid(f"{where}: version must be a whole number, got {version!r}")
    if payload.get("temperature") is None:
        raise CheckpointInvalid(f"{where}: temperature is missing; it must hold three numbers")
    found = Calibration.from_config(payload, where)
    recorded = (payload.get("model_id_or_path"), payload.get("subfolder"), payload.get("config"))
    if version >= FILE_VERSION and recorded != (model, subfolder, _identity(config)):
        warnings.warn(
            f"{where} was fitted for {recorded[0]!r}"
            f"{f' ({recorded[1]})' if recorded[1] else ''}, this is {model!r}; its temperatures "
            "are taken all the same",
            UserWarning,
            stacklevel=2,
        )
    binning = _binning(payload.get("binning_map"), where)
    return Calibration(found.temperature, found.by_options, {}, binning)


def _binning(given: Any, where: str) -> dict[str, tuple[float, ...]] | None:
    if given is None:
        return None
    if not isinstance(given, dict):
        raise CheckpointInvalid(f"{where}: binning_map must be an object, got {given!r}")
    found: dict[str, tuple[float, ...]] = {}
    for key, entry in given.items():
        values = entry.get("values") if isinstance(entry, dict) else None
        bins = entry.get("bins") if isinstance(entry, dict) else None
        fits = (
            isinstance(values, list)
            and isinstance(bins, int)
            and not isinstance(bins, bool)
            and len(values) == bins >= 1
            and all(
                isinstance(v, (int, float)) and not isinstance(v, bool) and 0 <= v <= 1
                for v in values
            )
        )
        if not fits:
            raise CheckpointInvalid(
                f"{where}: binning_map[{key!r}] must be {{'bins': n, 'values': [n numbers in 0 … "
                f"1]}}, got {entry!r}"
            )
        found[str(key)] = tuple(map(float, values))  # type: ignore[arg-type]
    return found


def _identity(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config without its temperatures: what tells two checkpoints apart."""
    return {
        key: value
        for key, value in config.items()
        if key not in ("temperature", "temperature_by_options")
    }
