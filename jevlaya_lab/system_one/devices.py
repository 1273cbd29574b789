"""Which device a network runs on, and how many cores there are for it."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, Final

from jevlaya_lab.system_one.errors import InvalidOption

if TYPE_CHECKING:
    import torch

__all__ = ["choose_device", "out_of_memory", "usable_cores"]

_PREFERENCE: Final = ("cuda", "mps", "xpu", "cpu")
_MEMORY_WORDS: Final = ("out of memory", "can't allocate memory", "not enough memory")


def choose_device(device: Any = None) -> torch.device:
    """The device asked for, or the best there is.

    Args:
        device: ``None`` or ``"auto"`` for the first available of cuda, mps, xpu, cpu; else a name
            such as ``"cuda:1"``, or a ``torch.device``.

    Returns:
        A device that is available. One that is not is replaced by the CPU, with a
        ``RuntimeWarning``.

    Raises:
        InvalidOption: The name is none of a device.
    """
    import torch

    if device is None or (isinstance(device, str) and device.strip().lower() == "auto"):
        return torch.device(next(kind for kind in _PREFERENCE if _available(kind, None)))
    try:
        asked = torch.device(device)
    except (RuntimeError, TypeError) as exc:
        raise InvalidOption(
            f"device {device!r} is not one; use one of {', '.join(_PREFERENCE)}, or None to choose"
        ) from exc
    if asked.type not in _PREFERENCE:
        raise InvalidOption(
            f"device {device!r} is not supported; use one of {', '.join(_PREFERENCE)}"
        )
    if not _available(asked.type, asked.index):
        warnings.warn(
            f"device {str(asked)!r} is not available here; using the CPU instead",
            RuntimeWarning,
            stacklevel=3,
        )
        return torch.device("cpu")
    return asked


def out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that a device, or the machine, has no memory left.

    Backends differ: CUDA and XPU have a type for it, MPS and the CPU raise ``RuntimeError``.
    """
    names = {kind.__name__ for kind in type(error).__mro__}
    text = str(error).lower()
    return (
        "OutOfMemoryError" in names
        or "MemoryError" in names
        or ("RuntimeError" in names and any(words in text for words in _MEMORY_WORDS))
    )


def usable_cores() -> int:
    """How many cores this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _available(kind: str, index: int | None) -> bool:
    import torch

    if kind == "cpu":
        return True
    if kind == "mps":
        return bool(torch.backends.mps.is_available()) and not index
    backend = getattr(torch, kind)
    return bool(backend.is_available()) and (index or 0) < backend.device_count()
