"""Texts that wait to be put into a session's run."""

from __future__ import annotations

import enum

import attrs


class QueueMode(enum.Enum):
    """How many waiting texts go in at a time."""

    ONE = "one-at-a-time"
    ALL = "all"


class QueueFullError(Exception):
    """No more texts may wait; none was added."""


@attrs.define
class TextQueue:
    """A bounded queue of texts. When it is full, `put` refuses."""

    mode: QueueMode
    capacity: int
    _texts: list[str] = attrs.field(factory=list, init=False)

    def __len__(self) -> int:
        return len(self._texts)

    def put(self, text: str) -> None:
        """Add a text at the end.

        Raises:
            QueueFullError: `capacity` texts wait already.
        """
        if len(self._texts) >= self.capacity:
            raise QueueFullError(f"{self.capacity} texts are waiting already")
        self._texts.append(text)

    def take(self) -> list[str]:
        """Remove and return what goes in now: one text, or all, or nothing."""
        if self.mode is QueueMode.ONE:
            return [self._texts.pop(0)] if self._texts else []
        return self.clear()

    def clear(self) -> list[str]:
        """Remove and return everything."""
        texts, self._texts = self._texts, []
        return texts
