"""The port to a language model: what is asked, what is heard while it answers, and how it fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import attrs

from volcanic.agent.events import ArtifactNote, DirectMessage, StatusNote, TextDelta, ThinkingDelta
from volcanic.agent.messages import AssistantMessage, Message
from volcanic.extension import JsonObject, Verdict

ModelEvent = TextDelta | ThinkingDelta | StatusNote | ArtifactNote | DirectMessage | Verdict
"""What may come while a model answers. The last four are for scripted models: a real one has tools for them. A
`Verdict` ends the run when the response is complete, with the state and text it says."""

ModelEmit = Callable[[ModelEvent], Awaitable[None]]


@attrs.frozen
class ToolSpec:
    """A tool as it is offered to a model: name, what it does, JSON Schema of its arguments."""

    name: str
    description: str
    parameters: JsonObject


@attrs.frozen
class ModelRequest:
    """One question to a model.

    Attributes:
        system_prompt: The whole system prompt.
        messages: The conversation, oldest first; the newest is a user message or a tool result. The list is the
            session's own: it may be read until `respond` returns, and not changed.
        tools: What the model may call.
        session_id: Stable per session (prompt caches).
        scratch: A place of the model's own that lives as long as the run, empty at its start.
    """

    system_prompt: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    session_id: str
    scratch: dict[str, object]


class ModelError(Exception):
    """A provider error.

    `retryable` says that it may pass by itself (overload, 429, 5xx, network, broken stream); quota, billing, a refused
    key and an overfull context do not.
    """

    def __init__(self, text: str, *, retryable: bool) -> None:
        super().__init__(text)
        self.text = text
        self.retryable = retryable


class Model(Protocol):
    """A language model. One object may serve many sessions at once."""

    @property
    def provider(self) -> str:
        """Who runs it, as in `--model PROVIDER:NAME`."""

    @property
    def name(self) -> str:
        """Which model."""

    @property
    def context_window(self) -> int:
        """How many tokens a request and its answer may have together."""

    async def respond(self, request: ModelRequest, emit: ModelEmit) -> AssistantMessage:
        """Answer once, telling each piece through `emit` as it comes.

        Cancellation is the abort signal: it is honoured at once and propagates. The message returned ends in `stop`,
        `length` or `toolUse` and holds everything that was emitted as text or thinking.

        Raises:
            ModelError: the provider failed.
        """
