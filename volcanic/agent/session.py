"""A session: one conversation with the assistant, resumed from its transcript, one run at a time."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio

from volcanic.agent.conversation import Conversation
from volcanic.agent.events import Emit, Outcome
from volcanic.agent.loop import Assistant, RunLoop
from volcanic.agent.messages import ImageContent, TextBlock, UserMessage
from volcanic.agent.models.port import Model, ToolSpec
from volcanic.agent.queues import QueueMode, TextQueue
from volcanic.agent.retry import RetryPolicy
from volcanic.agent.tool_batch import ToolHooks
from volcanic.agent.transcript import TranscriptPort
from volcanic.clock import SYSTEM, Clock
from volcanic.extension import EventBus, ImageBlock, Tool, VerdictState

QUEUE_CAPACITY = 64
"""How many texts may wait to be put into a run; one more is refused with `QueueFullError`."""


class SessionBusyError(Exception):
    """A run is going on: wait for it, `steer` it or add a `follow_up`."""


@attrs.frozen
class Prompt:
    """What starts a run.

    Attributes:
        text: The sender's words: the first text part of a message.
        message_id: The A2A message id it came with, if any.
        task_id: The A2A task it belongs to, if any.
        more_texts: The sender's further text parts.
        images: Images for the model.
        before: What the host puts ahead of the sender's words (local time, framing); the model sees it, rules of a
            scripted model do not.
        after: What the host puts behind them (notes about saved files, the end of the framing).
    """

    text: str
    message_id: str = ""
    task_id: str = ""
    more_texts: tuple[str, ...] = ()
    images: tuple[ImageBlock, ...] = ()
    before: str = ""
    after: str = ""

    def message(self, timestamp: int) -> UserMessage:
        """Return the user message of the conversation."""
        content: list[TextBlock | ImageContent] = []
        if self.before:
            content.append(TextBlock(self.before, host=True))
        content += [TextBlock(text) for text in (self.text, *self.more_texts) if text]
        if self.after:
            content.append(TextBlock(self.after, host=True))
        content += [ImageContent(image.data, image.media_type) for image in self.images]
        return UserMessage(content=content, timestamp=timestamp, message_id=self.message_id, task_id=self.task_id)


class AgentSession:
    """One conversation. It owns nothing that must be closed: dropping it evicts it, the transcript resumes it.

    Args:
        model: Who answers.
        tools: What it may call; names are unique.
        system_prompt: The whole system prompt.
        transcript: Where the conversation is kept; loaded when the first run starts.
        bus: The session's event bus, for the host and its extensions; the session itself sends nothing on it.
        session_id: Stable name of the session, for a provider's prompt cache.
        hooks: Asked before and after each tool call.
        retry: When provider errors are tried again.
        queue_mode: How steering and follow-up texts go in.
        clock: Wall time of messages, and the wait before a retry.
    """

    def __init__(
        self,
        model: Model,
        tools: Sequence[Tool],
        system_prompt: str,
        transcript: TranscriptPort,
        bus: EventBus,
        *,
        session_id: str = "",
        hooks: ToolHooks | None = None,
        retry: RetryPolicy | None = None,
        queue_mode: QueueMode = QueueMode.ONE,
        clock: Clock = SYSTEM,
    ) -> None:
        by_name = {tool.name: tool for tool in tools}
        if len(by_name) != len(tools):
            raise ValueError("two tools of one session have the same name")
        self.bus = bus
        self._assistant = Assistant(
            model=model,
            tools=by_name,
            specs=[ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools],
            system_prompt=system_prompt,
            session_id=session_id,
            hooks=hooks or ToolHooks(),
            retry=retry or RetryPolicy(),
            clock=clock,
        )
        self._talk = Conversation(transcript, clock)
        self._steering = TextQueue(queue_mode, QUEUE_CAPACITY)
        self._follow_ups = TextQueue(queue_mode, QUEUE_CAPACITY)
        self._scope: trio.CancelScope | None = None
        self._idle: trio.Event | None = None

    @property
    def running(self) -> bool:
        """Whether a run is going on."""
        return self._scope is not None

    async def run(self, prompt: Prompt, emit: Emit) -> Outcome:
        """Answer one prompt, and what is queued meanwhile, to the end: when it returns the session is settled.

        The user's message is in the transcript before the model is asked. Cancelling this call aborts the run: what
        the assistant had said is recorded (within `RECORD_SECONDS`), then the cancellation goes on. `abort` ends it
        with a `CANCELED` outcome instead.

        Raises:
            SessionBusyError: a run is going on; nothing was added.
            OSError: the transcript could not be read or stored.
            Exception: a bug in the model or the listener. The session stays usable.
        """
        if self._scope is not None:
            raise SessionBusyError("a run is going on in this session")
        self._scope = trio.CancelScope()
        outcome = Outcome(VerdictState.CANCELED)
        try:
            with self._scope:
                outcome = await self._play(prompt, emit)
        finally:
            self._scope = None
            if self._idle is not None:
                self._idle.set()
                self._idle = None
        return outcome

    def steer(self, text: str) -> None:
        """Have `text` put in before the model is asked next, in this run or at the start of the next.

        Raises:
            QueueFullError: `QUEUE_CAPACITY` texts wait already.
        """
        self._steering.put(text)

    def follow_up(self, text: str) -> None:
        """Have `text` put in when the assistant would stop, in this run or the next.

        Raises:
            QueueFullError: `QUEUE_CAPACITY` texts wait already.
        """
        self._follow_ups.put(text)

    def drop_queued(self) -> list[str]:
        """Remove and return all texts that wait: steering first, then follow-ups."""
        return self._steering.clear() + self._follow_ups.clear()

    async def abort(self) -> None:
        """End the run that is going on, if any, and wait until the session is idle. Queued texts stay."""
        if self._scope is not None:
            self._idle = self._idle or trio.Event()
            self._scope.cancel()
            await self._idle.wait()

    async def _play(self, prompt: Prompt, emit: Emit) -> Outcome:
        talk = self._talk
        await talk.open()
        await talk.add(prompt.message(talk.now_ms()))
        texts = self._steering.take()
        if texts:
            await talk.add_queued(texts)
        outcome = await RunLoop(self._assistant, talk, self._steering, self._follow_ups, emit).play()
        talk.close()
        return outcome
