"""How a child ends, and the errors a supervisor raises. OTP's words: `normal`, `shutdown`, everything else abnormal.

An exit keeps its exception, so that whoever reports it has the whole of it; nothing is reduced to text on the way.
"""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import Iterator

import attrs
import trio

UNSTOPPABLE_STATUS = 70
"""Exit status of a process that ended because a task of it ignored its cancellation (sysexits' EX_SOFTWARE)."""


class Shutdown(Exception):  # noqa: N818 - an exit reason, named as OTP names it
    """Raised by a child to end as `shutdown`: a transient child is then not restarted, a permanent one is."""


class Escalated(Shutdown):
    """A supervisor gave up: one of its children died more often than its intensity allows.

    Raised by `Supervisor.run` after every child has stopped. To the parent it is a `shutdown` (as in OTP): a permanent
    supervisor is restarted, a transient one is not. `__cause__` is the last exception of the child, when it had one.
    """

    def __init__(self, supervisor: str, child: str, last: Exit) -> None:
        super().__init__(f"supervisor {supervisor!r} gave up: child {child!r} died too often; last: {last}")
        self.supervisor = supervisor
        self.child = child
        self.last = last


class StartFailed(Exception):  # noqa: N818 - reads as what happened
    """A child ended before it called `task_status.started()`; `__cause__` is its exception, when it had one."""

    def __init__(self, supervisor: str, child: str, last: Exit) -> None:
        super().__init__(f"child {child!r} of {supervisor!r} did not start: {last}")
        self.supervisor = supervisor
        self.child = child
        self.last = last


class ProcessExited(Exception):  # noqa: N818 - reads as what happened
    """A child process died without being asked to.

    `status` is as in `subprocess`: the exit code, or the negative number of the signal that ended it.
    """

    def __init__(self, name: str, status: int, reason: str) -> None:
        super().__init__(f"process {name!r} exited with status {status}: {reason}")
        self.name = name
        self.status = status
        self.reason = reason


class Refused(Exception):  # noqa: N818 - the base of the answers below
    """Base of a supervisor's refusals; the supervisor itself goes on as if it had not been asked."""

    def __init__(self, supervisor: str, child: str, why: str) -> None:
        super().__init__(f"{supervisor!r} refuses {child!r}: {why}")
        self.supervisor = supervisor
        self.child = child


class AlreadyStarted(Refused):
    """The id is taken: by a child that runs, waits for its restart, or still unwinds after it was asked to stop."""


class NoSuchChild(Refused):
    """No child has this id."""


class NotRunning(Refused):
    """The supervisor has not started yet, is stopping, or has ended."""


class BoundExceeded(Refused):
    """The supervisor holds as many children as it may."""


class ExitKind(enum.Enum):
    """The three classes of exit that restart types tell apart."""

    NORMAL = "normal"
    SHUTDOWN = "shutdown"
    ABNORMAL = "abnormal"


@attrs.frozen
class Exit:
    """How one incarnation of a child ended. `error` is what it raised; a requested stop without error has none."""

    kind: ExitKind
    error: BaseException | None = None

    def __str__(self) -> str:
        if self.error is None:
            return self.kind.value
        return f"{self.kind.value} ({type(self.error).__name__}: {self.error})"


NORMAL = Exit(ExitKind.NORMAL)
SHUTDOWN = Exit(ExitKind.SHUTDOWN)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    pending = [error]
    while pending:
        last = pending.pop()
        if isinstance(last, BaseExceptionGroup):
            pending.extend(last.exceptions)
        else:
            yield last


def exit_of(error: BaseException | None) -> Exit:
    """Class an ending: None is normal; `Shutdown`, or a group of nothing else, is shutdown; the rest is abnormal."""
    if error is None:
        return NORMAL
    if all(isinstance(leaf, Shutdown) for leaf in _leaves(error)):
        return Exit(ExitKind.SHUTDOWN, error)
    return Exit(ExitKind.ABNORMAL, error)


def ends_process(error: BaseException) -> bool:
    """Whether an exception is no child's failure but the end of the program (`KeyboardInterrupt`, `SystemExit`).

    A group counts when any of its leaves does. `Cancelled` does not: one that gets past the scope it belongs to was
    kept and raised again by the child, which is a fault of the child.
    """
    return any(not isinstance(leaf, Exception | trio.Cancelled) for leaf in _leaves(error))


def end_process(child: str) -> None:
    """End this process at once, because a task in it outlived its shutdown time: trio cannot end a task by force.

    One line on stderr says which child it was. No cleanup runs; what must not be lost is on disk already.
    """
    sys.stderr.write(f"supervisors: child {child!r} ignored its cancellation; ending process {os.getpid()}\n")
    sys.stderr.flush()
    os._exit(UNSTOPPABLE_STATUS)
