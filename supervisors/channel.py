"""The channel between root and one worker: typed messages in frames over a Unix socket pair.

Either side treats what is no frame, or no message it may be sent, as `ChannelError`; root then kills that worker, a
worker then ends itself. A clean end of the stream is `ChannelClosedError`.
"""

from __future__ import annotations

import socket
from typing import Generic, TypeVar

import msgspec
import trio

from supervisors.frames import FrameBuffer, FrameError, encode_frame

_READ = 65536


class Ready(msgspec.Struct, tag="ready", forbid_unknown_fields=True):
    """Worker to root, once: it serves."""


class Reply(msgspec.Struct, tag="reply", forbid_unknown_fields=True):
    """Worker to root: the answer to `Ask` number `id`."""

    id: int
    payload: bytes


class Refused(msgspec.Struct, tag="refused", forbid_unknown_fields=True):
    """Worker to root: there is no answer to `Ask` number `id`, because of `reason`."""

    id: int
    reason: str


class Stop(msgspec.Struct, tag="stop", forbid_unknown_fields=True):
    """Root to worker: leave. A second one: leave at once."""


class Ask(msgspec.Struct, tag="ask", forbid_unknown_fields=True):
    """Root to worker: answer `payload`; `id` grows by one with each."""

    id: int
    payload: bytes


FromWorker = Ready | Reply | Refused
ToWorker = Stop | Ask

Incoming = TypeVar("Incoming")
Outgoing = TypeVar("Outgoing", bound=msgspec.Struct)


class ChannelError(Exception):
    """The peer sent garbage, or an earlier message of ours was cut; the channel is of no more use."""


class ChannelClosedError(ChannelError):
    """The peer closed its end, or is gone."""


class Channel(Generic[Outgoing, Incoming]):
    """One end of a channel. One task receives; any number send, one frame at a time."""

    def __init__(self, sock: socket.socket, decoder: msgspec.msgpack.Decoder[Incoming]) -> None:
        """Take over `sock`, a stream socket; `close` closes it. `decoder` knows what the peer may say."""
        self._socket = trio.socket.from_stdlib_socket(sock)
        self._decoder = decoder
        self._buffer = FrameBuffer()
        self._sending = trio.Lock()
        self._torn = False

    async def send(self, message: Outgoing) -> None:
        """Send one message; waits while the peer does not read.

        A send that is cancelled before its first byte sent nothing; one that is cancelled after it leaves a cut frame
        behind, and every later one raises `ChannelError`.

        Raises:
            ChannelClosedError: the peer is gone.
            ChannelError: an earlier send was cut, or the message is over the frame limit.
        """
        try:
            frame = encode_frame(msgspec.msgpack.encode(message))
        except FrameError as error:
            raise ChannelError(str(error)) from None
        async with self._sending:
            if self._torn:
                raise ChannelError("an earlier message was cut")
            sent = 0
            try:
                while sent < len(frame):
                    sent += await self._socket.send(frame[sent:])
            except (OSError, trio.ClosedResourceError) as error:
                raise ChannelClosedError("the peer is gone") from error
            finally:
                self._torn = 0 < sent < len(frame)

    async def receive(self) -> Incoming:
        """Wait for the next message; a cancelled call loses nothing.

        Raises:
            ChannelClosedError: the stream ended, between two messages or inside one; the text says which.
            ChannelError: garbage, or an oversized frame.
        """
        await trio.lowlevel.checkpoint()
        try:
            while (body := self._buffer.next()) is None:
                data = await self._socket.recv(_READ)
                if not data:
                    raise ChannelClosedError(f"the peer closed the channel{self._buffer.cut()}")
                self._buffer.feed(data)
            return self._decoder.decode(body)
        except (FrameError, msgspec.MsgspecError, RecursionError) as error:
            raise ChannelError(f"the peer sent no message: {error}") from error
        except (OSError, trio.ClosedResourceError) as error:
            raise ChannelClosedError("the peer is gone") from error

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


RootEnd = Channel[ToWorker, FromWorker]
WorkerEnd = Channel[FromWorker, ToWorker]


def root_end(sock: socket.socket) -> RootEnd:
    """Return root's end over `sock`, which it takes over."""
    return Channel(sock, _from_worker)


def worker_end(sock: socket.socket) -> WorkerEnd:
    """Return a worker's end over `sock`, which it takes over."""
    return Channel(sock, _to_worker)


_from_worker: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)
_to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
