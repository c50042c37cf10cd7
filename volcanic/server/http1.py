"""HTTP/1.1 as hypercorn speaks it (h11), without the doors through which one client ends a worker.

Differences from the stock protocol: no WebSocket and no `Upgrade: h2c` (both requests are served as plain HTTP/1.1, as
RFC 9110 §7.8 allows), HTTP/2 by prior knowledge only when allowed, `100 Continue` only once the application wants
the body, a complete response in one write, and `Connection: close` on the last response of a drain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import h11
import trio
from hypercorn.events import Closed, RawData, Updated
from hypercorn.protocol.events import Body, EndBody, Event, Request, Response, StreamClosed
from hypercorn.protocol.h11 import STREAM_ID, H2ProtocolAssumedError, H11Protocol

from volcanic.server.exchange import Exchange, Headers, WholeResponse

_MALFORMED = b'{"error":{"code":%d,"status":"INVALID_ARGUMENT","message":"Malformed HTTP request"}}'
_CLOSE = (b"connection", b"close")
LOOK_SECONDS = 1.0
"""How often a client that pipelined more is looked after while its first response is being made."""


class Http1(H11Protocol):
    """One HTTP/1.1 connection's protocol state."""

    allow_h2c = False
    exchange: Exchange | None = None
    peer_has_closed: Callable[[], bool] = staticmethod(lambda: False)

    @property
    def request_incomplete(self) -> bool:
        """Whether the client may be sending more of a request that is already answered or refused."""
        return self.connection.their_state in {h11.SEND_BODY, h11.ERROR}

    async def _handle_events(self) -> None:
        connection = cast("h11.Connection", self.connection)
        while True:
            try:
                event = connection.next_event()
            except h11.RemoteProtocolError as error:
                await self._refuse(connection, error.error_status_hint)
                return
            kind = type(event)
            if kind is h11.Request:
                await self._start(cast("h11.Request", event))
            elif event is h11.PAUSED:
                # A pipelined request waits until the response before it is out.
                await self.can_read.clear()
                if not await self._response_is_out():
                    return
            elif event is h11.NEED_DATA or kind is h11.ConnectionClosed or self.exchange is None:
                return
            elif kind is h11.Data:
                await self.exchange.handle(Body(stream_id=STREAM_ID, data=cast("h11.Data", event).data))
            else:
                await self.exchange.handle(EndBody(stream_id=STREAM_ID))

    async def _response_is_out(self) -> bool:
        """Wait for the response before the pipelined request; False when its client is gone meanwhile.

        What was pipelined hides the end of the stream: nothing is read until its turn comes.
        """
        while True:
            with trio.move_on_after(LOOK_SECONDS):
                await self.can_read.wait()
                return True
            if self.peer_has_closed():
                return False

    async def _refuse(self, connection: h11.Connection, status: int) -> None:
        if connection.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            body = _MALFORMED % status
            headers: Headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), _CLOSE]
            await self._write(headers, status, body)
        await self.send(Closed())

    async def _start(self, request: h11.Request) -> None:
        if request.method == b"PRI":
            if self.allow_h2c and request.target == b"*" and request.http_version == b"2.0":
                trailing = cast("h11.Connection", self.connection).trailing_data[0]
                raise H2ProtocolAssumedError(b"PRI * HTTP/2.0\r\n\r\n" + trailing)
            await self._refuse(cast("h11.Connection", self.connection), 400)
            return
        if _is_framed_twice(request):
            await self._refuse(cast("h11.Connection", self.connection), 400)
            return
        await self.send(Updated(idle=False))
        self.exchange = Exchange(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )
        self.exchange.before_wait = self._send_continue
        self.stream = self.exchange
        await self.exchange.handle(
            Request(
                stream_id=STREAM_ID,
                headers=list(request.headers),
                http_version=request.http_version.decode("ascii"),
                method=request.method.decode("ascii").upper(),
                raw_path=request.target,
                state=self.connection_state,
            )
        )

    async def _send_continue(self) -> None:
        if cast("h11.Connection", self.connection).they_are_waiting_for_100_continue:
            await self._send_h11_event(h11.InformationalResponse(status_code=100, headers=[]))

    async def stream_send(self, event: Event) -> None:
        """Write one event of the exchange."""
        kind = type(event)
        if kind is WholeResponse:
            whole = cast("WholeResponse", event)
            await self._write(self._closing(whole.headers), whole.status_code, whole.body)
        elif kind is Response:
            response = cast("Response", event)
            headers = self._closing(response.headers) + self.config.response_headers("h11")
            await self._send_h11_event(h11.Response(headers=headers, status_code=response.status_code))
        elif kind is Body:
            await self._send_h11_event(h11.Data(data=cast("Body", event).data))
        elif kind is EndBody:
            await self._send_h11_event(h11.EndOfMessage())
        elif kind is StreamClosed:
            await self._maybe_recycle()

    def _closing(self, headers: Headers) -> Headers:
        # Not for a body that is still on its way: whether it is depends on packets, and equal answers must stay equal.
        return [*headers, _CLOSE] if self.context.terminated.is_set() else headers

    async def _write(self, headers: Headers, status: int, body: bytes) -> None:
        connection = cast("h11.Connection", self.connection)
        try:
            data = connection.send(
                h11.Response(headers=headers + self.config.response_headers("h11"), status_code=status)
            )
            if body:
                data += connection.send(h11.Data(data=body))
            data += connection.send(h11.EndOfMessage())
        except h11.LocalProtocolError:
            if connection.their_state is not h11.ERROR:
                raise
        else:
            await self.send(RawData(data=data))

    async def _close_stream(self) -> None:
        exchange, self.exchange = self.exchange, None
        self.stream = None
        if exchange is not None:
            await exchange.handle(StreamClosed(stream_id=STREAM_ID))


def _is_framed_twice(request: h11.Request) -> bool:
    """Whether the end of the body is told in two ways, or in one that HTTP/1.0 does not have (RFC 9112 §6.1, §6.3).

    Such a request is refused: what one reader takes for its body another takes for the next request.
    """
    names = {name for name, _ in request.headers}
    return b"transfer-encoding" in names and (b"content-length" in names or request.http_version < b"1.1")
