"""The edge's end of the Owner API: a link to each slot, made anew whenever it breaks.

A call ends answered, refused, or *unknown* when the link breaks under it; `actors.owner` settles what is unknown.
"""

from __future__ import annotations

import itertools
import math
from collections import deque

import msgspec
import structlog
import trio
from msgspec import Raw

from actors.frames import FrameError, FrameReader, FrameTooLong, Outbox, OutboxFull
from actors.messages import Answer, Ask, Call, Credit, End, Event, FromSlot, Hello, Leave, Refusal
from volcanic.protocol.errors import A2AError, ErrorKind, from_refusal

RECONNECT_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1)
CREDIT_STEP = 16 * 1024
"""A reader grants credit in steps of at least this many bytes, so that small events cost no frame each."""

LINK_SECONDS = 10.0
"""How long a call waits for a link to its slot; a killed slot is back in a fraction of that."""

log = structlog.get_logger(__name__)

_decoder = msgspec.json.Decoder(FromSlot)


class OutcomeUnknown(Exception):  # noqa: N818 - it is an outcome, not a fault of this code
    """The link broke after the call may have reached its owner."""


class OpenCall:
    """One open call: its answer, then its events. One task waits for it."""

    __slots__ = ("error", "events", "lost", "lot", "result")

    def __init__(self) -> None:
        self.result: Raw | None = None
        self.error: A2AError | None = None
        self.lost = False
        self.events: deque[Event | End] = deque()
        self.lot = trio.lowlevel.ParkingLot()

    def wake(self) -> None:
        """Have the waiting task look again."""
        self.lot.unpark_all()

    async def answer(self) -> Raw:
        """Wait for the answer; raises `A2AError` when refused, `OutcomeUnknown` when the link broke."""
        while True:
            if self.error is not None:
                raise self.error
            if self.result is not None:
                return self.result
            if self.lost:
                raise OutcomeUnknown
            await self.lot.park()

    async def next(self) -> Event | End:
        """Wait for the next event of a stream.

        Raises:
            A2AError: its owner failed after it had accepted the stream.
            OutcomeUnknown: the link broke after the events that came.
        """
        while not self.events:
            if self.error is not None:
                raise self.error
            if self.lost:
                raise OutcomeUnknown
            await self.lot.park()
        return self.events.popleft()


class SlotLink:
    """The connection to one slot, made anew whenever it breaks; `run` is its supervised task."""

    def __init__(self, slot: str, path: str) -> None:
        self.slot = slot
        self.hello: Hello | None = None
        self.draining = False
        """Set when the whole service stops: no slot will have a successor to wait for."""
        self.stopping = False
        """Set when the edge stops: calls that end from then on end with it, and tell nothing of their clients."""
        self._path = path
        self._outbox: Outbox | None = None
        self._open: dict[int, OpenCall] = {}
        self._ids = itertools.count(1)
        self._up = trio.lowlevel.ParkingLot()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the link up, for ever."""
        task_status.started()
        failures = 0
        while True:
            try:
                stream = await trio.open_unix_socket(self._path)
            except OSError:
                await trio.sleep(RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)])
                failures += 1
                continue
            try:
                async with stream:
                    await self._serve(stream)
            except* (FrameError, OutboxFull) as group:
                log.warning("slot_link_dropped", slot=self.slot, error=str(group.exceptions[0]))
            except* (trio.BrokenResourceError, trio.ClosedResourceError):
                log.debug("slot_gone", slot=self.slot)
            finally:
                self._down()
            failures = 0
            await trio.sleep(RECONNECT_SECONDS[0])

    async def _serve(self, stream: trio.SocketStream) -> None:
        outbox = Outbox()
        reader: FrameReader[FromSlot] = FrameReader(stream, _decoder)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.run, stream)
            while frames := await reader.receive():
                for frame in frames:
                    if isinstance(frame, Hello):
                        self.hello, self._outbox = frame, outbox
                        self._up.unpark_all()
                    else:
                        self._take(frame)
            nursery.cancel_scope.cancel()

    def _take(self, frame: Answer | Refusal | Event | End) -> None:
        open_call = self._open.get(frame.id)
        if open_call is None:
            return
        match frame:
            case Answer(result=result):
                open_call.result = result
            case Refusal():
                open_call.error = from_refusal(frame.kind, frame.message, frame.field, frame.retry_after)
            case End(id=call_id):
                open_call.events.append(frame)
                self._open.pop(call_id, None)
            case _:
                open_call.events.append(frame)
        open_call.wake()

    def _down(self) -> None:
        self.hello, self._outbox = None, None
        calls, self._open = list(self._open.values()), {}
        for call in calls:
            call.lost = True
            call.wake()

    async def ask(self, call: Call) -> Raw:
        """Send a call and return its answer. A cancelled wait tells the owner that its caller left.

        Raises:
            A2AError: refused, or no link within `LINK_SECONDS`.
            OutcomeUnknown: the link broke first.
        """
        outbox, call_id, open_call = await self._send(call)
        try:
            return await open_call.answer()
        except trio.Cancelled:
            self._leave(outbox, call_id)
            raise
        finally:
            self._open.pop(call_id, None)

    async def open_stream(self, call: Call) -> LinkStream:
        """Send a streaming call and return its events once it is accepted; the caller closes what it gets.

        Raises:
            A2AError: refused, or no link within `LINK_SECONDS`.
            OutcomeUnknown: the link broke first.
        """
        outbox, call_id, open_call = await self._send(call)
        try:
            await open_call.answer()
        except BaseException as error:
            if isinstance(error, trio.Cancelled):
                self._leave(outbox, call_id)
            self._open.pop(call_id, None)
            raise
        return LinkStream(self, outbox, call_id, open_call)

    async def _send(self, call: Call) -> tuple[Outbox, int, OpenCall]:
        outbox = self._outbox
        if outbox is None:
            with trio.move_on_after(LINK_SECONDS):  # noqa: ASYNC912 - it is entered only to wait
                while (outbox := self._outbox) is None:
                    await self._up.park()
        if outbox is None:
            raise A2AError(ErrorKind.UNAVAILABLE)
        await outbox.room()
        call_id = next(self._ids)
        open_call = self._open[call_id] = OpenCall()
        left = trio.current_effective_deadline() - trio.current_time()
        try:
            outbox.put(Ask(id=call_id, seconds=left if math.isfinite(left) else 0.0, call=call))
        except FrameTooLong:
            del self._open[call_id]
            raise A2AError(ErrorKind.BODY_TOO_LARGE) from None
        return outbox, call_id, open_call

    async def successor(self, boot: str, incarnation: int) -> None:
        """Wait until the slot is served by another life than this one."""
        while self.hello is None or (self.hello.boot, self.hello.incarnation) == (boot, incarnation):
            await self._up.park()

    def _leave(self, outbox: Outbox, call_id: int) -> None:
        if self._outbox is outbox and self._open.pop(call_id, None) is not None and not self.stopping:
            outbox.put(Leave(id=call_id))

    def grant(self, outbox: Outbox, call_id: int, size: int) -> None:
        """Let the slot send `size` more bytes of a stream."""
        if self._outbox is outbox:
            outbox.put(Credit(id=call_id, bytes=size))

    def close(self, outbox: Outbox, call_id: int) -> None:
        """Tell the slot that the reader of a stream has left."""
        self._leave(outbox, call_id)


class LinkStream:
    """The events of one stream over one link."""

    def __init__(self, link: SlotLink, outbox: Outbox, call_id: int, open_call: OpenCall) -> None:
        self._link = link
        self._outbox = outbox
        self._id = call_id
        self._call = open_call
        self._read = 0

    async def receive(self) -> Event | End:
        """Return the next event; `End` is the last.

        Raises:
            A2AError: its owner failed after it had accepted the stream.
            OutcomeUnknown: the link broke; what follows has to be asked for anew.
        """
        frame = await self._call.next()
        if isinstance(frame, Event):
            self._read += len(bytes(frame.payload))
            if self._read >= CREDIT_STEP:
                self._link.grant(self._outbox, self._id, self._read)
                self._read = 0
        return frame

    def close(self) -> None:
        """Leave the stream; a stream that has ended is left already."""
        self._link.close(self._outbox, self._id)
