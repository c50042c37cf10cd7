"""Syncs side by side: concurrent syncs of one file system share its journal commits, one after another they do not."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Sequence
from typing import final

Sync = Callable[[int], None]


class _Round:
    """The handles of one call, shared out one by one among the threads that take part."""

    __slots__ = ("_handles", "_left", "_sync", "done", "errors")

    def __init__(self, sync: Sync, handles: Sequence[int]) -> None:
        self._sync = sync
        self._handles = handles
        self._left = itertools.count()
        self.errors: list[Exception | None] = [None] * len(handles)
        self.done: queue.SimpleQueue[None] = queue.SimpleQueue()

    def take_part(self) -> None:
        handles = self._handles
        while (index := next(self._left)) < len(handles):
            try:
                self._sync(handles[index])
            except Exception as error:  # noqa: BLE001 - whatever it is, the file is not durable and its job must hear of it
                self.errors[index] = error


@final
class SyncPool:
    """Up to `helpers` threads beside the calling one; they start when first needed and end with `close`."""

    def __init__(self, sync: Sync, helpers: int) -> None:
        """Start nothing yet."""
        self._sync = sync
        self._limit = helpers
        self._threads: list[threading.Thread] = []
        self._rounds: queue.SimpleQueue[_Round | None] = queue.SimpleQueue()

    def sync(self, handles: Sequence[int]) -> list[Exception | None]:
        """Sync all handles; return for each the error it met, or None when it is durable."""
        part = _Round(self._sync, handles)
        helping = min(self._limit, len(handles) - 1)
        while len(self._threads) < helping:
            thread = threading.Thread(target=self._help, name=f"disk-sync-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        for _ in range(helping):
            self._rounds.put(part)
        part.take_part()
        for _ in range(helping):
            part.done.get()
        return part.errors

    def close(self) -> None:
        """End the threads and wait for them; no `sync` may be under way."""
        for _ in self._threads:
            self._rounds.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _help(self) -> None:
        while (part := self._rounds.get()) is not None:
            part.take_part()
            part.done.put(None)
