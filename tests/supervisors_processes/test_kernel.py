"""What is done where the kernel has less to offer than Linux."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from supervisors import kernel
from tests.supervisors_processes.conftest import ROOM


@pytest.fixture
def no_proc(monkeypatch):
    def refuse(*_args):
        raise FileNotFoundError

    monkeypatch.setattr(Path, "iterdir", refuse)
    monkeypatch.setattr(Path, "read_text", refuse)


def test_threads_and_children_are_seen():
    assert kernel.thread_count() >= 1
    child = subprocess.Popen(["sleep", "60"])
    assert child.pid in kernel.children()
    child.kill()
    child.wait()


def test_without_proc_python_s_threads_count_and_children_are_unknown(no_proc):
    assert kernel.thread_count() == threading.active_count()
    assert kernel.children() == []


def test_without_prctl_nothing_happens(monkeypatch):
    monkeypatch.setattr(kernel, "_LIBC", None)
    kernel.die_with_parent()
    kernel.adopt_orphans()
    before = Path("/proc/self/comm").read_text()
    kernel.name_process("other")
    assert Path("/proc/self/comm").read_text() == before


def test_pidfd_of_nobody_is_none(monkeypatch):
    assert kernel.open_pidfd(2**22 + 1) is None
    fd = kernel.open_pidfd(os.getpid())
    assert fd is not None
    os.close(fd)
    monkeypatch.delattr(os, "pidfd_open")
    assert kernel.open_pidfd(os.getpid()) is None


@pytest.mark.parametrize("listing", ["/dev/fd", "/no/such/folder"])
def test_every_descriptor_but_the_kept_is_closed(listing):
    program = (
        "import os, pathlib, supervisors.kernel as kernel\n"
        f"kernel.Path = lambda _: pathlib.Path({listing!r})\n"
        "kept, closed = os.pipe()\n"
        "kernel.close_all_but([kept])\n"
        "os.fstat(kept)\n"
        "try: os.fstat(closed)\n"
        "except OSError: print('closed')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOM, capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout == "closed\n"
