"""Owners and cards in memory, as the server's ports describe them."""

from __future__ import annotations

from contextlib import asynccontextmanager

import msgspec
import trio
from msgspec import Raw

from actors.messages import End, Event, ListPage
from volcanic.protocol.errors import A2AError, ErrorKind
from volcanic.server.cards import OwnCard

TASK_ID = "3f000000-0000-4000-8000-000000000001"


def task(state: str = "TASK_STATE_COMPLETED", task_id: str = TASK_ID, **members) -> Raw:
    status = {"state": state, "timestamp": "2026-12-01T09:30:00.000Z"}
    return Raw(msgspec.json.encode({"id": task_id, "contextId": "c", "status": status, **members}))


class FakeStream:
    """Events handed out one by one; `more` may be sent to while the stream is open."""

    def __init__(self, *events: Event | End) -> None:
        self.more, self._inbox = trio.open_memory_channel[Event | End](10_000)
        for event in events:
            self.more.send_nowait(event)

    async def receive(self) -> Event | End:
        return await self._inbox.receive()


def event(payload: bytes, version: int = 0) -> Event:
    return Event(id=1, version=version, payload=Raw(payload))


class FakeOwners:
    """Records every call and answers as told; `left` says which calls were cancelled by their caller's leaving."""

    def __init__(self) -> None:
        self.calls: list = []
        self.left: list = []
        self.is_ready = True
        self.refusal: A2AError | None = None
        self.failure: Exception | None = None
        self.hold: trio.Event | None = None
        self.page = ListPage(total=0, rows=[])
        self.streams: list[FakeStream] = []
        self.called = trio.Event()
        self.gone = trio.Event()
        self._changed = trio.lowlevel.ParkingLot()

    async def until(self, condition) -> None:
        while not condition(self):
            await self._changed.park()

    def _tell(self, call, told: trio.Event, calls: list) -> None:
        calls.append(call)
        told.set()
        self._changed.unpark_all()

    def ready(self) -> bool:
        return self.is_ready

    async def _take(self, call, seconds):
        self._tell((call, seconds), self.called, self.calls)
        await trio.lowlevel.checkpoint()
        if self.refusal is not None:
            raise self.refusal
        if self.failure is not None:
            raise self.failure
        if self.hold is not None:
            try:
                await self.hold.wait()
            except trio.Cancelled:
                self._tell(call, self.gone, self.left)
                raise

    async def send_message(self, send, seconds):
        await self._take(send, seconds)
        return Raw(b'{"task":' + bytes(task(task_id=send.task_id)) + b"}")

    @asynccontextmanager
    async def stream(self, call, seconds):
        self._tell((call, seconds), self.called, self.calls)
        await trio.lowlevel.checkpoint()
        if self.refusal is not None:
            raise self.refusal
        try:
            yield self.streams.pop(0)
        finally:
            self._tell(call, self.gone, self.left)

    async def get_task(self, call, seconds):
        await self._take(call, seconds)
        if call.task_id != TASK_ID:
            raise A2AError(ErrorKind.TASK_NOT_FOUND)
        return task()

    async def list_tasks(self, call, seconds):
        await self._take(call, seconds)
        return self.page

    async def cancel_task(self, call, seconds):
        await self._take(call, seconds)
        return task("TASK_STATE_CANCELED", call.task_id)


class FakeCards:
    def __init__(self) -> None:
        self.own = OwnCard()

    def own_card(self, _workspace: str) -> OwnCard:
        return self.own
