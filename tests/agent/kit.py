"""A session on an in-memory transcript, with a scripted model whose requests are kept."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence

import attrs
import msgspec
import trio

from volcanic.agent import messages as codec
from volcanic.agent.bus import SessionBus
from volcanic.agent.events import AgentEvent, MessageEnd, MessageStart, Outcome, TextDelta
from volcanic.agent.messages import AssistantMessage, Message, StopReason, ToolResultMessage, UserMessage
from volcanic.agent.models.faux import FauxModel
from volcanic.agent.models.faux_parse import parse_script
from volcanic.agent.models.port import ModelEmit, ModelRequest
from volcanic.agent.queues import QueueMode
from volcanic.agent.session import AgentSession, Prompt
from volcanic.agent.tool_batch import ToolHooks
from volcanic.extension import ExecutionMode, JsonObject, RunPort, Tool, ToolCall, ToolResult


async def nothing() -> None:
    pass


@attrs.define
class MemoryTranscript:
    """`point` is awaited where a disk would be waited for; `lossy` loses what a cancelled write had in hand."""

    lines: list[bytes] = attrs.field(factory=list)
    lasts: list[bool] = attrs.field(factory=list)
    point: Callable[[], Awaitable[None]] = nothing
    lossy: bool = False

    async def load(self) -> Sequence[bytes]:
        await self.point()
        return list(self.lines)

    async def append(self, messages: Sequence[bytes], *, last: bool) -> None:
        if self.lossy:
            await self.point()
        self.lines += messages
        self.lasts.append(last)
        if not self.lossy:
            await self.point()

    def messages(self) -> list[Message]:
        return [codec.decode(line) for line in self.lines]


@attrs.define
class KeepingModel:
    """A faux model that keeps what it was asked."""

    inner: FauxModel
    asked: list[list[Message]] = attrs.field(factory=list)
    provider: str = "faux"
    name: str = "kept"
    context_window: int = 1000

    async def respond(self, request: ModelRequest, emit: ModelEmit) -> AssistantMessage:
        self.asked.append(list(request.messages))
        return await self.inner.respond(request, emit)


@attrs.define
class AnyTool:
    """A tool made of a function of its arguments."""

    name: str
    act: Callable[[ToolCall, RunPort], Awaitable[ToolResult | str]]
    execution: ExecutionMode = ExecutionMode.PARALLEL
    description: str = "For tests."
    parameters: JsonObject = attrs.field(factory=dict)

    async def run(self, call: ToolCall, run: RunPort) -> ToolResult:
        result = await self.act(call, run)
        return ToolResult(result) if isinstance(result, str) else result


def answer_tool(name: str, text: str, seconds: float = 0.0, **more: object) -> AnyTool:
    async def act(call: ToolCall, run: RunPort) -> ToolResult | str:
        await trio.sleep(seconds)
        return text

    return AnyTool(name, act, **more)  # type: ignore[arg-type]


def faux(script: object = None) -> FauxModel:
    """A faux model: steps for every message, a whole script, or nothing for echo."""
    if script is None:
        return FauxModel()
    if isinstance(script, list):
        script = {"rules": [{"textPrefix": "", "steps": script}]}
    return FauxModel(parse_script(json.dumps(script).encode()))


@attrs.define
class Stage:
    """One session and what came of its runs."""

    script: object = None
    tools: Sequence[Tool] = ()
    transcript: MemoryTranscript = attrs.field(factory=MemoryTranscript)
    hooks: ToolHooks | None = None
    queue_mode: QueueMode = QueueMode.ONE
    events: list[AgentEvent] = attrs.field(factory=list)
    on_event: Callable[[AgentEvent], Awaitable[None]] | None = None
    model: KeepingModel = attrs.field(init=False)
    session: AgentSession = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.model = KeepingModel(faux(self.script))
        self.open()

    def open(self) -> None:
        """Open the session anew from its transcript, as after an eviction or a crash."""
        self.session = AgentSession(
            self.model,
            self.tools,
            "be good",
            self.transcript,
            SessionBus(),
            session_id="s",
            hooks=self.hooks,
            queue_mode=self.queue_mode,
        )

    async def emit(self, event: AgentEvent) -> None:
        self.events.append(event)
        if self.on_event is not None:
            await self.on_event(event)

    async def say(self, text: str, message_id: str = "m", task_id: str = "t", **more: object) -> Outcome:
        return await self.session.run(Prompt(text, message_id, task_id, **more), self.emit)  # type: ignore[arg-type]

    def of(self, kind: type) -> list[AgentEvent]:
        return [event for event in self.events if isinstance(event, kind)]

    def told(self) -> list[str]:
        """The text of each assistant message as a listener puts it together from its pieces."""
        texts: list[str] = []
        for event in self.events:
            if isinstance(event, MessageStart):
                texts.append("")
            elif isinstance(event, TextDelta):
                texts[-1] += event.text
            elif isinstance(event, MessageEnd):
                assert event.text == texts[-1]
        return texts


def shape(messages: Sequence[Message]) -> list[str]:
    """A conversation in short."""
    lines: list[str] = []
    for message in messages:
        if isinstance(message, UserMessage):
            lines.append(f"user {message.sender_text()}")
        elif isinstance(message, AssistantMessage):
            calls = " ".join(call.name for call in message.tool_calls())
            lines.append(f"assistant {message.text()}|{calls}|{message.stop_reason}")
        else:
            lines.append(f"{message.tool_name} {message.text()}{' !' if message.is_error else ''}")
    return lines


def assert_fit(messages: Sequence[Message]) -> None:
    """A model could be asked this: every call has its one result right behind it, in order, and nothing broken stays."""
    left: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            assert left, "a result without its call"
            assert message.tool_call_id == left.pop(0)
            continue
        assert not left, f"calls without a result: {left}"
        if isinstance(message, AssistantMessage):
            assert message.stop_reason not in {StopReason.ERROR, StopReason.ABORTED}
            left = [call.id for call in message.tool_calls()]
    assert not left
    assert isinstance(messages[-1], UserMessage | ToolResultMessage)


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
