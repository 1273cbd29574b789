"""Which checkpoints a Router knows from the start, and where each one comes from."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.system_one.pool import canonical

__all__ = ["BUILT_IN", "EMBEDDED", "HUB", "STANDALONE", "Source", "as_source", "starting_sources"]

BUILT_IN: Final = ("english", "multilingual", "typed-decisions")
"""The names that routing chooses between: they can get another source, and never go away."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a checkpoint comes from.

    Attributes:
        repo: A folder, ``org/name`` on a hub, or ``"embedded"``.
        subfolder: The folder inside of it that is the checkpoint.
        stand_in: Whether it only stands in for the checkpoint that the name means.
        description: Free text for whoever reads the registry.
    """

    repo: str
    subfolder: str | None = None
    stand_in: bool = False
    description: str | None = None

    def __str__(self) -> str:
        return f"{self.repo}/{self.subfolder}" if self.subfolder else self.repo


EMBEDDED: Final[Mapping[str, Source]] = {
    name: Source(
        "embedded", stand_in=True, description="small English-trained bi-encoder of this package"
    )
    for name in BUILT_IN
}
HUB: Final[Mapping[str, Source]] = {
    "english": Source("convaiinnovations/laya"),
    "multilingual": Source("convaiinnovations/laya", "multilingual"),
    "typed-decisions": Source("convaiinnovations/laya", "typed-decisions"),
}
"""The published checkpoints, in one repository."""

STANDALONE: Final[Mapping[str, Source]] = {
    "english": Source("convaiinnovations/laya"),
    "multilingual": Source("convaiinnovations/laya-multilingual"),
    "typed-decisions": Source("convaiinnovations/laya-typed-decisions"),
}
"""The same, each in a repository of its own."""

_REGISTRIES: Final = {"embedded": EMBEDDED, "hub": HUB}


def starting_sources(models: Any, standalone_repos: bool = False) -> tuple[dict[str, Any], str]:
    """The sources that ``Router(models=…)`` starts with, and its default checkpoint.

    Args:
        models: ``"embedded"``, ``"hub"``, or ``{name: source}`` to add to the embedded ones or to
            replace some; ``None`` is ``"embedded"``.
        standalone_repos: With ``"hub"``: take each checkpoint from a repository of its own.

    Raises:
        InvalidOption: ``models`` is something else, or an entry of it cannot be a source.
    """
    if models is None or isinstance(models, str):
        chosen = "embedded" if models is None else models.strip().lower()
        if chosen not in _REGISTRIES:
            near = difflib.get_close_matches(chosen, _REGISTRIES, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise InvalidOption(
                f"models is 'embedded', 'hub' or a dict of name -> source, got {models!r}{hint} "
                f"For one checkpoint write models={{'english': {models!r}}}"
            )
        if standalone_repos and chosen != "hub":
            raise InvalidOption("standalone_repos=True goes with models='hub'")
        registry = STANDALONE if standalone_repos else _REGISTRIES[chosen]
        return dict(registry), "multilingual" if chosen == "hub" else "english"
    if not isinstance(models, Mapping):
        raise InvalidOption(
            "models is 'embedded', 'hub' or a dict of name -> source, "
            f"got a {type(models).__name__}"
        )
    if standalone_repos:
        raise InvalidOption("standalone_repos=True goes with models='hub'")
    given = {name: as_source(name, source) for name, source in models.items()}
    return {**EMBEDDED, **given}, "english"


def check_name(name: Any) -> str:
    """A name under which something can be registered, in lower case.

    Raises:
        InvalidOption: It holds what a name cannot, such as the ``/`` of a repository.
        UnknownCheckpoint: It is no text, or blank.
    """
    key = canonical(name)
    if not _NAME.fullmatch(key):
        raise InvalidOption(
            f"a checkpoint's name is made of letters, digits, '.', '_' and '-', got {name!r}; a "
            "folder or a repository is a source: register('my-name', source)"
        )
    return key


def as_source(name: Any, source: Any, description: str | None = None) -> Source:
    """What a user gives as the source of a checkpoint, as a :class:`Source`.

    Args:
        name: The checkpoint's name, for messages.
        source: A folder, ``org/name``, ``"embedded"``, a pair ``(repo, subfolder)``, or a Source.
        description: Free text for whoever reads the registry.

    Raises:
        InvalidOption: It is none of these.
    """
    if isinstance(source, Source):
        return source
    repo, subfolder = source, None
    if isinstance(source, (tuple, list)) and len(source) == 2:
        repo, subfolder = source
    if isinstance(repo, os.PathLike):
        repo = os.fspath(repo)
    if hasattr(source, "predict_batch") or hasattr(source, "system_one"):
        raise InvalidOption(
            f"checkpoint {name!r}: this is an agent that exists already; give it to the Router "
            f"with router.attach({name!r}, agent)"
        )
    if (
        not isinstance(repo, str)
        or not repo.strip()
        or not (subfolder is None or (isinstance(subfolder, str) and subfolder.strip()))
    ):
        raise InvalidOption(
            f"checkpoint {name!r}: a source is a folder, 'org/name' on a hub, or a pair "
            f"(repo, subfolder), got {source!r}"
        )
    if repo.startswith("~"):
        repo = os.path.expanduser(repo)
    return Source(repo, subfolder, description=description)
