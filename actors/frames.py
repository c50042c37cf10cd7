"""Frames on a Unix socket: reading many at once, writing many at once, both bounded."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Generic, TypeVar

import msgspec
import trio

from actors.messages import FRAME_LIMIT, Frame

F = TypeVar("F")

READ_SIZE = 256 * 1024
OUTBOX_LIMIT = 256 * 1024 * 1024
OUTBOX_CROWDED = 128 * 1024 * 1024
OUTBOX_ROOM = 16 * 1024 * 1024
LARGE_FRAME = 64 * 1024
_HEADER = 4


class FrameError(Exception):
    """The peer sent what is no frame, or more of it than a frame may hold. The connection is over."""


class FrameTooLong(Exception):  # noqa: N818 - likewise
    """A frame of our own is longer than the peer would take; it was not sent, and nothing else is lost."""


class OutboxFull(Exception):  # noqa: N818 - the name says the condition, as in queue.Full
    """The peer does not read: `OUTBOX_LIMIT` bytes wait for it. The connection is closed; its calls are *unknown*."""


class FrameReader(Generic[F]):
    """Frames out of a byte stream. The stream stays its opener's to close."""

    def __init__(self, stream: trio.abc.ReceiveStream, decoder: msgspec.json.Decoder[F]) -> None:
        self._stream = stream
        self._decoder = decoder
        self._buffer = bytearray()

    async def receive(self) -> list[F]:
        """Wait for at least one whole frame and return all that have come; an empty list is the end of the stream.

        Raises:
            FrameError: an oversized, truncated or unreadable frame.
            trio.BrokenResourceError, trio.ClosedResourceError: the connection is gone.
        """
        while True:
            if frames := self._split():
                return frames
            data = await self._stream.receive_some(READ_SIZE)
            if not data:
                if self._buffer:
                    raise FrameError("the connection ended inside a frame")
                return []
            self._buffer += data

    def _split(self) -> list[F]:
        buffer = self._buffer
        frames: list[F] = []
        start = 0
        while len(buffer) - start >= _HEADER:
            size = int.from_bytes(buffer[start : start + _HEADER])
            if size > FRAME_LIMIT:
                raise FrameError(f"a frame of {size} bytes, over {FRAME_LIMIT}")
            end = start + _HEADER + size
            if len(buffer) < end:
                break
            try:
                # A copy, because free-form values stay views of what they were decoded from.
                frames.append(self._decoder.decode(bytes(buffer[start + _HEADER : end])))
            except (msgspec.DecodeError, RecursionError) as error:
                raise FrameError(f"an unreadable frame: {error}") from None
            start = end
        if start:
            del buffer[:start]
        return frames


class Outbox:
    """Frames waiting to be written to one peer, in order.

    `put` never waits, so that any actor can answer from where it stands. Overflow answer: over `OUTBOX_LIMIT` bytes the
    outbox fails for good and `run` raises `OutboxFull`, which ends the connection.
    """

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder()
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._lot = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()
        self._failed = False
        self._sending: trio.CancelScope | None = None
        self._torn = False

    async def room(self) -> None:
        """Wait until less than `OUTBOX_ROOM` waits to be written. Whoever can wait before a large frame, should."""
        while self._size > OUTBOX_ROOM:
            await self._room.park()

    def crowded(self) -> bool:
        """Whether a large frame should rather be refused than added to what waits."""
        return self._size > OUTBOX_CROWDED

    def put(self, frame: Frame) -> None:
        """Enqueue a frame; it goes out with whatever else waits by then.

        Raises:
            FrameTooLong: the frame is over `FRAME_LIMIT`.
        """
        if self._failed:
            return
        body = self._encoder.encode(frame)
        if len(body) > FRAME_LIMIT:
            raise FrameTooLong(f"a frame of {len(body)} bytes, over {FRAME_LIMIT}")
        self._frames.append(len(body).to_bytes(_HEADER))
        self._frames.append(body)
        self._size += len(body) + _HEADER
        if self._size > OUTBOX_LIMIT:
            self._failed = True
            self._frames.clear()
            if self._sending is not None:
                # A peer that does not read would hold the write, and with it the connection, for ever.
                self._sending.cancel()
        self._lot.unpark()

    async def run(self, stream: trio.abc.SendStream) -> None:
        """Write what comes, for ever.

        Raises:
            OutboxFull: see the class.
            trio.BrokenResourceError, trio.ClosedResourceError: the connection is gone.
        """
        while True:
            while not (self._frames or self._failed):
                await self._lot.park()
            if self._failed:
                raise OutboxFull
            batch = b"".join(self._frames)
            self._frames.clear()
            self._torn = True
            with trio.CancelScope() as self._sending:
                await stream.send_all(batch)
                self._torn = False
            self._size -= len(batch)
            self._room.unpark_all()
            self._sending = None

    async def flush(self, stream: trio.abc.SendStream, seconds: float) -> None:
        """Write what is left, for at most `seconds`, through a cancellation: the last words of a closing connection."""
        if not self._frames or self._failed or self._torn:  # after half a frame no other one can be told apart
            return
        batch = b"".join(self._frames)
        self._frames.clear()
        with (
            trio.move_on_after(seconds) as scope,
            contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError),
        ):
            scope.shield = True
            await stream.send_all(batch)
