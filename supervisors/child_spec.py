"""What a supervisor knows of a child before it runs: data, so that a tree can be read without running it."""

from __future__ import annotations

import enum
import math
from collections.abc import Awaitable, Callable

import attrs
import trio

from supervisors.exits import ExitKind
from supervisors.tree import Describer, Kind

StartFn = Callable[[trio.TaskStatus[None]], Awaitable[None]]
"""A child's whole life as one async function.

It calls `task_status.started()` once initialised. Returning is the exit `normal`, raising `exits.Shutdown` is
`shutdown`, raising anything else is abnormal. A stop is a cancellation: it has the spec's `shutdown` seconds to unwind.
"""

WORKER_SHUTDOWN = 5.0
"""Seconds a worker has to unwind unless its spec says otherwise; OTP's default."""


class Restart(enum.Enum):
    """When a child that ended by itself is started again (OTP's restart types)."""

    PERMANENT = "permanent"
    """Always."""
    TRANSIENT = "transient"
    """Only after an abnormal exit: not after `normal` or `shutdown`."""
    TEMPORARY = "temporary"
    """Never, also not when a sibling's failure took it down; the spec is forgotten with the child."""

    def applies_to(self, kind: ExitKind) -> bool:
        """Whether an exit of this kind is followed by a restart."""
        return self is Restart.PERMANENT or (self is Restart.TRANSIENT and kind is ExitKind.ABNORMAL)


PERMANENT = Restart.PERMANENT
TRANSIENT = Restart.TRANSIENT
TEMPORARY = Restart.TEMPORARY


class Counts(enum.Enum):
    """Which deaths of a child count against an intensity."""

    ALL = "all"
    """Every restart counts against the supervisor's one window, as in OTP."""
    BEFORE_READY = "before ready"
    """Only deaths before `started()` count, against a window of the child's own; later ones only wait longer.

    The policy of a root: a service whose workers die under load stays up; one whose workers cannot start says so.
    """


@attrs.frozen
class ChildSpec:
    """A child: its id (unique among siblings), how it starts, and what its supervisor does when it ends.

    `restart` None takes the supervisor's default: permanent under `Supervisor`, temporary under `DynamicSupervisor`.
    `shutdown` is in seconds; the default is 5 for a worker and infinite for a supervisor, which bounds its own children
    (a finite time on a supervisor races with theirs). A child that needs N seconds of its own to stop (a process that
    is killed after N) wants a `shutdown` well above N. Zero is refused: a task cannot be killed, only asked.
    """

    id: str
    start: StartFn
    restart: Restart | None = attrs.field(default=None, kw_only=True)
    kind: Kind = attrs.field(default="worker", kw_only=True)
    shutdown: float = attrs.field(kw_only=True)
    counts: Counts = attrs.field(default=Counts.ALL, kw_only=True)
    describe: Describer | None = attrs.field(default=None, kw_only=True)

    @shutdown.default
    def _default_shutdown(self) -> float:
        return math.inf if self.kind == "supervisor" else WORKER_SHUTDOWN

    def __attrs_post_init__(self) -> None:
        if not self.shutdown > 0:
            msg = f"child {self.id!r}: shutdown must be more than 0 seconds, not {self.shutdown!r}"
            raise ValueError(msg)
