"""One run: turns of a model response and its tool calls, until the assistant would stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import structlog
import trio

from volcanic.agent.conversation import Conversation
from volcanic.agent.events import Emit, MessageEnd, MessageStart, Outcome
from volcanic.agent.messages import (
    AssistantMessage,
    ImageContent,
    StopReason,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    encodable,
)
from volcanic.agent.models.port import Model, ModelError, ModelRequest, ToolSpec
from volcanic.agent.queues import TextQueue
from volcanic.agent.repair import filler
from volcanic.agent.reply import Reply
from volcanic.agent.retry import RetryPolicy
from volcanic.agent.tool_batch import CANCELLED, CUT_OFF, BatchEnd, ToolBatch, ToolHooks
from volcanic.clock import Clock
from volcanic.extension import Tool, ToolCall, ToolResult, Verdict, VerdictState
from volcanic.redact import KEYS

RECORD_SECONDS = 5.0
"""How long an interrupted run may take to record what it had, in seconds."""

_log = structlog.get_logger(__name__)


@attrs.frozen
class Assistant:
    """Who answers in a session: what does not change from run to run."""

    model: Model
    tools: Mapping[str, Tool]
    specs: Sequence[ToolSpec]
    system_prompt: str
    session_id: str
    hooks: ToolHooks
    retry: RetryPolicy
    clock: Clock


class RunLoop:
    """One run over a conversation whose newest message is the user's. `play` is called once."""

    def __init__(
        self, assistant: Assistant, talk: Conversation, steering: TextQueue, follow_ups: TextQueue, emit: Emit
    ) -> None:
        self._assistant = assistant
        self._talk = talk
        self._steering = steering
        self._follow_ups = follow_ups
        self._emit = emit
        self._scratch: dict[str, object] = {}
        self._response = ""
        self._length_limited = False
        self._verdict: Verdict | None = None

    async def play(self) -> Outcome:
        """Run to the end and say how it ended.

        A tool's verdict ends the run with its batch when every result of the batch asks for it; else it is kept, and
        says how the run ended once the assistant stops.

        Raises:
            OSError: the transcript could not be stored.
            Exception: the model or the listener raised something that is no provider error.
        """
        while True:
            try:
                message, decided = await self._ask()
            except ModelError as error:
                text = KEYS.scrub(error.text)
                return self._outcome(Verdict(VerdictState.FAILED, text), text)
            blocks = message.tool_calls()
            stops = not blocks
            if blocks:
                end = await self._run_calls(message, blocks)
                self._verdict = end.verdict or self._verdict
                stops, decided = end.terminate, end.terminate and end.verdict is not None
            texts = [] if decided else self._next_texts(stops=stops)
            if texts:
                await self._talk.add_queued(texts)
            elif stops:
                return self._outcome(self._verdict)

    def _next_texts(self, *, stops: bool) -> list[str]:
        texts = self._steering.take()
        if not texts and stops and self._verdict is None:
            texts = self._follow_ups.take()
        return texts

    def _nothing_waits(self) -> bool:
        return not self._steering and (self._verdict is not None or not self._follow_ups)

    def _outcome(self, verdict: Verdict | None, error: str = "") -> Outcome:
        if verdict is None:
            return Outcome(VerdictState.COMPLETED, self._response, self._response, self._length_limited)
        text = verdict.text
        if not text and verdict.state is VerdictState.COMPLETED:
            text = self._response
        return Outcome(verdict.state, text, self._response, self._length_limited, error)

    async def _ask(self) -> tuple[AssistantMessage, bool]:
        """Get one complete response, and whether it decided the run; failures are tried again as the policy says."""
        failures = 0
        while True:
            reply = Reply(self._emit)
            try:
                return await self._respond(reply)
            except ModelError as error:
                failure = error
            failures += 1
            delay = self._assistant.retry.delay(failures) if failure.retryable else None
            await self._talk.note(self._broken(reply, StopReason.ERROR, KEYS.scrub(failure.text)), last=delay is None)
            await self._emit(MessageEnd(reply.text(), StopReason.ERROR))
            if delay is None:
                raise failure
            await self._assistant.clock.sleep(delay)

    async def _respond(self, reply: Reply) -> tuple[AssistantMessage, bool]:
        assistant = self._assistant
        request = ModelRequest(
            assistant.system_prompt, self._talk.messages, assistant.specs, assistant.session_id, self._scratch
        )
        try:
            await self._emit(MessageStart())
            message = await assistant.model.respond(request, reply.hear)
        except ModelError:
            raise
        except BaseException as error:
            failed = isinstance(error, Exception)
            reason, text = (StopReason.ERROR, type(error).__name__) if failed else (StopReason.ABORTED, "")
            with trio.CancelScope(deadline=trio.current_time() + RECORD_SECONDS, shield=True):
                await self._note_interrupted(self._broken(reply, reason, text))
            raise
        self._verdict = reply.verdict or self._verdict
        text = reply.text()
        self._response = text or self._response
        self._length_limited = message.stop_reason is StopReason.LENGTH
        ends = not message.tool_calls() and (reply.verdict is not None or self._nothing_waits())
        await self._talk.add(message, last=ends)
        await self._emit(MessageEnd(text, message.stop_reason))
        return message, reply.verdict is not None

    def _broken(self, reply: Reply, reason: StopReason, error: str) -> AssistantMessage:
        model = self._assistant.model
        return AssistantMessage(
            content=reply.content(),
            provider=model.provider,
            model=model.name,
            stop_reason=reason,
            timestamp=self._talk.now_ms(),
            error_message=error,
        )

    async def _note_interrupted(self, message: AssistantMessage) -> None:
        try:
            await self._talk.note(message, last=True)
        except OSError as error:
            # What interrupted the run must not be hidden by a disk that fails as well.
            _log.warning("an interrupted response could not be recorded", error=str(error))

    async def _run_calls(self, message: AssistantMessage, blocks: Sequence[ToolCallBlock]) -> BatchEnd:
        if message.stop_reason is StopReason.LENGTH:
            now = self._talk.now_ms()
            await self._talk.add(*[filler(block, CUT_OFF, now) for block in blocks])
            return BatchEnd(terminate=False, verdict=None)
        calls = [ToolCall(block.id, block.name, block.arguments) for block in blocks]
        batch = ToolBatch(self._assistant.tools, self._assistant.hooks, self._emit, self._record, calls)
        start = len(self._talk.messages)
        try:
            end = await batch.run()
        except BaseException:
            with trio.CancelScope(deadline=trio.current_time() + RECORD_SECONDS, shield=True):
                await self._fill(batch)
            raise
        self._talk.order_results(start, [call.id for call in calls])
        return end

    async def _record(self, call: ToolCall, result: ToolResult, ends: bool) -> None:  # noqa: FBT001
        content: list[TextBlock | ImageContent] = [TextBlock(encodable(result.text))]
        content += [ImageContent(image.data, image.media_type) for image in result.images]
        message = ToolResultMessage(
            tool_call_id=call.id,
            tool_name=call.name,
            content=content,
            timestamp=self._talk.now_ms(),
            is_error=result.is_error,
        )
        await self._talk.add(message, last=ends and result.verdict is not None)

    async def _fill(self, batch: ToolBatch) -> None:
        now = self._talk.now_ms()
        try:
            for call in batch.unfinished():
                await self._talk.add(filler(ToolCallBlock(call.id, call.name), CANCELLED, now), last=True)
        except OSError as error:
            # What interrupted the run must not be hidden by a disk that fails as well.
            _log.warning("interrupted tool calls could not be recorded", error=str(error))
