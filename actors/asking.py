"""The two ends of a call inside a slot: who asks (a connection of the Owner API), and what its actors stand on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import attrs

from actors.subscription import Subscription
from volcanic.agent.session import AgentSession, Prompt
from volcanic.clock import Clock
from volcanic.protocol.errors import A2AError
from volcanic.protocol.types import Message
from volcanic.storage.disk import Disk, Op
from volcanic.storage.live import LiveLog
from volcanic.storage.tasks import RunStamp, TaskFiles


class Asker(Protocol):
    """One open call. `answer` or `refuse` ends it, once; what comes later is ignored."""

    on_leave: Callable[[], None] | None
    """Called when this very client leaves before its answer (never when its edge dies)."""

    left: bool
    """Whether it has left already; `on_leave` is not called then."""

    def answer(self, result: bytes) -> None:
        """Answer with the JSON of an A2A result."""

    def refuse(self, error: A2AError) -> None:
        """Refuse."""

    def open_stream(self, *, until_interrupted: bool) -> Subscription:
        """Accept a streaming call: what follows are events."""


class HeldWrites:
    """Writes of one session that wait for the next write of the same session, to share its trip to the disk.

    Bounded by what holds them: a run's start and a run's last transcript lines.
    """

    __slots__ = ("_ops",)

    def __init__(self) -> None:
        self._ops: list[Op] = []

    def hold(self, *ops: Op) -> None:
        """Keep operations for the next `take`."""
        self._ops.extend(ops)

    def take(self) -> list[Op]:
        """Return what is held, oldest first; whoever takes it submits it, ahead of its own."""
        ops, self._ops = self._ops, []
        return ops


class Assistant(Protocol):
    """What a workspace puts behind its sessions (implemented by the hosts)."""

    def prompt(self, caller: str, message: Message, task_id: str, accepted: Sequence[str]) -> Prompt:
        """Return the message as the assistant gets it: framed, with the local time."""

    async def open(self, caller: str, context_id: str, held: HeldWrites) -> AgentSession:
        """Open or resume the session of a caller's context from its transcript.

        The transcript takes what is in `held` into the write of each of its lines, and holds the lines that end a run
        there, so that they reach the disk together with the task.
        """

    def redact(self, text: str) -> str:
        """Return a text without the keys this workspace knows."""


@attrs.frozen
class Workspace:
    """One workspace as its owner slot sees it."""

    path: str
    tasks: TaskFiles
    assistant: Assistant


@attrs.frozen
class OwnerSettings:
    """What the domain actors are tuned by.

    Attributes:
        max_hops: Over this many hops a task fails at once (`A2A__MaxHops`).
        idle_seconds: After this long without a message a session is evicted (`A2A__SessionIdleTimeout`).
        stream_buffer_bytes: What may wait for one slow follower (`A2A__Limits__StreamBufferBytes`).
        flush_seconds: Streamed text goes out at least this often.
        pace_seconds: How long a run waits for followers to catch up before it tells more, each time at most. Who takes
            longer is dropped once its buffer is full.
        patience_seconds: How long a follower may take nothing at all, with events waiting for it, before a run goes
            on without it.
        settle_seconds: How long the last write of a run may take before it counts as failed.
        mailbox: Messages that may wait for one session.
    """

    max_hops: int = 3
    idle_seconds: float = 1800.0
    stream_buffer_bytes: int = 256 * 1024
    flush_seconds: float = 0.05
    pace_seconds: float = 0.1
    patience_seconds: float = 2.0
    settle_seconds: float = 30.0
    mailbox: int = 64


@attrs.frozen
class Ground:
    """What every actor of a slot stands on. Owned and closed by the slot's composition."""

    stamp: RunStamp
    disk: Disk
    live: LiveLog
    clock: Clock
    settings: OwnerSettings
    workspaces: dict[str, Workspace]
