"""Streams out: an owner's events as server-sent events, with a comment on a quiet stream (design: "Quiet streams").

A reader that does not keep up is dropped by itself: the owner ends a stream whose credit is used up, and a write that
makes no progress drops the connection. A stream that reached its natural end, or that a stopping service cannot go on
with, is ended properly; any other is cut off, so that its client can tell.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import structlog
import trio

from actors.messages import End
from actors.owners_port import EventStream
from volcanic.protocol import sse
from volcanic.protocol.errors import A2AError, ErrorKind
from volcanic.server.http import HttpRequest

_PROPER = frozenset({"", "drain"})
"""Reasons of an owner's for which a stream is ended properly: the task is over, or the whole service stops."""

_log = structlog.get_logger("volcanic.server")


class Streams:
    """The live streams of this process."""

    def __init__(self, comment_seconds: float) -> None:
        self._comment_seconds = comment_seconds
        self._live: set[trio.CancelScope] = set()
        self._draining = trio.Event()

    async def pump(
        self, request: HttpRequest, opening: AbstractAsyncContextManager[EventStream], prefix: bytes, suffix: bytes
    ) -> None:
        """Open a stream and send its events, each between `prefix` and `suffix`, until it ends.

        Raises:
            A2AError: the stream was refused; nothing has been sent.
        """
        if self._draining.is_set():
            raise A2AError(ErrorKind.UNAVAILABLE)
        async with opening as events:
            await request.start_events()
            with trio.CancelScope() as scope:
                self._live.add(scope)
                if self._draining.is_set():  # since the stream was asked for
                    scope.cancel()
                try:
                    if await self._send_events(request, events, prefix, suffix):
                        await request.end_events()
                finally:
                    self._live.discard(scope)
            if scope.cancelled_caught:
                await request.end_events()

    async def _send_events(self, request: HttpRequest, events: EventStream, prefix: bytes, suffix: bytes) -> bool:
        while True:
            with trio.move_on_after(self._comment_seconds) as quiet:
                event = await events.receive()
            if quiet.cancelled_caught:
                await request.send_piece(sse.KEEPALIVE)
            elif isinstance(event, End):
                if event.reason not in _PROPER:
                    _log.info("stream cut off", reason=event.reason)
                return event.reason in _PROPER
            else:
                data = b"".join((prefix, event.payload, suffix))
                await request.send_piece(sse.encode_event(data, str(event.version) if event.version else None))

    def drain(self) -> None:
        """End every stream, now and from now on: this process is stopping and its clients reconnect to another."""
        self._draining.set()
        for scope in self._live:
            scope.cancel()
