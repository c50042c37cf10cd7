"""A session's conversation: in memory as a model gets it, and in the transcript as it happened."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from volcanic.agent import messages as codec
from volcanic.agent.messages import Message, TextBlock, ToolResultMessage, UserMessage
from volcanic.agent.repair import repair
from volcanic.agent.transcript import TranscriptPort
from volcanic.clock import Clock

_log = structlog.get_logger(__name__)


class Conversation:
    """The messages of one session.

    What is added is in memory before it is on its way to the transcript, so that a cancelled write loses nothing here.
    Between `open` and `close` a run owns it; a run that ends without `close` leaves it to be repaired by the next.
    """

    def __init__(self, transcript: TranscriptPort, clock: Clock) -> None:
        self._transcript = transcript
        self._clock = clock
        self._loaded = False
        self._clean = False
        self.messages: list[Message] = []

    async def open(self) -> None:
        """Load the transcript the first time, and repair what a run left half done.

        Raises:
            OSError: the transcript could not be read.
        """
        if not self._loaded:
            self.messages = self._decode(await self._transcript.load())
            self._loaded = True
        if not self._clean:
            self.messages = repair(self.messages)
        self._clean = False

    def close(self) -> None:
        """Say that the run ended in good order: nothing needs repair."""
        self._clean = True

    def now_ms(self) -> int:
        """Return the time for a message: Unix milliseconds."""
        return int(self._clock.wall() * 1000)

    async def add(self, *messages: Message, last: bool = False) -> None:
        """Add messages to the context and the transcript; `last` as in `TranscriptPort.append`.

        Raises:
            OSError: they could not be stored.
        """
        self.messages += messages
        await self._transcript.append([codec.encode(message) for message in messages], last=last)

    async def note(self, message: Message, *, last: bool = False) -> None:
        """Add a message to the transcript alone: a failed response, which leaves the context.

        Raises:
            OSError: it could not be stored.
        """
        await self._transcript.append([codec.encode(message)], last=last)

    async def add_queued(self, texts: Sequence[str]) -> None:
        """Add texts that were put into a run already going on.

        Raises:
            OSError: they could not be stored.
        """
        now = self.now_ms()
        await self.add(*[UserMessage(content=[TextBlock(text)], timestamp=now, queued=True) for text in texts])

    def order_results(self, start: int, call_ids: Sequence[str]) -> None:
        """Put the tool results from index `start` on, which came as calls finished, into call order."""
        place = {call_id: at for at, call_id in enumerate(call_ids)}
        self.messages[start:] = sorted(
            self.messages[start:],
            key=lambda message: place[message.tool_call_id] if isinstance(message, ToolResultMessage) else len(place),
        )

    def _decode(self, lines: Sequence[bytes]) -> list[Message]:
        messages: list[Message] = []
        skipped = 0
        for line in lines:
            try:
                messages.append(codec.decode(line))
            except ValueError:
                skipped += 1
        if skipped:
            _log.warning("messages of a transcript could not be read and were left out", count=skipped)
        return messages
