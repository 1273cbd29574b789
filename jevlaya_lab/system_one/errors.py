"""Every exception that the runtime raises on its own account.

::

    JevlayaError
    ├── InvalidInput                      bad input, refused where it enters
    │   ├── InvalidRequest   (ValueError, TypeError)  a request to a Router that is none
    │   ├── InvalidQuestion  (ValueError, TypeError)  a definition that cannot be answered
    │   ├── InvalidState     (TypeError)    a state, or a list of states, of the wrong kind
    │   ├── InvalidHook      (TypeError)    something that is not a hook where one belongs
    │   ├── InvalidOption    (ValueError)   an argument out of range, such as batch_size
    │   ├── InvalidResult    (ValueError)   results from a hook that do not fit the call
    │   └── UnknownCheckpoint (ValueError)  a name under which no checkpoint is registered
    ├── HookTimeout          (TimeoutError) a hook ran longer than hooks_timeout
    ├── NonFiniteLogits      (ArithmeticError)  the network gave NaN or infinity for an option
    ├── MissingExtra         (ImportError)  a package of an extra is not installed
    ├── FileError                         a file of answers or of a trace that cannot be read back
    │   ├── FileMissing      (FileNotFoundError)  it, or one that belongs to it, is not there
    │   └── FileInvalid      (ValueError)   damaged, cut short, or of another kind or version
    └── CheckpointError                   a checkpoint that cannot be used
        ├── CheckpointNotFound (FileNotFoundError)  nothing there, or a file of it is missing
        └── CheckpointInvalid  (ValueError)         damaged, altered, or of an unknown kind

Each one also is the built-in exception named beside it, so that code written for ``laya``, which
raises the built-in ones, catches the same failures here.
"""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "CheckpointInvalid",
    "CheckpointNotFound",
    "FileError",
    "FileInvalid",
    "FileMissing",
    "HookTimeout",
    "InvalidHook",
    "InvalidInput",
    "InvalidOption",
    "InvalidQuestion",
    "InvalidRequest",
    "InvalidResult",
    "InvalidState",
    "JevlayaError",
    "MissingExtra",
    "NonFiniteLogits",
    "UnknownCheckpoint",
]


class JevlayaError(Exception):
    """Root of the tree: catch this to catch everything that this package raises by itself."""


class InvalidInput(JevlayaError):
    """Input that was refused before any work was done with it."""


class InvalidRequest(InvalidInput, ValueError, TypeError):
    """A request that is no dict, lacks a key or has a misspelt one; its number is in the message.

    ``laya`` raises a ``TypeError`` for some of these and a ``ValueError`` for others.
    """


class InvalidQuestion(InvalidInput, ValueError, TypeError):
    """A question definition that cannot be answered; the message names the question's id."""


class InvalidState(InvalidInput, TypeError):
    """A state, or a list of states, of a kind that cannot be read."""


class InvalidHook(InvalidInput, TypeError):
    """An object given as a hook that is none; the message says what to pass instead."""


class InvalidOption(InvalidInput, ValueError):
    """An argument outside what the function takes."""


class InvalidResult(InvalidInput, ValueError):
    """Results that a hook gave and that do not fit the call they stand for."""


class UnknownCheckpoint(InvalidInput, ValueError):
    """A name under which no checkpoint is registered; the message names the nearest ones."""


class HookTimeout(JevlayaError, TimeoutError):
    """A hook did not return within ``hooks_timeout`` seconds.

    The hook's thread is not stopped (Python cannot): the timeout bounds the call, not the hook.
    """


class NonFiniteLogits(JevlayaError, ArithmeticError):
    """A network's logits are NaN or infinite, so that there is no answer; names the question."""


class MissingExtra(JevlayaError, ImportError):
    """A package that only one feature needs is not installed; the message has the install line."""


class FileError(JevlayaError):
    """A file of answers or of a trace that cannot be read back."""


class FileMissing(FileError, FileNotFoundError):
    """The file, or one that belongs to it, is not there."""


class FileInvalid(FileError, ValueError):
    """The file is damaged, cut short, or of another kind or version; the message says which."""


class CheckpointError(JevlayaError):
    """A checkpoint that cannot be used."""


class CheckpointNotFound(CheckpointError, FileNotFoundError):
    """No checkpoint at that place, or one of its files is missing."""


class CheckpointInvalid(CheckpointError, ValueError):
    """A checkpoint whose files are damaged, altered, or of a kind that is not known here."""
