"""The slot's end of the Owner API: connections from edges, their open calls, and streams with credit.

An edge that dies is no client that leaves: its runs go on, its answers go nowhere. A call has no task here; the actor
that handles it answers through its connection's outbox. Reads, which may wait for the disk, get a child task each.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import structlog
import trio
from msgspec import Raw

from actors.contexts import Contexts
from actors.frames import LARGE_FRAME, FrameError, FrameReader, FrameTooLong, Outbox, OutboxFull
from actors.messages import (
    Answer,
    Ask,
    CancelTask,
    Credit,
    End,
    Event,
    FromEdge,
    GetTask,
    Hello,
    Leave,
    ListTasks,
    Refusal,
    Send,
    Subscribe,
)
from actors.subscription import Subscription
from volcanic.protocol.errors import A2AError, ErrorKind

MAX_CALLS = 20_000
"""Open calls of one connection. Overflow answer: the call is refused as unavailable."""

BREATH_SECONDS = 0.02
"""How long one burst of calls may hold the event loop."""

READERS = 8
"""Reads of one edge under way at once; the others wait their turn. Each may hold a whole task in memory."""

CROWDED = "too much is waiting to be sent, retry"

READ_SECONDS = 60.0
"""How long a read may take whose caller named no deadline."""

GOODBYE_SECONDS = 2.0
"""How long a stopping slot takes to write its last answers to one edge."""

TOO_LONG = "The answer is too long; ask for fewer tasks, a shorter history, or no artifacts"

log = structlog.get_logger(__name__)

_decoder = msgspec.json.Decoder(FromEdge)


class Caller:
    """One open call of one connection (`actors.asking.Asker`), and the sink of its stream when it has one."""

    __slots__ = ("_connection", "id", "left", "on_leave", "stream")

    def __init__(self, connection: Connection, call_id: int) -> None:
        self._connection = connection
        self.id = call_id
        self.left = False
        self.on_leave: Callable[[], None] | None = None
        self.stream: Subscription | None = None

    def answer(self, result: bytes) -> None:
        """Answer and close the call."""
        if not self._connection.is_open(self.id):
            return
        outbox = self._connection.outbox
        if len(result) > LARGE_FRAME and outbox.crowded():
            self.refuse(A2AError(ErrorKind.UNAVAILABLE, CROWDED))
            return
        try:
            outbox.put(Answer(id=self.id, result=Raw(result)))
        except FrameTooLong:
            self.refuse(A2AError(ErrorKind.INTERNAL, TOO_LONG))
        self._connection.close_call(self.id)

    def refuse(self, error: A2AError) -> None:
        """Refuse and close the call."""
        if self._connection.close_call(self.id):
            self._connection.outbox.put(
                Refusal(
                    id=self.id,
                    kind=error.kind.value,
                    message=error.message,
                    field=error.field,
                    retry_after=error.retry_after,
                )
            )

    def open_stream(self, *, until_interrupted: bool) -> Subscription:
        """Accept a streaming call; the call stays open until its stream ends."""
        limit = self._connection.stream_buffer_bytes
        self.stream = Subscription(self, limit, until_interrupted=until_interrupted)
        if not self._connection.is_open(self.id):
            self.stream.abandon()
        self._connection.outbox.put(Answer(id=self.id, result=Raw(b"null")))
        return self.stream

    def event(self, version: int, payload: bytes) -> None:
        """Send one event of the stream; a large one, when too much waits already, ends it as slow."""
        if len(payload) > LARGE_FRAME and self._connection.outbox.crowded():
            if self.stream is not None:
                self.stream.abandon()
            self.end("slow")
            return
        try:
            self._connection.outbox.put(Event(id=self.id, version=version, payload=Raw(payload)))
        except FrameTooLong:
            log.warning("event_too_long", bytes=len(payload))
            if self.stream is not None:
                self.stream.abandon()
            self.end("lost")

    def end(self, reason: str) -> None:
        """Say that the stream is over."""
        if self._connection.close_call(self.id):
            self._connection.outbox.put(End(id=self.id, reason=reason))

    def leave(self) -> None:
        """The client is gone."""
        self.left = True
        if self.stream is not None:
            self.stream.abandon()
        if self.on_leave is not None:
            self.on_leave()

    def lose(self) -> None:
        """The edge is gone; the client may come back through another."""
        if self.stream is not None:
            self.stream.abandon()


class Connection:
    """One edge. Owns neither the stream nor the contexts."""

    def __init__(self, contexts: Contexts, stream_buffer_bytes: int, note: Callable[[str], None]) -> None:
        self.outbox = Outbox()
        self.stream_buffer_bytes = stream_buffer_bytes
        self._contexts = contexts
        self._note = note
        self._calls: dict[int, Caller] = {}
        self._readers = trio.Semaphore(READERS)

    def is_open(self, call_id: int) -> bool:
        """Whether the call still waits."""
        return call_id in self._calls

    def close_call(self, call_id: int) -> bool:
        """Close a call; return whether it was open, so that only the first answer counts."""
        return self._calls.pop(call_id, None) is not None

    async def serve(self, stream: trio.abc.HalfCloseableStream, hello: Hello) -> None:
        """Serve one edge until it goes; its open calls are then forgotten, not canceled.

        Raises:
            FrameError, OutboxFull: the peer is no edge of ours, or does not read; the connection is over.
        """
        self.outbox.put(hello)
        reader: FrameReader[FromEdge] = FrameReader(stream, _decoder)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.outbox.run, stream)
                while frames := await reader.receive():
                    since = trio.current_time()
                    for frame in frames:
                        self._take(frame, nursery)
                        # Calls about large tasks take a while each: a burst of them must not stop the heart.
                        if trio.current_time() - since > BREATH_SECONDS:
                            await trio.lowlevel.checkpoint()
                            since = trio.current_time()
                nursery.cancel_scope.cancel()
        finally:
            await self.outbox.flush(stream, GOODBYE_SECONDS)  # noqa: ASYNC102 - shields itself, for so long at most
            calls, self._calls = list(self._calls.values()), {}
            for caller in calls:
                caller.lose()

    def _take(self, frame: FromEdge, nursery: trio.Nursery) -> None:
        match frame:
            case Ask(id=call_id, call=call, seconds=seconds):
                caller = Caller(self, call_id)
                self._calls[call_id] = caller
                self._note(type(call).__name__)
                if len(self._calls) > MAX_CALLS:
                    caller.refuse(A2AError(ErrorKind.UNAVAILABLE))
                else:
                    try:
                        self._dispatch(call, caller, seconds, nursery)
                    except OSError as error:
                        log.warning("task_not_read", error=str(error))
                        caller.refuse(A2AError(ErrorKind.UNAVAILABLE))
            case Leave(id=call_id):
                if (gone := self._calls.pop(call_id, None)) is not None:
                    gone.leave()
            case Credit(id=call_id, bytes=size):
                if (reading := self._calls.get(call_id)) is not None and reading.stream is not None:
                    reading.stream.grant(size)

    def _dispatch(
        self,
        call: Send | GetTask | ListTasks | CancelTask | Subscribe,
        caller: Caller,
        seconds: float,
        nursery: trio.Nursery,
    ) -> None:
        match call:
            case Send():
                self._contexts.send(call, caller)
            case CancelTask():
                self._contexts.cancel(call, caller)
            case Subscribe():
                self._contexts.subscribe(call, caller)
            case GetTask() | ListTasks():
                nursery.start_soon(self._read, call, caller, seconds)

    async def _read(self, call: GetTask | ListTasks, caller: Caller, seconds: float) -> None:
        """Answer a read, once the answers before it have gone out: what is rendered for many is not kept for long."""
        with trio.move_on_after(seconds or READ_SECONDS):  # noqa: ASYNC912 - a read waits for its turn or the disk
            try:
                async with self._readers:
                    await self.outbox.room()
                    if isinstance(call, GetTask):
                        caller.answer(await self._contexts.get_task(call))
                    else:
                        caller.answer(msgspec.json.encode(await self._contexts.list_tasks(call)))
            except A2AError as error:
                caller.refuse(error)
            except Exception:  # a read that fails is its caller's loss alone
                log.exception("read_failed", call=type(call).__name__)
                caller.refuse(A2AError(ErrorKind.INTERNAL))


async def serve_owner(
    listener: trio.SocketListener,
    contexts: Contexts,
    hello: Hello,
    stream_buffer_bytes: int,
    note: Callable[[str], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Accept edges for ever. `note` is told the kind of each call (for the heartbeat's label).

    One connection's fault ends that connection: its calls become *unknown* at the edge, which asks again.
    """

    async def serve_one(stream: trio.SocketStream) -> None:
        try:
            await Connection(contexts, stream_buffer_bytes, note).serve(stream, hello)
        except* (FrameError, OutboxFull) as group:
            log.warning("edge_connection_dropped", error=str(group.exceptions[0]))
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            log.debug("edge_gone")
        except* Exception as group:
            log.warning("edge_connection_failed", exc_info=group)

    task_status.started()
    await trio.serve_listeners(serve_one, [listener])
