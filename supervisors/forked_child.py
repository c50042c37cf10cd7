"""The first moments of a forked process: what it inherited and must not keep.

A child of the launcher starts as a copy of it: the launcher's signal handlers and wake-up pipe, its descriptors, its
controlling terminal. Each is put right here, with signals blocked until it is done (Python itself reseeds `random`).
The child can end in one way only: `os._exit`, never by returning into the launcher's frames.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Collection
from types import FrameType
from typing import NoReturn

import attrs

from supervisors.kernel import close_all_but, die_with_parent, name_process

CRASHED = 1
"""Exit status of a process whose main raised."""
ORPHANED = 75
"""Exit status of a process that found its parent or its pipe gone."""

MANAGED_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD})
"""Signals the launcher handles, and whose handlers a child therefore replaces."""

SAME_WISH_SECONDS = 0.2
"""A stop signal this soon after the first is the same wish: who signals all processes of a service reaches root twice,
directly and through the launcher, and some tools signal a process and then its group."""

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


def _live(birth: Birth, parent: int, blocked: Collection[int]) -> NoReturn:
    status = CRASHED
    try:
        _settle_in(birth, parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, set(blocked) - MANAGED_SIGNALS)
        status = birth.main()
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except (Exception, KeyboardInterrupt, BaseExceptionGroup) as error:  # noqa: BLE001 - told, then the process ends
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
    die_with_parent()
    # The parent may have died before the line above took effect; then no signal comes.
    if os.getppid() != parent:
        exit_now(ORPHANED)
    name_process(birth.name)
    os.setsid()
    birth.forget()
    close_all_but(birth.keep)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    gc.enable()


def _ignore(_signum: int, _frame: FrameType | None) -> None:
    pass
