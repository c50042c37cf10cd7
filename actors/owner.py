"""The Owner API as an edge uses it: one typed call for each thing an owner can be asked, in whichever process it lives.

Implements `actors.owners_port.Owners`. A link that breaks under a call leaves its outcome unknown; that is settled
here, and nothing above knows of it: reads are asked again, a send is sent again with `again` (the owner looks for its
operation first), a stream goes on with what is newer than what it gave.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager

import msgspec
import trio
from msgspec import Raw

from actors import rendering
from actors.messages import CancelTask, End, Event, GetTask, Hello, ListPage, ListRow, ListTasks, Send, Subscribe
from actors.slot_link import LinkStream, OutcomeUnknown, SlotLink
from volcanic.clock import SYSTEM
from volcanic.protocol.errors import A2AError, ErrorKind
from volcanic.protocol.ids import shard_of, shard_of_task_id
from volcanic.protocol.states import is_terminal
from volcanic.protocol.timestamps import format_ms
from volcanic.protocol.types import StreamResponse, Task, TaskState
from volcanic.storage.tasks import TaskFiles

SETTLED_SECONDS = 60.0
"""A finished task this young may be in place and not yet durable: its owner knows, the file does not.

Well over the time that a run's last write may take (`OwnerSettings.settle_seconds`)."""

SUCCESSOR_SECONDS = 20.0
"""How long a send waits for the successor of a slot that takes no more runs; over it the send is refused."""

LOSS_DELAYS = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0, 1.0)
"""Seconds before a call is made again whose link broke, for the first time, the second, ...; then it is given up: what
breaks link after link may be the call itself."""

_decode_task = msgspec.json.Decoder(Task).decode
_decode_page = msgspec.json.Decoder(ListPage).decode
_decode_event = msgspec.json.Decoder(StreamResponse).decode


class SlotOwners:
    """Every slot, behind one port. Owns no link: the edge's supervisor runs them."""

    def __init__(self, links: Sequence[SlotLink], files: Mapping[str, TaskFiles]) -> None:
        self._links = links
        self._files = files
        self._reading = trio.Lock()

    def ready(self) -> bool:
        """Whether every slot is serving."""
        return all(link.hello is not None for link in self._links)

    async def send_message(self, send: Send, seconds: float) -> Raw:
        """Start or continue a task; return the JSON of a SendMessageResponse."""
        link = self._link_for(send)
        with _deadline(seconds):
            for delay in LOSS_DELAYS:
                hello = link.hello
                try:
                    return await link.ask(send)
                except OutcomeUnknown:
                    send = msgspec.structs.replace(send, again=True)
                    await trio.sleep(delay)
                except A2AError as error:
                    await _wait_for_successor(link, hello, error)
        raise A2AError(ErrorKind.UNAVAILABLE)

    @asynccontextmanager
    async def stream(self, call: Send | Subscribe, seconds: float) -> AsyncIterator[ResumingStream]:
        """Open a stream that outlives the links under it.

        `seconds` bounds the wait for acceptance; a refusal raises `A2AError` on entering.
        """
        stream = ResumingStream(self._link_for(call), call, self._files.get(call.workspace))
        with _deadline(seconds):
            await stream.open()
        try:
            yield stream
        finally:
            stream.close()

    async def get_task(self, call: GetTask, seconds: float) -> Raw:
        """Return the JSON of a task: of a finished one from its file, else from its owner."""
        files = self._files.get(call.workspace)
        # One at a time: a crowd of reads of large tasks, each a stretch of the event loop, must not stop the heart.
        async with self._reading:
            try:
                head = None if files is None else files.read_head(call.task_id)
            except OSError:
                raise A2AError(ErrorKind.UNAVAILABLE) from None
        if head is None or head.caller != call.caller:
            raise A2AError(ErrorKind.TASK_NOT_FOUND)
        if is_terminal(head.state) and head.timestamp < format_ms(SYSTEM.wall() - SETTLED_SECONDS):
            if call.history_length is None or len(head.parsed.history) <= call.history_length:
                return head.task
            return Raw(rendering.task_json(head.parsed, call.history_length))
        with _deadline(seconds):
            return await self._ask_again(self._link_by_task(call.task_id), call)

    async def list_tasks(self, call: ListTasks, seconds: float) -> ListPage:
        """Return one page merged over all slots; a slot that does not answer makes the whole answer unavailable."""
        pages: list[ListPage] = []

        async def ask_one(link: SlotLink) -> None:
            pages.append(_decode_page(await self._ask_again(link, call)))

        with _deadline(seconds):
            refusal: A2AError | None = None
            try:
                async with trio.open_nursery() as nursery:
                    for link in self._links:
                        nursery.start_soon(ask_one, link)
            except* A2AError as group:
                refusal = _first(group)  # raised from in here it would come out as a group again
            if refusal is not None:
                raise refusal
        rows: list[ListRow] = [row for page in pages for row in page.rows]
        # Below the last row of a slot that has more, nobody knows yet what comes first.
        known = max((_key(page.rows[-1]) for page in pages if page.cut and page.rows), default=("", ""))
        merged = sorted((row for row in rows if _key(row) >= known), key=_key, reverse=True)
        cut = any(page.cut for page in pages) or len(merged) > call.limit
        return ListPage(sum(page.total for page in pages), merged[: call.limit], cut)

    async def cancel_task(self, call: CancelTask, seconds: float) -> Raw:
        """Cancel a task; return its JSON. A cancel whose answer was lost is answered from what became of the task."""
        link = self._link_by_task(call.task_id)
        with _deadline(seconds):
            for delay in LOSS_DELAYS:
                try:
                    return await link.ask(call)
                except OutcomeUnknown:
                    await trio.sleep(delay)
                    look = GetTask(workspace=call.workspace, caller=call.caller, task_id=call.task_id)
                    task = await self._ask_again(link, look)
                    state = _decode_task(task).status.state
                    if state is TaskState.CANCELED:
                        return task
        raise A2AError(ErrorKind.UNAVAILABLE)

    def _link_for(self, call: Send | Subscribe) -> SlotLink:
        if isinstance(call, Send) and call.new:
            return self._links[shard_of(call.caller, call.context_id) % len(self._links)]
        return self._link_by_task(call.task_id)

    def _link_by_task(self, task_id: str) -> SlotLink:
        shard = shard_of_task_id(task_id)
        if shard is None:
            raise A2AError(ErrorKind.TASK_NOT_FOUND)
        return self._links[shard % len(self._links)]

    @staticmethod
    async def _ask_again(link: SlotLink, call: GetTask | ListTasks) -> Raw:
        for delay in LOSS_DELAYS:
            try:
                return await link.ask(call)
            except OutcomeUnknown:
                await trio.sleep(delay)
        raise A2AError(ErrorKind.UNAVAILABLE)


class ResumingStream:
    """A stream of one task (`actors.owners_port.EventStream`) that goes on over the next link when one breaks.

    What a new link begins with is a snapshot; a reader who has seen a task already gets it as the artifacts and the
    state it holds, so that a stream never has two beginnings, and no stored version twice.
    """

    def __init__(self, link: SlotLink, call: Send | Subscribe, files: TaskFiles | None) -> None:
        self._link = link
        self._call = call
        self._files = files
        self._stream: LinkStream | _Over | None = None
        self._version = 0
        self._begun = False
        self._reopened = False
        self._resumed: list[Event] = []

    async def open(self) -> None:
        """Have the stream accepted; a link that breaks before that is waited for.

        Raises:
            A2AError: refused.
        """
        for delay in LOSS_DELAYS:
            hello = self._link.hello
            try:
                self._stream = await self._link.open_stream(self._call)
            except OutcomeUnknown:
                self._again()
                await trio.sleep(delay)
            except A2AError as error:
                await _wait_for_successor(self._link, hello, error)
            else:
                return
        raise A2AError(ErrorKind.UNAVAILABLE)

    async def receive(self) -> Event | End:
        """Return the next event; `End` is the last. A cancelled call loses nothing."""
        while True:  # noqa: ASYNC913 - each turn waits, or returns what is there
            if self._resumed:
                return self._resumed.pop(0)
            if self._stream is None:
                await self._reopen()
                continue
            try:
                frame = await self._stream.receive()
            except OutcomeUnknown:
                self._stream = None
                self._again()
                continue
            except A2AError:
                self._stream = _Over("lost")
                continue
            if isinstance(frame, End):
                return frame
            if self._reopened:
                self._reopened = False
                self._resumed = self._since(frame)
                continue
            self._version = max(self._version, frame.version)
            self._begun = True
            return frame

    def close(self) -> None:
        """Leave."""
        if self._stream is not None:
            self._stream.close()

    def _again(self) -> None:
        if isinstance(self._call, Send):
            self._call = msgspec.structs.replace(self._call, again=True)

    async def _reopen(self) -> None:
        """Open on the next link; what it begins with is turned into what a reader who has begun does not know yet."""
        try:
            await self.open()
        except A2AError as error:
            if self._begun and error.kind is ErrorKind.UNSUPPORTED_OPERATION and self._read_end():
                return
            self.close()
            self._stream = _Over("lost")
            return
        self._reopened = self._begun

    def _since(self, first: Event) -> list[Event]:
        task = _decode_event(first.payload).task
        return self._news(task, first.version) if isinstance(task, Task) else [first]

    def _read_end(self) -> bool:
        """The task ended while no link was up: take its end from the file. Returns False when it is not there."""
        head = None if self._files is None else self._files.read_head(self._call.task_id)
        if head is None or head.caller != self._call.caller or not is_terminal(head.state):
            return False
        self._resumed = self._news(head.parsed, head.version)
        self._stream = _Over("")
        return True

    def _news(self, task: Task, version: int) -> list[Event]:
        events = [
            Event(id=0, payload=Raw(rendering.artifact_event(task, artifact, append=False, last_chunk=False)))
            for artifact in task.artifacts
        ]
        if version > self._version:
            self._version = version
            events.append(Event(id=0, version=version, payload=Raw(rendering.status_event(task))))
        return events


class _Over:
    """A stream that has only its end left."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def receive(self) -> Event | End:
        await trio.lowlevel.checkpoint()
        return End(id=0, reason=self._reason)

    def close(self) -> None:
        """Nothing is open."""


async def _wait_for_successor(link: SlotLink, hello: Hello | None, error: A2AError) -> None:
    """Return when a slot that takes no new run, because it is being replaced, is served by its successor.

    Raises:
        A2AError: `error`, when it says anything else; UNAVAILABLE, when no successor will come.
        trio.TooSlowError: none came in time.
    """
    if error.kind is not ErrorKind.SUCCESSOR:
        raise error
    if link.draining:
        raise A2AError(ErrorKind.UNAVAILABLE)
    if hello is not None:
        with trio.fail_after(SUCCESSOR_SECONDS):
            await link.successor(hello.boot, hello.incarnation)


def _key(row: ListRow) -> tuple[str, str]:
    return row.timestamp, row.task_id


def _first(group: BaseExceptionGroup[A2AError]) -> A2AError:
    """Return one of several refusals: a caller is told one reason."""
    found = group.exceptions[0]
    return found if isinstance(found, A2AError) else _first(found)


@contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    """Bound a call; one that is over it is told to the caller as unavailable."""
    try:
        with trio.fail_after(seconds):
            yield
    except trio.TooSlowError:
        raise A2AError(ErrorKind.UNAVAILABLE) from None
