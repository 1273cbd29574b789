"""Packages that only one feature needs, and the answer where one of them is missing."""

from __future__ import annotations

import importlib
from typing import Any

from jevlaya_lab.system_one.errors import MissingExtra

__all__ = ["require"]


def require(module: str, extra: str, feature: str) -> Any:
    """Import a module of an optional package.

    Args:
        module: Its full name, such as ``pyarrow.parquet``.
        extra: The extra of this package that brings it.
        feature: What needs it, for the message.

    Raises:
        MissingExtra: It is not installed; the message has the line that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{feature} needs {module.partition('.')[0]}, which is not installed ({error}); "
            f'install it with: pip install "jevlaya_lab[{extra}]"'
        ) from error
