"""Which siblings a failed child takes with it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Strategy(enum.Enum):
    """OTP's restart strategies."""

    ONE_FOR_ONE = "one_for_one"
    """The failed child alone is restarted."""
    ONE_FOR_ALL = "one_for_all"
    """All children are stopped, right to left, and started again, left to right."""
    REST_FOR_ONE = "rest_for_one"
    """The failed child and those started after it are stopped, right to left, and started again, left to right."""

    def affected(self, children: Sequence[T], failed: T) -> list[T]:
        """The children a failure of `failed` concerns, in start order, `failed` included."""
        if self is Strategy.ONE_FOR_ONE:
            return [failed]
        if self is Strategy.ONE_FOR_ALL:
            return list(children)
        return list(children[children.index(failed) :])


ONE_FOR_ONE = Strategy.ONE_FOR_ONE
ONE_FOR_ALL = Strategy.ONE_FOR_ALL
REST_FOR_ONE = Strategy.REST_FOR_ONE
