"""How many restarts are too many: OTP's intensity and period.

`Intensity(5, 30.0)` allows five restarts within any thirty seconds; the sixth gives up. In the long run that is one
restart every six seconds, and a burst of five at once. Three mistakes to avoid when choosing: a large number with a
long period, which lets a crash loop run for minutes before anyone is told; the same numbers on every level, since
nested levels multiply (5/30 under 5/30 is up to 36 starts of the innermost child before the outer one gives up), so
give upper levels small numbers; and a number below the children that can die together, since one cause that takes down
ten children of a one_for_one supervisor at once is ten restarts.
"""

from __future__ import annotations

from collections import deque

import attrs


@attrs.frozen
class Intensity:
    """At most `max_restarts` restarts within `period_s` seconds (infinite: ever). The defaults are OTP's."""

    max_restarts: int = 1
    period_s: float = 5.0

    def __attrs_post_init__(self) -> None:
        if self.max_restarts < 0 or not self.period_s > 0:
            msg = f"an intensity needs max_restarts >= 0 and period_s > 0, not {self.max_restarts}/{self.period_s}"
            raise ValueError(msg)


class RestartWindow:
    """The restarts of the last period. Times come from the caller's monotonic clock and never go back."""

    __slots__ = ("_intensity", "_times")

    def __init__(self, intensity: Intensity) -> None:
        self._intensity = intensity
        self._times: deque[float] = deque()

    def add(self, now: float) -> bool:
        """Count a restart at `now`; False when it is one too many. A restart exactly one period old still counts."""
        times = self._times
        times.append(now)
        while now - times[0] > self._intensity.period_s:
            times.popleft()
        return len(times) <= self._intensity.max_restarts

    def clear(self) -> None:
        """Forget every restart."""
        self._times.clear()
