"""What the kernel is asked for beside Python's own calls, and what is done where it has no such thing."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Collection
from pathlib import Path

_LAST_STANDARD = 2
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent() -> None:
    """Have this process killed when the thread that forked it ends (Linux; elsewhere nothing happens)."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def name_process(name: str) -> None:
    """Set what `ps` and `top` show as this process's name, 15 bytes of it (Linux)."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies (Linux), so that they can be ended and reaped."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> list[int]:
    """Return this process's children, adopted ones too (Linux with CONFIG_PROC_CHILDREN; elsewhere none)."""
    pid = os.getpid()
    try:
        return [int(number) for number in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def thread_count() -> int:
    """Count this process's threads: also those Python did not start (Linux), or only Python's."""
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return threading.active_count()


def open_pidfd(pid: int) -> int | None:
    """Return a pidfd of a child that is not reaped yet, or None where there is none to be had."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def has_terminal() -> bool:
    """Whether this process has a controlling terminal that is still there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def open_standard_descriptors() -> None:
    """Point closed standard descriptors at /dev/null, so that no socket ever gets number 0, 1 or 2."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
        os.set_inheritable(fd, True)
    os.close(fd)


def close_all_but(keep: Collection[int]) -> None:
    """Close every descriptor but 0, 1, 2 and `keep`."""
    try:
        opened = [int(entry.name) for entry in Path("/dev/fd").iterdir()]
    except OSError:
        opened = list(range(os.sysconf("SC_OPEN_MAX")))
    for fd in opened:
        if fd > _LAST_STANDARD and fd not in keep:
            # The listing's own descriptor is closed already.
            with contextlib.suppress(OSError):
                os.close(fd)
