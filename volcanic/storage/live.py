"""The live log of a slot: which runs started and which ended, a line each (state folder, `live/<slot>`).

A slot's successor reads it to learn at once which runs its predecessor left. Lines are idempotent: a start or an end
that is there twice, or in a job that failed, does no harm.
"""

from __future__ import annotations

from typing import final

import msgspec

from volcanic.storage.operations import Append, Replace
from volcanic.storage.safe_read import Unreadable, read_file

LOG_BYTES = 64 * 1024 * 1024
"""The longest live log that is read; compaction keeps it far below."""

COMPACT_BYTES = 1024 * 1024
"""A log this much longer than its unfinished runs is written anew."""


class LiveRun(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag="start", gc=False):
    """A run that started: of which task, for whom, by which operation, in which life of which service start."""

    task_id: str
    workspace: str
    caller: str
    op: str
    boot: str
    incarnation: int


class _End(msgspec.Struct, frozen=True, rename="camel", tag="end", gc=False):
    task_id: str


_decode_line = msgspec.json.Decoder(LiveRun | _End).decode
_encode = msgspec.json.Encoder().encode


@final
class LiveLog:
    """One slot's live log. One writer at a time: the slot's present incarnation."""

    def __init__(self, path: str) -> None:
        """Nothing is read or written yet."""
        self._path = path
        self._runs: dict[str, LiveRun] = {}
        self._bytes = 0
        self._live_bytes = 0

    def unfinished(self) -> list[LiveRun]:
        """Return the runs without an end, in the order of their last start; blocks for one read.

        Lines that are torn or not ours are skipped; a missing or unreadable log has no runs. The log goes on from
        there: start every life with this call and `compact_op`.
        """
        data = read_file(self._path, LOG_BYTES)
        self._runs.clear()
        for line in [] if isinstance(data, Unreadable) else data.split(b"\n"):
            try:
                entry = _decode_line(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue
            self._runs.pop(entry.task_id, None)
            if isinstance(entry, LiveRun):
                self._runs[entry.task_id] = entry
        return list(self._runs.values())

    def start_op(self, run: LiveRun) -> Append:
        """Return the operation that notes a run's start; submit it before the model runs."""
        self._runs.pop(run.task_id, None)
        self._runs[run.task_id] = run
        return self._note(_encode(run) + b"\n")

    def end_op(self, task_id: str) -> Append:
        """Return the operation that notes a run's end; submit it with, and after, the stored outcome."""
        self._runs.pop(task_id, None)
        return self._note(_encode(_End(task_id)) + b"\n")

    def forget(self, task_id: str) -> None:
        """Take a run off the list without a line: the log is written anew at once (`compact_op`)."""
        self._runs.pop(task_id, None)

    def compact_op(self) -> Replace:
        """Return the operation that writes the log anew with the unfinished runs alone."""
        data = b"".join([_encode(run) + b"\n" for run in self._runs.values()])
        self._bytes = self._live_bytes = len(data)
        return Replace(self._path, data, durable=False, folders=True)

    def overgrown(self) -> bool:
        """Whether it is time for `compact_op`: make it where it is submitted, or starts made meanwhile are lost."""
        return self._bytes - self._live_bytes > COMPACT_BYTES

    def _note(self, line: bytes) -> Append:
        self._bytes += len(line)
        return Append(self._path, line, keep_open=True, folders=True)
