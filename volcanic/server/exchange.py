"""One request and its response: hypercorn's HTTP stream with a bounded body buffer and whole responses in one write.

Differences from the stock stream, each for a failure seen with it:
- the task that serves a request is cancelled when its client leaves, so that nobody works for a closed connection;
- the body waits in a byte-bounded buffer; a producer is held back at `BODY_BUFFER` (HTTP/1) or by its own flow-control
  window, which is returned only for bytes the application has taken (HTTP/2);
- head and body of a response that is complete go out as one event, hence one system call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote_to_bytes

import structlog
import trio
from hypercorn.protocol.events import Body, EndBody, Event, Request, Response, StreamClosed
from hypercorn.protocol.http_stream import ASGIHTTPState, HTTPStream
from hypercorn.typing import HTTPScope
from hypercorn.utils import suppress_body

BODY_BUFFER = 256 * 1024
"""Bytes of an HTTP/1 body that wait for the application before the connection stops reading."""

Headers = list[tuple[bytes, bytes]]

_log = structlog.get_logger("volcanic.server")


@dataclass(frozen=True)
class WholeResponse(Event):
    """A complete response: what the stock protocol gets as Response, Body and EndBody."""

    headers: Headers
    status_code: int
    body: bytes


@dataclass(frozen=True)
class Refused(Event):
    """The response is complete although the request body is not: the rest of the body is unwanted."""


class Exchange(HTTPStream):
    """One request being served, owned by its connection's protocol; its task runs in the connection's nursery."""

    before_wait: Callable[[], Awaitable[None]] | None = None
    """Awaited before the application first waits for body bytes (HTTP/1 sends `100 Continue` there)."""
    on_consumed: Callable[[int, int], Awaitable[None]] | None = None
    """Told (stream id, bytes) when the application takes body bytes (HTTP/2 returns window there)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cancel = trio.CancelScope()
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._body_complete = False
        self._body_taken = False
        self._changed = trio.lowlevel.ParkingLot()
        self._head: tuple[int, Headers] | None = None

    @property
    def buffered(self) -> int:
        """Body bytes that have arrived and were not taken."""
        return self._buffered

    async def handle(self, event: Event) -> None:
        """Take one event of the protocol: the request, a piece of its body, its end, or the stream's end."""
        if self.closed:
            return
        if isinstance(event, Body):
            self._chunks.append(bytes(event.data))
            self._buffered += len(event.data)
            self._wake()
            while self.on_consumed is None and self._buffered > BODY_BUFFER and not self.closed:
                await self._changed.park()
        elif isinstance(event, EndBody):
            self._body_complete = True
            self._wake()
        elif isinstance(event, StreamClosed):
            self.closed = True
            self._wake()
            if self.state is not ASGIHTTPState.CLOSED:
                self._cancel.cancel()
        elif isinstance(event, Request):
            self.scope = self._scope_of(event)
            self.task_group.spawn(self._run)

    def _wake(self) -> None:
        if self._changed:
            self._changed.unpark_all()

    def _scope_of(self, event: Request) -> HTTPScope:
        target = event.raw_path
        if not target.startswith(b"/") and b"://" in target:
            # A request line may name the resource in absolute form (RFC 9112 §3.2.2).
            _, _, rest = target.partition(b"://")
            before_query, mark, after_query = rest.partition(b"?")
            target = b"/" + before_query.partition(b"/")[2] + mark + after_query
        path, _, query = target.partition(b"?")
        text = path.decode("latin-1") if b"%" not in path else unquote_to_bytes(path).decode("utf-8", "replace")
        return cast(
            "HTTPScope",
            {
                "type": "http",
                "http_version": event.http_version,
                "asgi": {"spec_version": "2.1", "version": "3.0"},
                "method": event.method,
                "scheme": self.scheme,
                "path": text,
                "raw_path": path,
                "query_string": query,
                "root_path": "",
                "headers": event.headers,
                "client": self.client,
                "server": self.server,
                "extensions": {},
            },
        )

    async def _run(self) -> None:
        try:
            with self._cancel:
                await cast("Any", self.app)(self.scope, self.receive, self.app_send)
        except Exception:  # noqa: BLE001 - the edge of a request: logged, and only it is lost
            _log.exception("request failed", path=self.scope["path"])
        await self.app_send(None)

    async def receive(self) -> dict[str, Any]:
        """Be the ASGI `receive`: body bytes as they come, several arrivals joined; then `http.disconnect`."""
        while not self.closed:
            if self._chunks or (self._body_complete and not self._body_taken):
                return await self._take()
            if not self._body_taken and self.before_wait is not None:
                await self.before_wait()
            await self._changed.park()
        return {"type": "http.disconnect"}

    async def _take(self) -> dict[str, Any]:
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._buffered = 0
        self._body_taken = self._body_complete
        self._wake()
        if body and self.on_consumed is not None:
            await self.on_consumed(self.stream_id, len(body))
        return {"type": "http.request", "body": body, "more_body": not self._body_complete}

    async def app_send(self, message: Any) -> None:
        """Be the ASGI `send`; None says that the application has returned."""
        if self.closed:
            return
        if message is None:
            if self.state is ASGIHTTPState.REQUEST:
                await self._send_error_response(500)
            await self.send(StreamClosed(stream_id=self.stream_id))
        elif message["type"] == "http.response.start" and self.state is ASGIHTTPState.REQUEST:
            self._head = (int(message["status"]), list(message.get("headers", ())))
            self.state = ASGIHTTPState.RESPONSE
        elif message["type"] == "http.response.body" and self.state is ASGIHTTPState.RESPONSE:
            await self._send_body(bytes(message.get("body", b"")), more=bool(message.get("more_body", False)))
        else:
            raise RuntimeError(f"unexpected ASGI message {message['type']} in state {self.state}")

    async def _send_body(self, body: bytes, *, more: bool) -> None:
        head, self._head = self._head, None
        if head is not None:
            status, headers = head
            self._suppress = suppress_body(self.scope["method"], status)
            if not more:
                self.state = ASGIHTTPState.CLOSED
                whole = b"" if self._suppress else body
                await self.send(WholeResponse(self.stream_id, headers, status, whole))
                await self._finish()
                return
            await self.send(Response(stream_id=self.stream_id, headers=headers, status_code=status))
        if body and not self._suppress:
            await self.send(Body(stream_id=self.stream_id, data=body))
        if not more:
            self.state = ASGIHTTPState.CLOSED
            await self.send(EndBody(stream_id=self.stream_id))
            await self._finish()

    async def _finish(self) -> None:
        if not self._body_complete:
            await self.send(Refused(stream_id=self.stream_id))
        await self.send(StreamClosed(stream_id=self.stream_id))

    async def _send_error_response(self, status_code: int) -> None:
        self.state = ASGIHTTPState.CLOSED
        await self.send(WholeResponse(self.stream_id, [(b"content-length", b"0")], status_code, b""))
