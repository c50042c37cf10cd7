"""The faux model: a deterministic stand-in behind the model port, driven by a script (without one it echoes).

It is what tries, tests, chaos runs and benchmarks use, so its chaos steps act for real.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import attrs
import trio

from volcanic.agent.events import ArtifactNote, DirectMessage, StatusNote, TextDelta, ThinkingDelta
from volcanic.agent.messages import (
    AssistantMessage,
    Message,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from volcanic.agent.models import faux_steps
from volcanic.agent.models.faux_parse import parse_script
from volcanic.agent.models.faux_script import Script
from volcanic.agent.models.port import ModelEmit, ModelError, ModelRequest
from volcanic.clock import SYSTEM, Clock
from volcanic.extension import Verdict, VerdictState

CHARACTERS_PER_TOKEN = 4
CHUNKS_PER_YIELD = 32
"""How many pieces of text are emitted before the loop gets a turn, so that a long text starves nobody."""

_SCRATCH = "faux"


@attrs.define
class _Play:
    """What is being played for a user message, and how far it has come; it outlives a response."""

    prompt: UserMessage
    steps: faux_steps.Steps
    names: dict[str, str]
    at: int = 0


class FauxModel:
    """Plays a script. One object serves any number of sessions; what it allocates it keeps until it is dropped.

    Steps go on where the response before stopped: after a tool's result, and after a retryable error. An error that is
    the last step is met again by every retry.
    """

    provider = "faux"
    context_window = 128_000

    def __init__(self, script: Script | None = None, *, name: str = "faux-1", clock: Clock = SYSTEM) -> None:
        self.name = name
        self._script = script or Script()
        self._clock = clock
        self._held: list[bytes] = []

    async def respond(self, request: ModelRequest, emit: ModelEmit) -> AssistantMessage:
        """Play the steps up to the next tool call, or to the end; see `Model.respond`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        current = self._current(request)
        return await _Response(self._script, self._held, request, current, emit).run(self.name, self._clock)

    def _current(self, request: ModelRequest) -> _Play:
        newest = next(message for message in reversed(request.messages) if isinstance(message, UserMessage))
        current = request.scratch.get(_SCRATCH)
        if isinstance(current, _Play) and current.prompt is newest:
            current.names["result"] = _latest_result(request.messages)
            return current
        choice = self._script.choose(request.messages, newest)
        current = _Play(newest, choice.steps, choice.names)
        request.scratch[_SCRATCH] = current
        return current


class _Response:
    """One response: emits what the steps say and collects the message."""

    def __init__(
        self, script: Script, held: list[bytes], request: ModelRequest, current: _Play, emit: ModelEmit
    ) -> None:
        self._script = script
        self._held = held
        self._request = request
        self._current = current
        self._emit = emit
        self._content: list[TextBlock | ThinkingBlock | ToolCallBlock] = []

    async def run(self, name: str, clock: Clock) -> AssistantMessage:
        """Play on from where the current play stands."""
        reason = None
        while reason is None:
            reason = await self._next()
        return AssistantMessage(
            content=self._content,
            provider=FauxModel.provider,
            model=name,
            stop_reason=reason,
            timestamp=int(clock.wall() * 1000),
            usage=_usage(self._request, self._content),
        )

    async def _next(self) -> StopReason | None:
        current = self._current
        if current.at >= len(current.steps):
            return StopReason.STOP
        step = current.steps[current.at]
        if not (isinstance(step, faux_steps.Fail) and current.at == len(current.steps) - 1):
            current.at += 1
        match step:
            case faux_steps.Say():
                await self._say(faux_steps.fill(step.text, current.names))
            case faux_steps.Calls():
                return self._call(step)
            case faux_steps.End():
                return await self._end(step)
            case faux_steps.StopAtLength():
                return StopReason.LENGTH
            case faux_steps.Think() | faux_steps.Status() | faux_steps.Artifact() | faux_steps.Direct():
                await self._show(step)
            case faux_steps.Delay():
                await trio.sleep(step.seconds)
            case faux_steps.Fail():
                raise ModelError(faux_steps.fill(step.text, current.names), retryable=step.retryable)
            case faux_steps.Raise():
                raise RuntimeError(faux_steps.fill(step.text, current.names))
            case faux_steps.Allocate() | faux_steps.Spin() | faux_steps.Exit():
                self._break(step)
        return None

    async def _say(self, text: str) -> None:
        if self._content and isinstance(self._content[-1], TextBlock):
            self._content[-1].text += text
        elif text:
            self._content.append(TextBlock(text))
        size, pace = self._script.chunk, self._script.tokens_per_second
        for count, start in enumerate(range(0, len(text), size), start=1):
            piece = text[start : start + size]
            if pace is not None:
                await trio.sleep(len(piece) / CHARACTERS_PER_TOKEN / pace)
            elif count % CHUNKS_PER_YIELD == 0:
                await trio.lowlevel.checkpoint()
            else:
                await trio.lowlevel.checkpoint_if_cancelled()
            await self._emit(TextDelta(piece))

    async def _show(self, step: faux_steps.Think | faux_steps.Status | faux_steps.Artifact | faux_steps.Direct) -> None:
        names = self._current.names
        if isinstance(step, faux_steps.Artifact):
            await self._emit(ArtifactNote(step.render(names), step.append, step.last_chunk))
            return
        text = faux_steps.fill(step.text, names)
        if isinstance(step, faux_steps.Status):
            await self._emit(StatusNote(text))
        elif isinstance(step, faux_steps.Direct):
            self._content.append(TextBlock(text))
            await self._emit(DirectMessage(text))
        elif text:
            self._content.append(ThinkingBlock(text))
            await self._emit(ThinkingDelta(text))

    def _call(self, step: faux_steps.Calls) -> StopReason:
        stem = f"faux-{len(self._request.messages)}"
        for at, call in enumerate(step.calls):
            arguments = faux_steps.fill_json(call.arguments, self._current.names)
            assert isinstance(arguments, dict)
            self._content.append(ToolCallBlock(f"{stem}-{at}", call.name, arguments))
        return StopReason.TOOL_USE

    async def _end(self, step: faux_steps.End) -> StopReason:
        text = faux_steps.fill(step.text, self._current.names)
        if text:
            # Later turns of a conversation see what the assistant asked or why it stopped.
            self._content.append(TextBlock(text))
        if text or step.state is not VerdictState.COMPLETED:
            await self._emit(Verdict(step.state, text))
        return StopReason.STOP

    def _break(self, step: faux_steps.Allocate | faux_steps.Spin | faux_steps.Exit) -> None:
        if isinstance(step, faux_steps.Allocate):
            # Filled, because pages that are never written take no memory.
            self._held.append(b"\xa5" * (step.mebibytes * 1024 * 1024))
        elif isinstance(step, faux_steps.Spin):
            end = time.monotonic() + step.seconds
            while time.monotonic() < end:
                pass
        else:
            os._exit(step.code)


def echo_model() -> FauxModel:
    """Return the model of `--faux`: it streams back the sender's text."""
    return FauxModel()


def scripted_model(data: bytes) -> FauxModel:
    """Return a model that plays the script in `data`.

    Raises:
        ScriptError: one line that says what is wrong with the script and where.
    """
    return FauxModel(parse_script(data))


def _latest_result(messages: Sequence[Message]) -> str:
    """Return the text of the newest tool results, in call order, one a line; empty when the newest message is none."""
    texts: list[str] = []
    for message in reversed(messages):
        if not isinstance(message, ToolResultMessage):
            break
        texts.append(message.text())
    return "\n".join(reversed(texts))


def _usage(request: ModelRequest, content: Sequence[object]) -> Usage:
    """Estimate tokens; all that an earlier response of the conversation counted is read from the cache."""
    cached = fresh = 0
    for message in reversed(request.messages):
        if isinstance(message, AssistantMessage) and message.usage is not None:
            cached = message.usage.total_tokens
            break
        fresh += _characters(message.content)
    else:
        fresh += len(request.system_prompt)
    new, out = fresh // CHARACTERS_PER_TOKEN, _characters(content) // CHARACTERS_PER_TOKEN
    return Usage(input=new, output=out, cache_read=cached, total_tokens=cached + new + out)


def _characters(content: Sequence[object]) -> int:
    size = 0
    for block in content:
        if isinstance(block, TextBlock):
            size += len(block.text)
        elif isinstance(block, ThinkingBlock):
            size += len(block.thinking)
    return size
