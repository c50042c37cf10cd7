"""The bytes of one accepted connection, plain or TLS, with the few operations the HTTP connection needs.

Both forms own their socket: `close` or `abort` ends it, may be called twice, and wakes whoever waits on it.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from typing import Protocol

import trio

RECEIVE_BYTES = 64 * 1024
_NO_LINGER = struct.pack("ii", 1, 0)

Address = tuple[str, int] | None


class Transport(Protocol):
    """A byte stream. A lost peer shows as `b""` from `receive`, and as `OSError` or a trio resource error elsewhere."""

    secure: bool
    sock: socket.socket

    async def handshake(self) -> str:
        """Make the stream ready; return the protocol that ALPN chose."""

    async def receive(self) -> bytes:
        """Return what has arrived; `b""` once the peer has closed or is gone."""

    def try_send(self, data: bytes) -> int:
        """Send what fits without waiting; return how many bytes went."""

    async def send(self, data: memoryview) -> None:
        """Send all of `data`."""

    def send_eof(self) -> bool:
        """Close the sending half; False when this stream cannot be closed by halves."""

    def close(self) -> None:
        """Close; bytes already sent are still delivered."""

    def abort(self) -> None:
        """Close and throw away what the peer has not read."""


_CLOSED_STATES = frozenset({7, 8})
"""The kernel's TCP_CLOSE and TCP_CLOSE_WAIT."""


def peer_addresses(sock: socket.socket) -> tuple[Address, Address]:
    """Return (client, server) as ASGI names them; None for a Unix socket."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return None, None
    client, server = sock.getpeername(), sock.getsockname()
    return (client[0], client[1]), (server[0], server[1])


def peer_has_closed(sock: socket.socket) -> bool:
    """Tell whether the peer of a TCP socket has closed its side, without reading what it sent before.

    Where the system cannot tell (not Linux, no TCP), it has not.
    """
    if sock.family not in (socket.AF_INET, socket.AF_INET6) or not hasattr(socket, "TCP_INFO"):
        return False
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _CLOSED_STATES
    except OSError:
        return True


class PlainTransport:
    """A non-blocking socket, used directly: each receive waits first, so that one busy peer never starves the loop."""

    secure = False

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._fd = sock.fileno()
        self._open = True

    async def handshake(self) -> str:
        """Nothing to do."""
        return "http/1.1"

    async def receive(self) -> bytes:
        """Return what has arrived; `b""` once the peer has closed or is gone."""
        while self._open:
            try:
                await trio.lowlevel.wait_readable(self._fd)
                return self.sock.recv(RECEIVE_BYTES)
            except (BlockingIOError, InterruptedError):
                continue
            except (OSError, trio.ClosedResourceError):
                break
        return b""

    def try_send(self, data: bytes) -> int:
        """Send what fits into the socket's buffer."""
        try:
            return self.sock.send(data)
        except (BlockingIOError, InterruptedError):
            return 0

    async def send(self, data: memoryview) -> None:
        """Send all of `data`."""
        while data:
            if not self._open:  # the number may be another socket's by now
                raise trio.ClosedResourceError
            await trio.lowlevel.wait_writable(self._fd)
            with contextlib.suppress(BlockingIOError, InterruptedError):
                data = data[self.sock.send(data) :]

    def send_eof(self) -> bool:
        """Close the sending half."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)
        return True

    def close(self) -> None:
        """Close the socket."""
        if self._open:
            self._open = False
            trio.lowlevel.notify_closing(self._fd)
            self.sock.close()

    def abort(self) -> None:
        """Close with a reset, so that the kernel keeps nothing for a peer that does not read."""
        if self._open:
            with contextlib.suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.close()


class TlsTransport:
    """TLS over a socket, by trio's stream."""

    secure = True

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.sock = sock
        self._socket = trio.socket.from_stdlib_socket(sock)
        stream = trio.SocketStream(self._socket)
        self._stream = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        self._open = True

    async def handshake(self) -> str:
        """Do the TLS handshake; return the protocol that ALPN chose."""
        await self._stream.do_handshake()
        return self._stream.selected_alpn_protocol() or "http/1.1"

    async def receive(self) -> bytes:
        """Return what has arrived; `b""` once the peer has closed or is gone."""
        try:
            return bytes(await self._stream.receive_some(RECEIVE_BYTES))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    def try_send(self, data: bytes) -> int:  # noqa: ARG002 - the port's signature
        """Send nothing: encryption and socket are behind trio's waiting interface."""
        return 0

    async def send(self, data: memoryview) -> None:
        """Send all of `data`."""
        await self._stream.send_all(data)

    def send_eof(self) -> bool:
        """Refuse: TLS is not closed by halves."""
        return False

    def close(self) -> None:
        """Close the socket under the TLS layer."""
        if self._open:
            self._open = False
            self._socket.close()

    def abort(self) -> None:
        """Close with a reset, so that the kernel keeps nothing for a peer that does not read."""
        if self._open:
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.close()
