"""``%jevlaya`` and ``%%jevlaya`` for IPython and Jupyter; ``%load_ext jevlaya_lab`` brings them.

The parts: :mod:`commands` does the work, :mod:`magic` finds the command and its options,
:mod:`experiments` runs experiments, :mod:`session` knows the Lab and the user's variables,
:mod:`states` reads what is written in a cell, :mod:`traced` records the code of a cell,
:mod:`completion` answers the tab key.
"""

from __future__ import annotations

from typing import Any

__all__ = ["load", "unload"]


def load(shell: Any) -> None:
    """Bring the magics and the accessor into a shell; a second time changes nothing."""
    from jevlaya_lab.lab.accessor import register
    from jevlaya_lab.magics.magic import JevlayaMagics

    register()
    if JevlayaMagics.__name__ not in shell.magics_manager.registry:
        JevlayaMagics(shell).install()


def unload(shell: Any) -> None:
    """Take the magics away again; the accessor stays, since pandas cannot forget one."""
    from jevlaya_lab.magics.magic import JevlayaMagics

    magics = shell.magics_manager.registry.get(JevlayaMagics.__name__)
    if magics is not None:
        magics.uninstall()
