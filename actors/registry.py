"""Who lives under which key, who is told when one is gone, and the sweeper that evicts the idle."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, Protocol, TypeVar

import trio


class Evictable(Protocol):
    """What the sweeper asks of an actor."""

    last_used: float
    """When it last handled a message, on trio's clock (seconds)."""

    def evictable(self) -> bool:
        """Whether it may be dropped now: nothing running, nothing waiting, nobody listening."""


K = TypeVar("K", bound=Hashable)
A = TypeVar("A", bound=Evictable)

Monitor = Callable[[str], None]


class Registry(Generic[K, A]):
    """Actors by key. An entry goes with its actor: a lookup never names one that is gone."""

    def __init__(self) -> None:
        self._actors: dict[K, A] = {}
        self._monitors: dict[K, list[Monitor]] = {}

    def __len__(self) -> int:
        return len(self._actors)

    def __iter__(self) -> Iterator[A]:
        return iter(list(self._actors.values()))

    def get(self, key: K) -> A | None:
        """Return the actor of `key`, or None."""
        return self._actors.get(key)

    def add(self, key: K, actor: A) -> None:
        """Enter an actor.

        Raises:
            KeyError: the key is taken; an id never lives twice.
        """
        if key in self._actors:
            raise KeyError(key)
        self._actors[key] = actor

    def remove(self, key: K, reason: str) -> None:
        """Drop an entry and tell its monitors why; a key that is not there is fine."""
        if self._actors.pop(key, None) is None:
            return
        for monitor in self._monitors.pop(key, ()):
            monitor(reason)

    def monitor(self, key: K, callback: Monitor) -> Callable[[], None]:
        """Have `callback(reason)` called once when the actor of `key` goes; return what calls that off.

        A key without an actor calls back at once, with the reason `noproc`.
        """
        if key not in self._actors:
            callback("noproc")
            return lambda: None
        self._monitors.setdefault(key, []).append(callback)

        def demonitor() -> None:
            waiting = self._monitors.get(key, [])
            if callback in waiting:
                waiting.remove(callback)
            if not waiting:
                self._monitors.pop(key, None)

        return demonitor

    def evict(self, older_than: float) -> int:
        """Drop every evictable actor last used before `older_than` (trio's clock); return how many."""
        idle = [key for key, actor in self._actors.items() if actor.last_used < older_than and actor.evictable()]
        for key in idle:
            self.remove(key, "idle")
        return len(idle)


async def sweep(
    registry: Registry[K, A],
    idle_seconds: float,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Evict what has been idle for `idle_seconds`, four times as often as that and at most every 30 s, for ever.

    One sweep over a stamp each costs far less than a deadline a receive would.
    """
    task_status.started()
    while True:
        await trio.sleep(min(max(idle_seconds / 4, 0.05), 30.0))
        registry.evict(trio.current_time() - idle_seconds)
