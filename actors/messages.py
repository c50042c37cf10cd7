"""What crosses between an edge and the slot that owns a context: the calls of the Owner API and its frames.

A frame is a four-byte big-endian length and one JSON document. JSON, because tasks, messages and free-form values go
through as the bytes they are on the public wire (`msgspec.Raw`), without a second encoding. Every call ends *answered*
(`Answer`), *refused* (`Refusal`) or, when the connection goes, *unknown*. A lost `Send` is settled by sending it again
with `again`: the owner looks for its operation id first, so one idempotent call both asks what became of it and does it
if nothing did.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from volcanic.protocol.types import Message

FRAME_LIMIT = 64 * 1024 * 1024
"""The longest frame, in bytes: the public body limit (32 MiB) with room for what a task adds to it."""


class Frame(msgspec.Struct, omit_defaults=True, kw_only=True, gc=False, rename="camel", tag_field="t"):
    """Base of every frame and call."""


class Send(Frame, tag="send", kw_only=True):
    """Start a run: of a new task, or of one that waits for input.

    The edge mints `op`, and for a new task also `task_id` (and `context_id` when the caller named none), so that the
    outcome of a lost call can be asked for by name. The owner stores `op` with the task before the run starts.
    """

    op: str
    workspace: str
    caller: str
    new: bool
    task_id: str
    context_id: str = ""
    """Empty only for a continuation whose caller named the task alone: the task's own context counts."""
    message: Message
    history_length: int | None = None
    accepted_output_modes: list[str] = []
    return_immediately: bool = False
    stream: bool = False
    cancel_on_disconnect: bool = False
    hops: int = 0
    again: bool = False
    """Sent before with an unknown outcome: the owner looks for `op` first and answers with its task if stored."""


class GetTask(Frame, tag="get", kw_only=True):
    """Read one task as it is shown now; a `working` one without a live run is repaired first."""

    workspace: str
    caller: str
    task_id: str
    history_length: int | None = None


class ListTasks(Frame, tag="list", kw_only=True):
    """One slot's share of a page: its newest `limit` tasks below the cursor, and how many match in all."""

    workspace: str
    caller: str
    limit: int
    before: tuple[str, str] | None = None
    """(status timestamp, task id) of the last task of the page before; order is newest first, then id descending."""
    context_id: str | None = None
    state: str | None = None
    since: str | None = None
    """Only tasks whose status timestamp is at or after this one (normalised to milliseconds and `Z`)."""
    history_length: int | None = None
    artifacts: bool = False


class ListPage(msgspec.Struct, rename="camel", gc=False):
    """Answer to `ListTasks`: rows in order, each with its sort key; `cut` says that more follows after the last row."""

    total: int
    rows: list[ListRow]
    cut: bool = False


class ListRow(msgspec.Struct, rename="camel", gc=False):
    """One task of a page as JSON, with the key it is ordered by."""

    timestamp: str
    task_id: str
    task: Raw


class CancelTask(Frame, tag="cancel", kw_only=True):
    """End a task's run, or close a task that waits for input."""

    workspace: str
    caller: str
    task_id: str


class Subscribe(Frame, tag="subscribe", kw_only=True):
    """Follow a task: a snapshot first, then what is newer."""

    workspace: str
    caller: str
    task_id: str
    last_event_id: int | None = None


Call = Send | GetTask | ListTasks | CancelTask | Subscribe


class Ask(Frame, tag="ask", kw_only=True):
    """Edge to slot: a call, and how many seconds its caller still waits."""

    id: int
    seconds: float
    call: Call


class Leave(Frame, tag="leave", kw_only=True):
    """Edge to slot: the caller of `id` is gone (a disconnect of *that* client, never of the edge)."""

    id: int


class Credit(Frame, tag="credit", kw_only=True):
    """Edge to slot: `bytes` more of stream `id` may be sent."""

    id: int
    bytes: int


class Hello(Frame, tag="hello", kw_only=True):
    """Slot to edge, first on every connection: who serves, so that a successor is told from its predecessor."""

    slot: str
    boot: str
    incarnation: int


class Answer(Frame, tag="answer", kw_only=True):
    """Slot to edge: the result of `id` as the JSON of its A2A result. For a stream: accepted, events follow."""

    id: int
    result: Raw


class Refusal(Frame, tag="refusal", kw_only=True):
    """Slot to edge: `id` was refused; `kind` is a row of `volcanic.protocol.errors`."""

    id: int
    kind: str
    message: str
    field: str = ""
    retry_after: float | None = None


class Event(Frame, tag="event", kw_only=True):
    """Slot to edge: one `StreamResponse` of stream `id`; `version` is 0 for what is not stored (text deltas)."""

    id: int
    version: int = 0
    payload: Raw


class End(Frame, tag="end", kw_only=True):
    """Slot to edge: stream `id` is over; `reason` is empty at its natural end, else `slow`, `drain` or `lost`."""

    id: int
    reason: str = ""


FromEdge = Ask | Leave | Credit
FromSlot = Hello | Answer | Refusal | Event | End
