"""HTTP/2 as hypercorn speaks it (h2), without what lets one client end a worker or fill its memory.

Differences from the stock protocol: a stream's send buffer holds its writer back however the client plays with its
windows, and a client that takes nothing for `send_seconds` loses that stream; DATA for a stream that is already
answered gives its window back instead of raising; PRIORITY frames are ignored; a malformed request resets its own
stream; CONNECT is refused; during a drain a new stream is refused as safe to retry.
"""

from __future__ import annotations

from typing import Any, cast

import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import trio
from hypercorn.events import Closed, Updated
from hypercorn.protocol.events import Body, EndBody, Event, Request, Response, StreamClosed
from hypercorn.protocol.h2 import BUFFER_HIGH_WATER, BufferCompleteError, H2Protocol, StreamBuffer
from hypercorn.utils import filter_pseudo_headers

from volcanic.server.exchange import Exchange, Refused, WholeResponse

BREATH = 32
"""Events of one packet between two looks at what else there is to do."""
RESETS_ALLOWED = 300
"""Streams a client may reset on one connection within `RESETS_SECONDS` before it is taken for a flood and closed."""
RESETS_SECONDS = 60.0
STALL_SECONDS = 10.0
"""How long a client may take nothing of a stream that has data for it."""

_TCHAR = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class StalledError(Exception):
    """The client took nothing of this stream for `STALL_SECONDS`."""


class BoundedBuffer(StreamBuffer):
    """A stream's outgoing bytes: `push` waits while the buffer is above its high-water mark."""

    async def push(self, data: bytes) -> None:
        """Add `data`, then wait until there is room again."""
        if self._complete:
            raise BufferCompleteError
        self.buffer.extend(data)
        await self._is_empty.clear()
        while len(self.buffer) >= BUFFER_HIGH_WATER and not self._complete:
            await self._progress()

    async def pop(self, max_length: int) -> bytes:
        """Take at most `max_length` bytes for the wire."""
        data = await super().pop(max_length)
        if data:
            await self._paused.set()
        return data

    async def drain(self) -> None:
        """Wait until everything is sent."""
        while self.buffer:
            before = len(self.buffer)
            with trio.move_on_after(STALL_SECONDS):
                await self._is_empty.wait()
            if self.buffer and len(self.buffer) >= before:
                raise StalledError
        await self._is_empty.wait()

    async def _progress(self) -> None:
        before = len(self.buffer)
        with trio.move_on_after(STALL_SECONDS):
            while len(self.buffer) >= before and not self._complete:
                await self._paused.clear()
                await self._paused.wait()
            return
        raise StalledError


class Http2(H2Protocol):
    """One HTTP/2 connection's protocol state."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._resets = 0
        self._resets_since = trio.current_time()

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        for number, event in enumerate(events):
            if number % BREATH == BREATH - 1:
                await trio.lowlevel.checkpoint()  # one packet can open a thousand streams
            if isinstance(event, h2.events.RequestReceived):
                await self._open(event)
            elif isinstance(event, h2.events.DataReceived):
                await self._take_data(event)
            elif isinstance(event, h2.events.StreamEnded):
                stream = self.streams.get(event.stream_id)
                if stream is not None:
                    await stream.handle(EndBody(stream_id=event.stream_id))
            elif isinstance(event, h2.events.StreamReset):
                await self._take_reset(event.stream_id)
            elif isinstance(event, h2.events.WindowUpdated):
                await self._window_updated(event.stream_id)
            elif isinstance(event, h2.events.RemoteSettingsChanged):
                if h2.settings.SettingCodes.INITIAL_WINDOW_SIZE in event.changed_settings:
                    await self._window_updated(None)
            elif isinstance(event, h2.events.ConnectionTerminated):
                await self.send(Closed())
                return
        await self._flush()

    async def _open(self, event: h2.events.RequestReceived) -> None:
        stream_id = event.stream_id
        if self.context.terminated.is_set():
            self.connection.reset_stream(stream_id, h2.errors.ErrorCodes.REFUSED_STREAM)
            return
        headers = event.headers
        named = dict(headers)
        method, path = named.get(b":method", b""), named.get(b":path", b"")
        if not _servable(method, path):
            self.connection.reset_stream(stream_id, h2.errors.ErrorCodes.PROTOCOL_ERROR)
            return
        await self.send(Updated(idle=False))
        exchange = Exchange(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            stream_id,
        )
        exchange.on_consumed = self._return_window
        self.streams[stream_id] = exchange
        self.stream_buffers[stream_id] = BoundedBuffer(self.context.event_class)
        self.priority.insert_stream(stream_id)
        self.priority.block(stream_id)
        await exchange.handle(
            Request(
                stream_id=stream_id,
                headers=filter_pseudo_headers(headers),
                http_version="2",
                method=method.decode("ascii").upper(),
                raw_path=path,
                state=self.connection_state,
            )
        )

    async def _take_data(self, event: h2.events.DataReceived) -> None:
        stream_id = event.stream_id
        data = event.data
        padding = event.flow_controlled_length
        stream = self.streams.get(stream_id)
        if stream is not None:
            # The window of the bytes themselves goes back when the application takes them.
            padding -= len(data)
            await stream.handle(Body(stream_id=stream_id, data=data))
        if padding:
            self.connection.acknowledge_received_data(padding, stream_id)

    async def _return_window(self, stream_id: int, size: int) -> None:
        try:
            self.connection.acknowledge_received_data(size, stream_id)
        except h2.exceptions.ProtocolError:
            return
        await self._flush()

    async def _take_reset(self, stream_id: int) -> None:
        now = trio.current_time()
        if now - self._resets_since > RESETS_SECONDS:
            self._resets, self._resets_since = 0, now
        self._resets += 1
        if self._resets > RESETS_ALLOWED:
            self.connection.close_connection(h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
            await self._flush()
            await self.send(Closed())
            return
        await self._close_stream(stream_id)
        await self._window_updated(stream_id)

    async def stream_send(self, event: Event) -> None:
        """Write one event of an exchange."""
        stream_id = event.stream_id
        try:
            if isinstance(event, WholeResponse):
                await super().stream_send(
                    Response(stream_id=stream_id, headers=event.headers, status_code=event.status_code)
                )
                if event.body:
                    await super().stream_send(Body(stream_id=stream_id, data=event.body))
                await super().stream_send(EndBody(stream_id=stream_id))
            elif isinstance(event, Refused):
                await self._refuse_rest(stream_id)
            else:
                await super().stream_send(cast("Any", event))
        except StalledError:
            await self._reset(stream_id, h2.errors.ErrorCodes.CANCEL)
            await self._close_stream(stream_id)
            await self._window_updated(stream_id)

    async def _refuse_rest(self, stream_id: int) -> None:
        """Ask for no more of the body (RFC 9113 §8.1), once the response is out to its last frame."""
        if stream_id not in self.stream_buffers:
            await self._reset(stream_id, h2.errors.ErrorCodes.NO_ERROR)

    async def _reset(self, stream_id: int, code: h2.errors.ErrorCodes) -> None:
        try:
            self.connection.reset_stream(stream_id, code)
        except h2.exceptions.ProtocolError:
            return
        await self._flush()

    async def _close_stream(self, stream_id: int) -> None:
        stream = cast("Exchange | None", self.streams.pop(stream_id, None))
        if stream is None:
            return
        await stream.handle(StreamClosed(stream_id=stream_id))
        await self.has_data.set()
        if stream.buffered:
            # Bytes that nobody will read any more would keep their share of the connection's window for ever.
            await self._return_window(stream_id, stream.buffered)

    def goodbye(self) -> bytes:
        """Return the frames that tell the client to open no more streams here."""
        self.connection.close_connection()
        return self.connection.data_to_send()


def _servable(method: bytes, path: bytes) -> bool:
    return bool(method) and _TCHAR.issuperset(method) and method != b"CONNECT" and path[:1] == b"/" and path.isascii()
