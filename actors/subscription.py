"""One follower of one task: credit, a bounded buffer, and an end of its own.

A subscription has no task of its own: it is driven by the run that offers events and by the peer that grants credit, so
that a thousand followers cost a thousand small objects, and a slow one holds up nobody.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

import trio

INITIAL_CREDIT = 64 * 1024
"""Bytes a stream may send before its reader grants more."""


class Sink(Protocol):
    """Where a subscription's events go (a connection of the Owner API)."""

    def event(self, version: int, payload: bytes) -> None:
        """Send one event; `payload` is the JSON of a StreamResponse, `version` 0 for what is not stored."""

    def end(self, reason: str) -> None:
        """Say that no event follows: empty for the natural end, else `slow`, `drain` or `lost`."""


class Subscription:
    """Events for one follower, in order.

    While there is credit, events pass straight through; then up to `buffer_bytes` wait. Overflow answer: the follower
    is dropped with the reason `slow`; it can subscribe again and gets a snapshot. A single event larger than the buffer
    waits when nothing else does, so that no size of event alone ends a stream.

    A run that tells faster than anybody can read gives those who `lag` moments to catch up; one who takes nothing for
    long is `given_up` and not waited for again before it has.
    """

    __slots__ = (
        "_buffer",
        "_buffered",
        "_credit",
        "_ending",
        "_limit",
        "_lot",
        "_moves",
        "_moves_seen",
        "_sink",
        "_still_since",
        "ended",
        "given_up",
        "until_interrupted",
    )

    def __init__(self, sink: Sink, buffer_bytes: int, *, until_interrupted: bool) -> None:
        self._sink = sink
        self._limit = buffer_bytes
        self._credit = INITIAL_CREDIT
        self._buffer: deque[tuple[int, bytes]] = deque()
        self._buffered = 0
        self._ending: str | None = None
        self._lot: trio.lowlevel.ParkingLot | None = None
        self._moves = 0
        self._moves_seen = -1
        self._still_since = 0.0
        self.ended = False
        self.given_up = False
        self.until_interrupted = until_interrupted
        """Whether it ends when the task waits for input (a SendStreamingMessage), not only at a terminal state."""

    def offer(self, version: int, payload: bytes) -> None:
        """Send an event, or keep it until there is credit; ignored once ended."""
        if self.ended or self._ending is not None:
            return
        if self._credit > 0 and not self._buffer:
            self._credit -= len(payload)
            self._sink.event(version, payload)
            return
        if self._buffer and self._buffered + len(payload) > self._limit:
            self._buffer.clear()
            self._finish("slow")
            return
        self._buffer.append((version, payload))
        self._buffered += len(payload)

    def lags(self) -> bool:
        """Whether events wait for a reader who may yet catch up."""
        return bool(self._buffer) and not (self.ended or self.given_up)

    def stalled(self, now: float, seconds: float) -> bool:
        """Whether events wait for a reader who took nothing for so long, as often as this is asked meanwhile."""
        if self._moves != self._moves_seen:
            self._moves_seen, self._still_since = self._moves, now
        return self.lags() and now - self._still_since > seconds

    async def caught_up(self) -> None:
        """Wait until nothing waits any more, or it is over."""
        while self.lags():
            if self._lot is None:
                self._lot = trio.lowlevel.ParkingLot()
            await self._lot.park()

    def grant(self, size: int) -> None:
        """Add `size` bytes of credit and send what it covers."""
        self._credit += size
        self._moves += 1
        while self._buffer and self._credit > 0 and not self.ended:
            version, payload = self._buffer.popleft()
            self._buffered -= len(payload)
            self._credit -= len(payload)
            self._sink.event(version, payload)
        if self._buffer:
            return
        self.given_up = False
        if self._ending is not None and not self.ended:
            self._finish(self._ending)
        self._wake()

    def close(self, reason: str = "") -> None:
        """End after what is still buffered."""
        if self.ended or self._ending is not None:
            return
        if self._buffer:
            self._ending = reason
        else:
            self._finish(reason)

    def abandon(self) -> None:
        """Forget it: the follower is gone and hears nothing more."""
        self.ended = True
        self._buffer.clear()
        self._wake()

    def _finish(self, reason: str) -> None:
        self.ended = True
        self._sink.end(reason)
        self._wake()

    def _wake(self) -> None:
        if self._lot is not None:
            self._lot.unpark_all()
