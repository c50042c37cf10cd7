"""The launcher's end of the fork pipe: never waits, neither for a request nor for root to read an answer."""

from __future__ import annotations

import os
import socket
from collections import deque

import attrs
import msgspec

from supervisors.fork_protocol import Descriptors, FromLauncher, FromRoot
from supervisors.frames import FrameBuffer, FrameError, encode_frame

_READ = 65536


class ForkPipeError(Exception):
    """Root sent what is no request."""


@attrs.define
class _Outgoing:
    """One frame on its way to root, with the pidfd that goes beside its first byte."""

    data: memoryview
    pidfd: int | None


class ForkPipe:
    """A non-blocking pipe to root; answers that root has not read wait here, in order."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over `sock`, which `close` closes."""
        sock.setblocking(False)
        self._socket = sock
        self._buffer = FrameBuffer()
        self._descriptors = Descriptors()
        self._outgoing: deque[_Outgoing] = deque()
        self._decoder: msgspec.msgpack.Decoder[FromRoot] = msgspec.msgpack.Decoder(FromRoot)

    @property
    def queued(self) -> int:
        """How many answers wait for root to read."""
        return len(self._outgoing)

    def fileno(self) -> int:
        """Return the descriptor, for `poll`."""
        return self._socket.fileno()

    def receive(self) -> list[FromRoot] | None:
        """Return the requests that have come; None when root closed its end. Raises `ForkPipeError` for garbage."""
        try:
            data, ancillary, flags, _ = self._socket.recvmsg(_READ, Descriptors.SPACE)
        except BlockingIOError:
            return []
        except OSError:
            return None
        self._descriptors.feed(ancillary, flags)
        if not data:
            return None
        self._buffer.feed(data)
        requests: list[FromRoot] = []
        try:
            while (body := self._buffer.next()) is not None:
                requests.append(self._decoder.decode(body))
        except (FrameError, msgspec.MsgspecError) as error:
            raise ForkPipeError(str(error)) from error
        return requests

    def take_descriptors(self, count: int) -> tuple[int, ...] | None:
        """Return the descriptors of the next request, now the caller's; None when the kernel could not deliver them."""
        return self._descriptors.take(count)

    def tell(self, message: FromLauncher, pidfd: int | None = None) -> None:
        """Send a message, or queue it; `pidfd` is closed once it is on its way."""
        frame = encode_frame(msgspec.msgpack.encode(message))
        self._outgoing.append(_Outgoing(memoryview(frame), pidfd))
        self.flush()

    def flush(self) -> None:
        """Send what waits, as far as root reads."""
        while self._outgoing:
            first = self._outgoing[0]
            rights = Descriptors.rights([] if first.pidfd is None else [first.pidfd])
            try:
                sent = self._socket.sendmsg([first.data], rights)
            except BlockingIOError:
                return
            except OSError:
                # Root closed its end: it is leaving, and reads no more.
                sent = len(first.data)
            if first.pidfd is not None:
                os.close(first.pidfd)
                first.pidfd = None
            first.data = first.data[sent:]
            if not first.data:
                self._outgoing.popleft()

    def detach(self) -> None:
        """Let go of the descriptor without closing it."""
        self._socket.detach()

    def close(self) -> None:
        """Close the pipe and what still waits in it."""
        self._socket.close()
        self._descriptors.close()
        for waiting in self._outgoing:
            if waiting.pidfd is not None:
                os.close(waiting.pidfd)
        self._outgoing.clear()
