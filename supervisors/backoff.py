"""Delays between attempts, as pure values: the same attempt and the same random number give the same delay."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import attrs


class Delays(Protocol):
    """Seconds to wait before the n-th attempt in a row, n from 1."""

    def delay(self, attempt: int, random: Callable[[], float] | None = None) -> float:
        """Seconds before attempt `attempt`; `random` answers numbers in [0, 1) and spreads the delay where asked."""
        ...


def _check_jitter(jitter: float) -> None:
    if not 0 <= jitter <= 1:
        msg = f"jitter is a share of the delay between 0 and 1, not {jitter!r}"
        raise ValueError(msg)


def _spread(delay: float, jitter: float, random: Callable[[], float] | None) -> float:
    """Shorten a delay by up to `jitter` of itself: never longer, so that a cap stays a cap."""
    return delay if random is None else delay * (1.0 - jitter * random())


def _check_attempt(attempt: int) -> None:
    if attempt < 1:
        msg = f"attempts are counted from 1, not {attempt!r}"
        raise ValueError(msg)


@attrs.frozen
class Backoff:
    """Exponential: `first` seconds, then `factor` times as long each, at most `cap`."""

    first: float
    factor: float = 2.0
    cap: float = 1.0
    jitter: float = 0.0

    def __attrs_post_init__(self) -> None:
        if not (0 < self.first <= self.cap and math.isfinite(self.cap) and self.factor >= 1):
            msg = f"a backoff needs 0 < first <= cap and factor >= 1, not {self.first}/{self.cap}/{self.factor}"
            raise ValueError(msg)
        _check_jitter(self.jitter)

    def delay(self, attempt: int, random: Callable[[], float] | None = None) -> float:
        """Seconds before attempt `attempt` (from 1)."""
        _check_attempt(attempt)
        try:
            grown = self.first * self.factor ** (attempt - 1)
        except OverflowError:  # thousands of attempts in a row: the float is full long after the cap was reached
            grown = self.cap
        return _spread(min(grown, self.cap), self.jitter, random)


@attrs.frozen
class Schedule:
    """The delays themselves, in order; the last one repeats."""

    delays: tuple[float, ...]
    jitter: float = 0.0

    def __attrs_post_init__(self) -> None:
        if not self.delays or not all(delay >= 0 and math.isfinite(delay) for delay in self.delays):
            msg = f"a schedule needs at least one delay, each 0 or more, not {self.delays!r}"
            raise ValueError(msg)
        _check_jitter(self.jitter)

    def delay(self, attempt: int, random: Callable[[], float] | None = None) -> float:
        """Seconds before attempt `attempt` (from 1)."""
        _check_attempt(attempt)
        return _spread(self.delays[min(attempt, len(self.delays)) - 1], self.jitter, random)


AT_ONCE_THEN_GROWING = Schedule((0.0, 0.05, 0.1, 0.2, 0.5, 1.0))
"""The supervisors' default: the first attempt at once, then delays that grow to one second."""
