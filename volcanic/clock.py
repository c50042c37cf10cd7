"""Time as a port: the wall clock for stored timestamps, a monotonic clock for durations, and sleep.

Everything that waits or stamps takes a `Clock`; tests hand in one they move by hand.
"""

from __future__ import annotations

import time
from typing import Protocol, final

import trio


class Clock(Protocol):
    """What the program may ask about time."""

    def wall(self) -> float:
        """Return seconds since the Unix epoch; it may jump, so it is for stored timestamps alone."""

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back; its origin differs between processes."""

    async def sleep(self, seconds: float) -> None:
        """Wait that many seconds of the monotonic clock (a checkpoint, also for 0)."""


@final
class SystemClock:
    """The machine's wall clock and trio's monotonic clock, which `trio.testing.MockClock` replaces."""

    def wall(self) -> float:
        """See `Clock.wall`."""
        return time.time()

    def monotonic(self) -> float:
        """See `Clock.monotonic`; only inside `trio.run`."""
        return trio.current_time()

    async def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`."""
        await trio.sleep(seconds)


SYSTEM: Clock = SystemClock()
