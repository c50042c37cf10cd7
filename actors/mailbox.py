"""A bounded mailbox: first in, first out, one consumer."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

import trio

M = TypeVar("M")


class MailboxFull(Exception):  # noqa: N818 - the name says the condition, as in queue.Full
    """The mailbox holds `capacity` messages; the sender is refused and nothing was enqueued."""


class MailboxClosed(Exception):  # noqa: N818 - likewise
    """The actor is gone; the message was not taken."""


class Mailbox(Generic[M]):
    """Messages of one actor.

    Overflow answer: `put` raises `MailboxFull` at once, so that the sender can refuse its own caller ("busy"); nothing
    waits and nothing is dropped. `put_own` is for the actor's own children (a run telling its session that it ended):
    their number is bounded by the actor itself, and refusing them would lose the end of a run.
    """

    __slots__ = ("_closed", "_items", "_lot", "capacity")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._items: deque[M] = deque()
        self._lot = trio.lowlevel.ParkingLot()
        self._closed = False

    def __len__(self) -> int:
        return len(self._items)

    def put(self, message: M) -> None:
        """Enqueue a message from outside.

        Raises:
            MailboxFull: `capacity` messages wait already.
            MailboxClosed: the actor is gone.
        """
        if len(self._items) >= self.capacity:
            raise MailboxFull
        self.put_own(message)

    def put_own(self, message: M) -> None:
        """Enqueue a message of the actor's own children, beyond the capacity if need be.

        Raises:
            MailboxClosed: the actor is gone.
        """
        if self._closed:
            raise MailboxClosed
        self._items.append(message)
        self._lot.unpark()

    def take(self) -> M | None:
        """Return the next message, or None when there is none."""
        return self._items.popleft() if self._items else None

    async def get(self) -> M:
        """Wait for the next message and return it."""
        while not self._items:
            await self._lot.park()
        return self._items.popleft()

    def close(self) -> list[M]:
        """Take no more messages; return those nobody will handle now, so that their senders can be answered."""
        self._closed = True
        left = list(self._items)
        self._items.clear()
        return left
