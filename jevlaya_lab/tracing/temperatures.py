"""The temperatures that an agent answers with, ours or ``laya``'s, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jevlaya_lab.system_one.calibration import Calibration

__all__ = ["Temperatures", "temperatures_of"]

Temperatures = dict[str, Any]
"""``temperature`` (choice, score, noul), ``temperature_by_options``, ``languages`` (codes that have
temperatures of their own); JSON could say it."""


def temperatures_of(agent: Any) -> Temperatures | None:
    """Its temperatures now; ``None`` where it does not say them."""
    calibration = getattr(agent, "calibration", None)
    if isinstance(calibration, Calibration):
        by_type: Any = calibration.temperature
        by_options: Any = calibration.by_options
        languages: Any = calibration.by_language
    else:
        by_type = getattr(agent, "temperature", None)
        by_options = getattr(agent, "temperature_by_options", None) or {}
        languages = getattr(agent, "lang_temperatures", None) or {}
    if not isinstance(by_type, (list, tuple)) or len(by_type) != 3:
        return None
    if not isinstance(by_options, Mapping) or not isinstance(languages, Mapping):
        return None
    return {
        "temperature": list(map(float, by_type)),
        "temperature_by_options": {str(k): float(v) for k, v in by_options.items()},
        "languages": sorted(map(str, languages)),
    }
