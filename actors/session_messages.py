"""What a session is told: the messages of its mailbox."""

from __future__ import annotations

import attrs

from actors.asking import Asker
from actors.messages import Send
from actors.ref import Reply
from volcanic.protocol.errors import A2AError


@attrs.frozen
class Start:
    """Start a run, as `send` says."""

    send: Send
    asker: Asker


@attrs.frozen
class Cancel:
    """Cancel a task of this context."""

    task_id: str
    asker: Asker


@attrs.frozen
class Follow:
    """Subscribe to a task of this context."""

    task_id: str
    asker: Asker


@attrs.frozen
class Repair:
    """A task was read as active without a live run: settle it as failed (a2a.md#task-lifecycle, restart recovery)."""

    task_id: str
    asker: Reply[bytes]


@attrs.frozen
class RunEnded:
    """The run is over and its end stored."""


Message = Start | Cancel | Follow | Repair | RunEnded


def refuse(message: Message, error: A2AError) -> None:
    """Refuse whoever waits for an answer to a message."""
    if not isinstance(message, RunEnded):
        message.asker.refuse(error)
