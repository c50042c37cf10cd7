"""What a run tells its listener, in order, and how it ends.

A listener is one async function. It is awaited for each event before the run goes on, never by two events at once, and
what it raises ends the run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
from msgspec import Raw

from volcanic.agent.messages import StopReason
from volcanic.extension import ToolCall, ToolResult, VerdictState


@attrs.frozen
class MessageStart:
    """A model response begins: text that follows belongs to a new assistant message."""


@attrs.frozen
class TextDelta:
    """A piece of the assistant text that is being written; never empty."""

    text: str


@attrs.frozen
class ThinkingDelta:
    """A piece of reasoning. It is for the owner's eyes at most, never for a caller's."""

    text: str


@attrs.frozen
class MessageEnd:
    """A model response is complete: its whole text (empty when it only called tools), and why it stopped.

    After `error` or `aborted` the text is what had come until then; a retry starts a new message.
    """

    text: str
    stop_reason: StopReason


@attrs.frozen
class ToolStart:
    """A tool call is about to run."""

    call: ToolCall


@attrs.frozen
class ToolEnd:
    """A tool call has its result. Calls of one batch end in the order in which they finish."""

    call: ToolCall
    result: ToolResult


@attrs.frozen
class StatusNote:
    """A WORKING status with this text. Never part of the answer."""

    text: str


@attrs.frozen
class ArtifactNote:
    """An artifact, or a piece of one: the JSON of an A2A Artifact. A missing `artifactId` is minted by the listener."""

    artifact: Raw
    append: bool = False
    last_chunk: bool = False


@attrs.frozen
class DirectMessage:
    """Answer with a plain Message instead of a task; comes before anything else that a caller sees."""

    text: str


AgentEvent = (
    MessageStart
    | TextDelta
    | ThinkingDelta
    | MessageEnd
    | ToolStart
    | ToolEnd
    | StatusNote
    | ArtifactNote
    | DirectMessage
)

Emit = Callable[[AgentEvent], Awaitable[None]]


@attrs.frozen
class Outcome:
    """How a run ended.

    Attributes:
        state: The A2A state it ends in.
        text: What explains the state to the caller: the answer when completed (unless the run's end came with a text
            of its own), the question when input or
            authorisation is wanted, else the reason. Registered keys are scrubbed from a provider's error.
        response: The final assistant text of the run (a task's `response` artifact), whatever the state; the last
            message that had any.
        length_limited: The answer was cut off by the model's length limit; the run still counts as completed.
        error: The provider's error text when one ended the run, scrubbed; else empty.
    """

    state: VerdictState
    text: str = ""
    response: str = ""
    length_limited: bool = False
    error: str = ""
