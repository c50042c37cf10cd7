"""The first moments of a forked process: what it inherited and must not keep.

A child of the launcher starts as a copy of it: the launcher's signal handlers and wake-up pipe, its descriptors, its
controlling terminal, its random state. Each is put right here, with signals blocked until it is done, and the child can
end in one way only: `os._exit`, never by returning into the launcher's frames.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from types import FrameType
from typing import NoReturn

import attrs

CRASHED = 1
"""Exit status of a process whose main raised."""
ORPHANED = 75
"""Exit status of a process that found its parent or its pipe gone."""

MANAGED_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD})
"""Signals the launcher handles, and whose handlers a child therefore replaces."""

_LAST_STANDARD = 2
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

OnCrash = Callable[[str, BaseException], None]


@attrs.frozen
class Birth:
    """How a child is set up and what it runs."""

    name: str
    main: Callable[[], int]
    keep: Collection[int]
    """Descriptors that stay open beside 0, 1 and 2."""
    forget: Callable[[], None]
    """Called in the child, before descriptors are closed: drops what the parent's objects own."""
    keeps_stop_signals: bool
    """True leaves SIGTERM and SIGINT deadly until the child sets handlers of its own (root); False ignores them, so
    that a process group or control group that is signalled as a whole still stops in the order root chooses."""
    on_crash: OnCrash


def fork_child(birth: Birth) -> int:
    """Fork; return the child's pid. `OSError` when the kernel has no process left. The child never returns."""
    parent = os.getpid()
    flush_standard_streams()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, MANAGED_SIGNALS)
    try:
        pid = os.fork()
        if pid == 0:
            _live(birth, parent, blocked)
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def flush_standard_streams() -> None:
    """Write out what is buffered, so that a fork does not duplicate it and `os._exit` does not lose it."""
    for stream in (sys.stdout, sys.stderr):
        # A closed or full standard stream must not end a process that is only leaving.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()


def exit_now(status: int) -> NoReturn:
    """End this process at once: no `finally` blocks, no exit handlers; standard streams are flushed."""
    flush_standard_streams()
    os._exit(status)


def open_standard_descriptors() -> None:
    """Point closed standard descriptors at /dev/null, so that no socket ever gets number 0, 1 or 2."""
    while True:
        fd = os.open(os.devnull, os.O_RDWR)
        if fd > _LAST_STANDARD:
            os.close(fd)
            return
        os.set_inheritable(fd, True)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies (Linux), so that they can be ended and reaped."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def thread_count() -> int:
    """Count this process's threads, also those Python did not start (Linux)."""
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return threading.active_count()


def _live(birth: Birth, parent: int, blocked: Collection[int]) -> NoReturn:
    status = CRASHED
    try:
        _settle_in(birth, parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, set(blocked) - MANAGED_SIGNALS)
        status = birth.main()
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException as error:  # noqa: ASYNC103, BLE001 - the child must not unwind into its parent's frames
        birth.on_crash(birth.name, error)
    finally:
        exit_now(status & 0xFF)


def _settle_in(birth: Birth, parent: int) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # A no-op handler rather than SIG_IGN, which programs started by a worker would inherit.
    stop = signal.SIG_DFL if birth.keeps_stop_signals else _ignore
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGHUP, _ignore)
    _die_with(parent, birth.name)
    os.setsid()
    birth.forget()
    _close_all_but(birth.keep)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    random.seed()
    gc.enable()


def _ignore(_signum: int, _frame: FrameType | None) -> None:
    pass


def _die_with(parent: int, name: str) -> None:
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        _LIBC.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)
    # The parent may have died before the line above took effect; then no signal comes.
    if os.getppid() != parent:
        exit_now(ORPHANED)


def _close_all_but(keep: Collection[int]) -> None:
    try:
        opened = [int(entry.name) for entry in Path("/dev/fd").iterdir()]
    except OSError:
        opened = list(range(os.sysconf("SC_OPEN_MAX")))
    for fd in opened:
        if fd > _LAST_STANDARD and fd not in keep:
            with contextlib.suppress(OSError):
                os.close(fd)
