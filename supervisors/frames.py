"""Frames on a byte stream: four bytes of big-endian length, then that many bytes of msgpack. No I/O.

Every pipe between the launcher, the root and a worker carries them. The length is judged as soon as its four bytes are
there, so that a peer that sends garbage costs at most one read's worth of memory.
"""

from __future__ import annotations

FRAME_LIMIT = 1024 * 1024
"""The longest body of a frame, in bytes."""

_HEADER = 4


class FrameError(Exception):
    """The bytes are no frame: the length is over the limit."""


def encode_frame(body: bytes) -> bytes:
    """Return `body` as one frame; `FrameError` when it is longer than `FRAME_LIMIT`."""
    if len(body) > FRAME_LIMIT:
        raise FrameError(f"a frame of {len(body)} bytes is over the limit of {FRAME_LIMIT}")
    return len(body).to_bytes(_HEADER, "big") + body


class FrameBuffer:
    """Cuts a byte stream into frame bodies, however the bytes were split on the way."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """Add what was read."""
        self._bytes += data

    def next(self) -> bytes | None:
        """Return the next whole body, or None until more is fed; `FrameError` for a length over the limit."""
        if len(self._bytes) < _HEADER:
            return None
        length = int.from_bytes(self._bytes[:_HEADER], "big")
        if length > FRAME_LIMIT:
            raise FrameError(f"a frame of {length} bytes is over the limit of {FRAME_LIMIT}")
        end = _HEADER + length
        if len(self._bytes) < end:
            return None
        body = bytes(self._bytes[_HEADER:end])
        del self._bytes[:end]
        return body

    def cut(self) -> str:
        """Say, for the text of an error, what the end of the stream cut off: ", 7 bytes into a frame", or nothing."""
        return f", {len(self._bytes)} bytes into a frame" if self._bytes else ""
