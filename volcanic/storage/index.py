"""The task listing of one workspace: what its task files say, kept in memory and checked against the folder each time.

A file is read again only when its stat says that it changed, so that files added, edited or removed by hand are seen
at the next page.
"""

from __future__ import annotations

import heapq
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import final

import msgspec

from volcanic.protocol.ids import is_task_id
from volcanic.protocol.timestamps import parse
from volcanic.protocol.types import TaskState
from volcanic.storage.tasks import TaskFiles

_SUFFIX = ".json"
_SETTLED_NS = 50_000_000
"""Times of a file step by some milliseconds: one changed this short before it was read is read once more."""


class TaskQuery(msgspec.Struct, kw_only=True, gc=False):
    """Which tasks of whom: the newest `limit` below `before`, the (timestamp, task id) of the last row before.

    `since` is a timestamp in the stored form; tasks at it are in.
    """

    caller: str
    limit: int
    before: tuple[str, str] | None = None
    context_id: str | None = None
    state: str | None = None
    since: str | None = None


class TaskRow(msgspec.Struct, frozen=True, gc=False, order=True):
    """One task of a page, by its sort key; the rest is in its file."""

    timestamp: str
    task_id: str
    state: TaskState


class _Entry(msgspec.Struct, gc=False):
    stamp: tuple[int, int, int, int]
    settled: bool
    row: TaskRow | None
    caller: str
    context_id: str


def _owns_all(_task_id: str) -> bool:
    return True


@final
class TaskIndex:
    """The listing of the tasks that one slot owns; its methods block for the disk, and one runs at a time."""

    def __init__(self, files: TaskFiles, owns: Callable[[str], bool] = _owns_all) -> None:
        """Read nothing yet; only files whose task id `owns` accepts are looked at."""
        self._files = files
        self._owns = owns
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.Lock()

    def page(self, query: TaskQuery) -> tuple[int, list[TaskRow]]:
        """Return how many tasks match in all (wherever the page begins), and the page's rows, newest first.

        Order: timestamp of the status, then task id, both descending. Files that cannot be read as tasks are not
        listed.

        Raises:
            OSError: the folder is there but cannot be read.
        """
        with self._lock:
            self._refresh()
            matching = list(self._matching(query))
        before = query.before
        below = matching if before is None else [row for row in matching if (row.timestamp, row.task_id) < before]
        return len(matching), heapq.nlargest(query.limit, below, key=_key)

    def _matching(self, query: TaskQuery) -> Iterator[TaskRow]:
        for entry in self._entries.values():
            row = entry.row
            if row is None or entry.caller != query.caller:
                continue
            if query.context_id is not None and entry.context_id != query.context_id:
                continue
            if query.state is not None and row.state != query.state:
                continue
            if query.since is None or row.timestamp >= query.since:
                yield row

    def _refresh(self) -> None:
        seen: dict[str, _Entry] = {}
        known = self._entries
        try:
            with os.scandir(self._files.layout.tasks) as listing:
                for item in listing:
                    task_id = item.name.removesuffix(_SUFFIX)
                    if task_id == item.name or not is_task_id(task_id) or not self._owns(task_id):
                        continue
                    try:
                        status = item.stat()
                    except OSError:
                        continue  # removed meanwhile, or a link that leads nowhere
                    stamp = _stamp(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                    entry = known.get(task_id)
                    if entry is None or not entry.settled or entry.stamp != stamp:
                        entry = self._read(task_id, stamp)
                    seen[task_id] = entry
        except FileNotFoundError:
            pass
        self._entries = seen

    def _read(self, task_id: str, listed: tuple[int, int, int, int]) -> _Entry:
        now = time.time_ns()
        head, stamp = self._files.read_stamped(task_id)
        taken = listed if stamp is None else _stamp(stamp.inode, stamp.size, stamp.mtime_ns, stamp.ctime_ns)
        settled = now - max(taken[2], taken[3]) > _SETTLED_NS
        if head is None:
            return _Entry(taken, settled, None, "", "")
        row = TaskRow(_in_order(head.timestamp), task_id, head.state)
        return _Entry(taken, settled, row, sys.intern(head.caller), head.context_id)


def _key(row: TaskRow) -> tuple[str, str]:
    return row.timestamp, row.task_id


def _stamp(inode: int, size: int, mtime_ns: int, ctime_ns: int) -> tuple[int, int, int, int]:
    """Return what tells one state of a file from another."""
    return inode, size, mtime_ns, ctime_ns


def _in_order(timestamp: str) -> str:
    """Return a timestamp in the form whose text order is time order; what is none counts as the oldest."""
    try:
        return parse(timestamp)
    except ValueError:
        return ""
