"""The accept loop: every connection in its own guard, so that nothing one client does reaches another.

`serve` owns the listening sockets it is given and every connection it accepts; when it returns, all of them are closed.
"""

from __future__ import annotations

import errno
import math
import socket
from collections.abc import Awaitable, Callable, Sequence
from time import time
from typing import Any
from wsgiref.handlers import format_date_time

import structlog
import trio
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext

from volcanic.server.connection import Connection
from volcanic.server.settings import ListenerSettings
from volcanic.server.tls import server_context
from volcanic.server.transport import PlainTransport, TlsTransport, Transport

ACCEPT_BURST = 64
"""Connections taken per wake-up before other tasks get their turn."""
FULL_SECONDS = 0.1
"""How long accepting pauses when the process or the machine is out of descriptors or memory."""
QUIET_SECONDS = 10.0
"""How long a warning about a full server is not repeated."""
_FULL = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}

App = Callable[[Any, Any, Any], Awaitable[None]]
Admit = Callable[[socket.socket], bool]


def admit_all(sock: socket.socket) -> bool:  # noqa: ARG001 - the shape of `Admit`
    """Serve every peer."""
    return True


_log = structlog.get_logger("volcanic.server")


class HttpConfig(Config):
    """hypercorn's settings as this server needs them."""

    include_server_header = False
    errorlog = None
    keep_alive_max_requests = 10**9  # closing an HTTP/2 connection by count would cut its live streams
    h2_max_concurrent_streams = 100

    def __init__(self) -> None:
        self._second = -1
        self._headers: list[tuple[bytes, bytes]] = []

    def response_headers(self, protocol: str) -> list[tuple[bytes, bytes]]:  # noqa: ARG002 - same for every protocol
        """Return the Date header, made once a second."""
        second = int(time())
        if second != self._second:
            self._second = second
            self._headers = [(b"date", format_date_time(second).encode("ascii"))]
        return self._headers


class Listener:
    """The connections of one `serve` call."""

    def __init__(self, app: App, settings: ListenerSettings, admit: Admit) -> None:
        self._app = app
        self._admit = admit
        self._settings = settings
        self._config = HttpConfig()
        self._context = WorkerContext(None)
        self._tls = server_context(settings.certfile, settings.keyfile) if settings.certfile else None
        self.connections: set[Connection] = set()
        self._room = trio.lowlevel.ParkingLot()
        self._warned = -math.inf

    async def accept(self, listening: socket.socket, nursery: trio.Nursery) -> None:
        """Accept for ever; each connection becomes a guarded task of `nursery`."""
        while True:
            await trio.lowlevel.wait_readable(listening.fileno())
            for _ in range(ACCEPT_BURST):
                try:
                    sock, _ = listening.accept()
                except (BlockingIOError, InterruptedError):
                    break
                except OSError as error:
                    if error.errno in _FULL:
                        self._evict()
                        self._warn("cannot accept", error=error.strerror)
                        await trio.sleep(FULL_SECONDS)
                        break
                    continue  # that one client is gone already
                await self._wait_for_room(sock)
                self._start(sock, nursery)

    async def _wait_for_room(self, sock: socket.socket) -> None:
        """Wait until one more connection may be served; `sock` is closed when the wait is cancelled."""
        try:
            while len(self.connections) >= self._settings.connections and not self._evict():
                self._warn("connection limit reached; new connections wait", limit=self._settings.connections)
                with trio.move_on_after(FULL_SECONDS):  # one may also become idle
                    await self._room.park()
        except trio.Cancelled:
            sock.close()
            raise

    def _start(self, sock: socket.socket, nursery: trio.Nursery) -> None:
        try:
            sock.setblocking(False)
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            admitted = self._admit(sock)
        except OSError:
            admitted = False  # gone already
        if not admitted:
            sock.close()
            return
        transport: Transport = PlainTransport(sock) if self._tls is None else TlsTransport(sock, self._tls)
        connection = Connection(self._app, self._config, self._context, transport, self._settings)
        self.connections.add(connection)
        nursery.start_soon(self._guard, connection)

    async def _guard(self, connection: Connection) -> None:
        """Serve one connection; whatever goes wrong in it ends it alone."""
        try:
            await connection.run()
        except Exception as error:  # noqa: BLE001 - the edge of a connection: logged, and only it is lost
            _log.warning("connection failed", error=type(error).__name__, exc_info=error)
        except BaseExceptionGroup as group:
            cancelled, rest = group.split(trio.Cancelled)
            if rest is not None:
                _log.warning("connection failed", error=type(rest).__name__, exc_info=rest)
            if cancelled is not None:
                raise cancelled from None
        finally:
            connection.abort()
            self.connections.discard(connection)
            self._room.unpark_all()

    def _evict(self) -> bool:
        """Close an idle connection to make room; False when all are busy."""
        idle = next((connection for connection in self.connections if connection.evictable), None)
        if idle is None:
            return False
        idle.abort()
        self.connections.discard(idle)
        return True

    def _warn(self, event: str, **details: object) -> None:
        now = trio.current_time()
        if now - self._warned >= QUIET_SECONDS:
            self._warned = now
            _log.warning(event, **details)

    async def drain(self) -> None:
        """Let busy connections finish their responses for `drain_seconds`, close the idle ones now."""
        await self._context.terminated.set()
        with trio.move_on_after(self._settings.drain_seconds):
            async with trio.open_nursery() as nursery:
                for connection in list(self.connections):
                    nursery.start_soon(connection.drain)
            while self.connections:
                await self._room.park()

    def abort(self) -> None:
        """Drop every connection at once."""
        for connection in list(self.connections):
            connection.abort()


async def serve(
    listening: Sequence[socket.socket],
    app: App,
    settings: ListenerSettings,
    stopping: trio.Event,
    *,
    on_drain: Callable[[], None] = lambda: None,
    admit: Admit = admit_all,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `app` on bound, listening sockets until `stopping` is set, then drain; closes the sockets.

    `on_drain` is called when the drain begins, so that the application can end what would never end by itself. `admit`
    sees each accepted socket and may turn it away (a Unix socket's peer credentials).
    Returns at latest `drain_seconds` after `stopping`, and at once when cancelled. Raises `CertificateError` when
    the certificate cannot be used.
    """
    listener = Listener(app, settings, admit)
    try:
        async with trio.open_nursery() as connections:
            try:
                async with trio.open_nursery() as accepting:
                    for sock in listening:
                        sock.setblocking(False)
                        accepting.start_soon(listener.accept, sock, connections)
                    task_status.started()
                    await stopping.wait()
                    accepting.cancel_scope.cancel()
                # A socket that is open takes clients whom nobody will serve.
                for sock in listening:
                    sock.close()
                on_drain()
                await listener.drain()
            finally:
                # A write to a client that does not read is shielded: without its socket it ends at once.
                listener.abort()
                connections.cancel_scope.cancel()
    finally:
        for sock in listening:
            sock.close()
