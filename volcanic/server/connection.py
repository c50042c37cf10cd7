"""One connection: hypercorn's TCP server with bounded writes, deadlines of its own, and an end that loses no response.

Differences from the stock server, each for a failure seen with it:
- a write that makes no progress for `send_seconds` drops the peer (the stock write is shielded without a deadline, so
  that one client that stops reading keeps a worker from ever stopping);
- the idle timeout is a deadline on the reading scope, not a task that is started and cancelled for each request;
- a connection that is closed with request bytes unread lingers, half-closed, so that the peer reads the response
  instead of a reset.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import structlog
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.h11 import H2ProtocolAssumedError
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from volcanic.server.http1 import Http1
from volcanic.server.http2 import Http2
from volcanic.server.settings import ListenerSettings
from volcanic.server.transport import Address, Transport, peer_addresses, peer_has_closed

SEND_CHUNK = 64 * 1024
"""A peer must take this many bytes within `send_seconds`."""
HALF_CLOSE_SECONDS = 0.25
"""How long a request may still be answered when the client has closed its sending half; then it counts as gone."""
SHORT_LINGER_SECONDS = 0.1
"""How long a connection lingers whose client has nothing left to send."""
LINGER_BYTES = 1024 * 1024
"""How much of an unwanted request is read and thrown away before the connection is closed."""
_LOST = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)

_log = structlog.get_logger("volcanic.server")


class Spawner(TaskGroup):
    """The connection's nursery as hypercorn's protocols see it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        super().__init__()
        self._nursery = nursery


class Protocols(ProtocolWrapper):
    """Chooses between the guarded HTTP/1.1 and HTTP/2."""

    def __init__(
        self, server: Connection, spawner: Spawner, addresses: tuple[Address, Address], *, alpn: str, h2c: bool
    ) -> None:
        client, address = addresses
        self._arguments: tuple[Any, ...] = (
            server.app,
            server.config,
            server.context,
            spawner,
            ConnectionState(server.state),
            server.transport.secure,
            client,
            address,
            server.protocol_send,
        )
        self.protocol = Http2(*self._arguments) if alpn == "h2" else Http1(*self._arguments)
        if isinstance(self.protocol, Http1):
            self.protocol.allow_h2c = h2c
            self.protocol.peer_has_closed = partial(peer_has_closed, server.transport.sock)

    async def handle(self, event: Any) -> None:
        """Pass the event on; an HTTP/2 preface on an HTTP/1.1 connection changes the protocol."""
        try:
            await self.protocol.handle(event)
        except H2ProtocolAssumedError as assumed:
            self.protocol = Http2(*self._arguments)
            await self.protocol.initiate()
            await self.protocol.handle(RawData(data=assumed.data))

    @property
    def speaks_http1(self) -> bool:
        """Whether this connection is (still) HTTP/1.1."""
        return isinstance(self.protocol, Http1)


class Connection(TCPServer):
    """One accepted connection. It owns `transport`, and every task it starts ends before `run` returns."""

    protocol: Protocols

    def __init__(
        self, app: Any, config: Config, context: WorkerContext, transport: Transport, settings: ListenerSettings
    ) -> None:
        super().__init__(app, config, context, {}, cast("Any", None))
        self.transport = transport
        self._settings = settings
        self._reader = trio.CancelScope()
        self._shaken = False
        self._dead = False
        self._discarded = -1
        self._settled = trio.lowlevel.ParkingLot()
        self.idle = True
        self._header_clock_runs = True

    async def run(self) -> None:
        """Serve the connection until either side closes it. Raises what its protocol code raises, never OSError."""
        try:
            alpn = await self._handshake()
            if alpn is None:
                return
            addresses = peer_addresses(self.transport.sock)  # raises OSError for a peer that is gone already
            async with trio.open_nursery() as nursery:
                self.protocol = Protocols(self, Spawner(nursery), addresses, alpn=alpn, h2c=self._settings.h2c)
                self._shaken = True
                await self.protocol.protocol.initiate()
                self._reader.deadline = trio.current_time() + self._settings.header_seconds
                with self._reader:
                    await self._read_data()
                await self._finish_after_half_close()
                await self._say_goodbye()
                await self.protocol.handle(Closed())
                nursery.cancel_scope.cancel()
        except OSError:
            pass
        finally:
            self.transport.close()

    async def _handshake(self) -> str | None:
        try:
            with trio.fail_after(self._settings.header_seconds):
                return await self.transport.handshake()
        except (*_LOST, trio.TooSlowError):
            return None

    async def _finish_after_half_close(self) -> None:
        """Give what is being answered a moment: the peer may have closed its sending half only."""
        if not self.idle and not self._dead and self._discarded < 0:
            with trio.move_on_after(HALF_CLOSE_SECONDS):
                await self._settled.park()

    async def _read_data(self) -> None:
        while data := await self.transport.receive():
            if self._discarded < 0:
                await self.protocol.handle(RawData(data=data))
                if self.idle and not self._header_clock_runs and self.protocol.speaks_http1:
                    # Part of a request head: the rest of it must come soon.
                    self._header_clock_runs = True
                    self._reader.deadline = trio.current_time() + self._settings.header_seconds
            else:
                self._discarded += len(data)
                if self._discarded > LINGER_BYTES:
                    return

    async def protocol_send(self, event: Event) -> None:
        """Take one event of the protocol: bytes to write, the end, or a change between idle and busy."""
        if isinstance(event, RawData):
            await self._write(event.data)
        elif isinstance(event, Updated):
            self._set_idle(idle=event.idle)
        elif isinstance(event, Closed):
            self._begin_linger()
            await self.protocol.handle(Closed())

    def _set_idle(self, *, idle: bool) -> None:
        if idle and self.context.terminated.is_set():
            self._begin_linger()
        elif idle is not self.idle:
            self._reader.deadline = trio.current_time() + self._settings.keep_alive_seconds if idle else float("inf")
        self.idle = idle
        self._header_clock_runs = False
        if idle:
            self._settled.unpark_all()

    async def _write(self, data: bytes) -> None:
        if not data or self._dead:
            return
        try:
            self.send_lock.acquire_nowait()
        except trio.WouldBlock:
            with trio.CancelScope(shield=True):  # the holder is bounded
                await self.send_lock.acquire()
        try:
            # Half a frame on the wire ruins the connection for its other streams: finish it whoever is cancelled.
            sent = self.transport.try_send(data)
            if sent < len(data):
                await self._write_slowly(memoryview(data)[sent:])
        except _LOST:
            await self._lose()
        finally:
            self.send_lock.release()

    async def _write_slowly(self, data: memoryview) -> None:
        while data:
            with trio.CancelScope(shield=True) as scope:
                scope.deadline = trio.current_time() + self._settings.send_seconds
                await self.transport.send(data[:SEND_CHUNK])
            if scope.cancelled_caught:
                _log.info("dropped a client that does not read")
                await self._lose()
                return
            data = data[SEND_CHUNK:]

    async def _lose(self) -> None:
        self.abort()
        await self.protocol.handle(Closed())

    def _begin_linger(self) -> None:
        if self._discarded >= 0:
            return
        self._discarded = 0
        self._settled.unpark_all()
        if not self._dead and self.transport.send_eof():
            seconds = self._settings.linger_seconds if self._expects_more() else SHORT_LINGER_SECONDS
            self._reader.deadline = trio.current_time() + seconds
        else:
            self._reader.cancel()

    @property
    def evictable(self) -> bool:
        """Whether nothing would be lost by closing it: no request, not even part of one."""
        return self.idle and self._discarded < 0 and not self._header_clock_runs

    def _expects_more(self) -> bool:
        return self._shaken and isinstance(self.protocol.protocol, Http1) and self.protocol.protocol.request_incomplete

    async def drain(self) -> None:
        """Close now if idle, saying so where the protocol can; a busy connection closes after its last response."""
        if not self.idle or self._discarded >= 0:
            return
        await self._say_goodbye()
        self._begin_linger()

    async def _say_goodbye(self) -> None:
        if self._shaken and not self._dead and isinstance(self.protocol.protocol, Http2):
            await self._write(self.protocol.protocol.goodbye())

    def abort(self) -> None:
        """Drop the connection at once, whatever it is doing."""
        self._dead = True
        self._settled.unpark_all()
        self.transport.abort()
        self._reader.cancel()
