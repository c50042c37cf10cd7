"""When a provider error is tried again (agent-core facts, section 4)."""

from __future__ import annotations

import attrs


@attrs.frozen
class RetryPolicy:
    """Up to `attempts` retries after the first failure in a row, with delays that double from `first_s` to `cap_s`.

    Only transient errors are retried. A response that succeeds starts the count anew.
    """

    attempts: int = 3
    first_s: float = 2.0
    cap_s: float = 60.0

    def delay(self, failures: int) -> float | None:
        """Return the seconds to wait after the `failures`-th failure in a row, or None to give up."""
        if failures > self.attempts:
            return None
        return min(self.cap_s, self.first_s * 2.0 ** (failures - 1))
