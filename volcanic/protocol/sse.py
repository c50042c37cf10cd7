"""Server-sent events: what a stream of either binding is made of (spec §9.4.2, §11.7; WHATWG HTML §9.2).

The encoder takes JSON, so that a line break in it is white space and may go. The decoder reads any server's stream from
bytes, in pieces of any size.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

KEEPALIVE: Final = b":\n\n"
"""A comment: no event, but bytes on a quiet stream."""

EVENT_BYTES: Final = 64 * 1024 * 1024
"""The longest event a decoder takes unless told otherwise."""

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_LF: Final = 0x0A
_BREAKS: Final = bytes.maketrans(b"\r\n", b"  ")
_BOM: Final = b"\xef\xbb\xbf"
_RETRY: Final = re.compile(rb"[0-9]{1,9}")


class StreamError(ValueError):
    """The bytes are no stream that can be read: an event was cut off, or is longer than allowed."""


class Event(NamedTuple):
    """One event; `id` is the last id that the stream named up to here."""

    data: bytes
    event: str = "message"
    id: str = ""


def encode_event(data: bytes, event_id: str | None = None) -> bytes:
    """Return one event that carries `data`, a JSON document; `event_id` must hold no line break."""
    if b"\n" in data or b"\r" in data:
        data = data.translate(_BREAKS)
    if event_id is None:
        return b"data: " + data + b"\n\n"
    return b"id: " + event_id.encode() + b"\ndata: " + data + b"\n\n"


class Decoder:
    """Reads the events of one connection; a reconnect needs a new decoder.

    Lines end in LF, CR or CRLF, also where a chunk ends between the two; other separators (U+2028) are text.
    `last_event_id` is what a reconnect may send; `retry` is the delay in milliseconds that the server asked for.
    """

    def __init__(self, limit: int = EVENT_BYTES) -> None:
        self.last_event_id = ""
        self.retry: int | None = None
        self._limit = limit
        self._line = bytearray()
        self._size = 0
        self._after_cr = False
        self._first = True
        self._open = False
        self._data: list[bytes] = []
        self._event = ""
        self._id = ""

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes and return the events they complete.

        Raises:
            StreamError: The event being read is longer than the limit; the decoder is of no more use.
        """
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[0] == _LF:
                chunk = chunk[1:]
        if not chunk:
            return []
        self._after_cr = chunk.endswith(b"\r")
        events: list[Event] = []
        *lines, rest = _LINE_END.split(chunk)
        for piece in lines:
            self._grow(piece)
            line = bytes(self._line)
            self._line.clear()
            if self._first:
                self._first = False
                line = line.removeprefix(_BOM)
            if line:
                self._field(line)
            else:
                self._dispatch(events)
        self._grow(rest)
        return events

    def close(self) -> None:
        """Say that the stream ended.

        Raises:
            StreamError: It ended inside an event, which is lost.
        """
        if self._open or (self._line and not self._line.startswith(b":")):
            raise StreamError("the stream ended inside an event")

    def _grow(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise StreamError(f"an event is longer than {self._limit} bytes")
        self._line += piece

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._open = True
            self._data.append(value)
        elif name == b"event":
            self._open = True
            self._event = value.decode(errors="replace")
        elif name == b"id":
            self._open = True
            if b"\0" not in value:
                self._id = value.decode(errors="replace")
        else:
            self._size -= len(line)
            if name == b"retry" and _RETRY.fullmatch(value) is not None:
                self.retry = int(value)

    def _dispatch(self, events: list[Event]) -> None:
        self.last_event_id = self._id
        if self._data:
            events.append(Event(b"\n".join(self._data), self._event or "message", self._id))
        self._data.clear()
        self._event = ""
        self._size = 0
        self._open = False
