"""What the agent, the client and the hosts share, as types only: tools and their results, the event bus, owner's ports.

Nothing here does I/O. A lower layer declares here what it needs from above and is handed the object.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import attrs
import msgspec

JsonObject = Mapping[str, object]


class ExecutionMode(enum.Enum):
    """How a tool runs beside the others of one turn: one `SEQUENTIAL` tool makes the whole batch sequential."""

    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"


class VerdictState(enum.StrEnum):
    """How a run ends when a tool, not the model's silence, ends it (values are A2A task states)."""

    COMPLETED = "TASK_STATE_COMPLETED"
    FAILED = "TASK_STATE_FAILED"
    CANCELED = "TASK_STATE_CANCELED"
    REJECTED = "TASK_STATE_REJECTED"
    INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
    AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"


@attrs.frozen
class Verdict:
    """A run's end as a tool or a script decided it: the state, and the text that explains it to the caller."""

    state: VerdictState
    text: str = ""


@attrs.frozen
class ImageBlock:
    """An image in a tool result or a user message: base64 data and its media type."""

    data: str
    media_type: str


@attrs.frozen
class ToolResult:
    """What a tool call gave: text (and images) for the model.

    `terminate` on every result of a batch ends the run without another model call; a `verdict` says how it ended.
    """

    text: str
    images: tuple[ImageBlock, ...] = ()
    is_error: bool = False
    terminate: bool = False
    verdict: Verdict | None = None


@attrs.frozen
class ToolCall:
    """One call as the model made it."""

    id: str
    name: str
    arguments: JsonObject


class RunPort(Protocol):
    """What a tool may do to the run that called it."""

    async def status(self, text: str) -> None:
        """Show a WORKING status update with this text."""

    async def artifact(self, artifact: msgspec.Raw, *, append: bool, last_chunk: bool) -> None:
        """Add or extend an artifact; `artifact` is the JSON of an A2A Artifact (a missing artifactId is minted)."""


class Tool(Protocol):
    """One tool of a session. `run` must be cancellable; what it raises becomes an error result for the model."""

    @property
    def name(self) -> str:
        """The name the model calls."""

    @property
    def description(self) -> str:
        """What it does, for the model."""

    @property
    def parameters(self) -> JsonObject:
        """JSON Schema of its arguments."""

    @property
    def execution(self) -> ExecutionMode:
        """Whether it may run beside others."""

    async def run(self, call: ToolCall, run: RunPort) -> ToolResult:
        """Do it."""


class OwnerNotifier(Protocol):
    """The isolated session's only channel back to its owner (seed: Scenarios, "Notify the owner")."""

    async def notify(self, caller: str, text: str) -> None:
        """Deliver `text` into the owner's chat, or keep it where the owner will see it."""


Listener = Callable[[JsonObject], Awaitable[None]]


class EventBus(Protocol):
    """A session's shared bus (`a2a.inbound` carries the hop count of each inbound prompt)."""

    def on(self, channel: str, listener: Listener) -> None:
        """Have `listener` awaited for each event of `channel`, in order of registration."""

    async def emit(self, channel: str, data: JsonObject) -> None:
        """Await every listener of `channel`; one that raises is logged and the others still run."""


class Extension(Protocol):
    """A factory of a session's extras: what it returns is added to the session's tools."""

    def tools(self, bus: EventBus) -> Sequence[Tool]:
        """Return the tools this extension adds, after subscribing to what it needs on the bus."""
