"""What holds for the whole run: it fails when it leaves a process, an open file or a temporary file behind."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import tempfile
import time
import uuid
from pathlib import Path

import pytest

RUN_MARK = "VOLCANIC_TEST_RUN"
"""Environment variable that every process of this run inherits, so that it is found whoever its parent is by then."""

SETTLE_SECONDS = 5.0
"""How long what a test stopped may take to be gone."""


def pytest_configure(config: pytest.Config) -> None:
    """Give the run a temporary folder of its own, so that what is left in it is ours; pytest's own stays where it was."""
    if hasattr(config, "workerinput") or RUN_MARK in os.environ:
        return
    os.environ[RUN_MARK] = uuid.uuid4().hex
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix="vt-")
    os.environ["TMPDIR"] = folder
    tempfile.tempdir = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.fixture(scope="session", autouse=True)
def nothing_left():
    """Fail the run when it ends with more processes, file descriptors or temporary files than it began with."""
    gc.collect()
    before = _descriptors()
    yield
    deadline = time.monotonic() + SETTLE_SECONDS
    while (left := _processes() + _files() + _new_descriptors(before)) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.05)
    assert not left, "the run left behind:\n" + "\n".join(left)


def _processes() -> list[str]:
    """Return our children, dead or alive, and every live process that carries the mark of this run."""
    mark = f"{RUN_MARK}={os.environ[RUN_MARK]}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            if parent == str(os.getpid()) or mark in (entry / "environ").read_bytes().split(b"\0"):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found.append(f"process {entry.name}: {command or 'zombie'}")
    return found


def _descriptors() -> dict[int, str]:
    """Return the open descriptors and what they point at, without the one that reads the list."""
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found[int(entry.name)] = str(entry.readlink())
    return found


def _new_descriptors(before: dict[int, str]) -> list[str]:
    return [
        f"descriptor {number}: {target}"
        for number, target in _descriptors().items()
        if before.get(number) != target and not target.startswith(("/dev/", "/proc/"))
    ]


def _files() -> list[str]:
    return [f"file {path}" for path in Path(os.environ["TMPDIR"]).iterdir()]
