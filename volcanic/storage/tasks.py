"""Task files: `tasks/<taskId>.json`, one task a file with whose it is (seed: a2a.md#files).

A file that is malformed, no regular file, or named by something that is no task id reads as "no such task", silently.
Members that this version does not know are kept when the file is written again.
"""

from __future__ import annotations

import errno
import time
from collections import OrderedDict
from typing import final

import msgspec
from msgspec import Raw

from volcanic.protocol.ids import is_task_id
from volcanic.protocol.types import Task, TaskPushNotificationConfig, TaskState
from volcanic.storage.layout import WorkspaceLayout
from volcanic.storage.operations import Remove, Replace
from volcanic.storage.safe_read import Reason, Stamp, Unreadable, read_stamped, stamp_of

TASK_FILE_BYTES = 256 * 1024 * 1024
"""The longest task file that is read: the limit on request bodies with room for a long history."""


SETTLED_NS = 3_000_000_000
"""A file changed less than this before it was read may change again unseen: FAT keeps times to two seconds."""

KEPT_FACTS = 1024


class RunStamp(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Which life of which slot runs a task: `boot` names the service's start, `incarnation` counts the slot's lives."""

    boot: str
    slot: str
    incarnation: int


class TaskRecord(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """The content of a task file.

    `op` is the operation that last started a run, `version` grows with each stored change, `created` and `updated` are
    RFC 3339 in UTC. `unknown` is not a member: it holds those of the file that this version does not know.
    """

    caller: str
    op: str = ""
    version: int
    run: RunStamp | None = None
    created: str = ""
    updated: str = ""
    task: Task
    push_configs: list[TaskPushNotificationConfig] = []
    unknown: dict[str, Raw] = {}


class TaskHead(msgspec.Struct, frozen=True, gc=False):
    """What answers a reader without a rewrite: `task` is the JSON of the task just as the file has it."""

    caller: str
    version: int
    state: TaskState
    context_id: str
    timestamp: str
    op: str
    run: RunStamp | None
    task: Raw
    parsed: Task


class TaskFacts(msgspec.Struct, frozen=True, gc=False):
    """What decides about a call without the task itself: whose it is, of which context, and where it stands."""

    caller: str
    context_id: str
    state: TaskState


class _Head(msgspec.Struct, kw_only=True, gc=False):
    caller: str
    version: int
    op: str = ""
    run: RunStamp | None = None
    task: Raw


class _Outside(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    caller: str
    op: str = ""
    version: int
    run: RunStamp | None = None
    created: str = ""
    updated: str = ""
    push_configs: list[TaskPushNotificationConfig] = []


_KNOWN = frozenset(msgspec.structs.asdict(_Outside(caller="", version=0))) - {"push_configs"} | {"pushConfigs", "task"}
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_task = msgspec.json.Decoder(Task).decode
_decode_outside = msgspec.json.Decoder(_Outside).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode

_MALFORMED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def encode_record(record: TaskRecord, task_json: bytes | None = None) -> bytes:
    """Return the file's content; `task_json`, when given, is the JSON of `record.task` and saves encoding it again."""
    outside = _Outside(
        caller=record.caller,
        op=record.op,
        version=record.version,
        run=record.run,
        created=record.created,
        updated=record.updated,
        push_configs=record.push_configs,
    )
    parts = [_encode(outside)[:-1]]
    for name, value in record.unknown.items():
        parts.append(b"," + _encode(name) + b":" + bytes(value))
    parts.append(b',"task":' + (task_json if task_json is not None else _encode(record.task)) + b"}")
    return b"".join(parts)


def decode_record(data: bytes, task_id: str) -> TaskRecord | None:
    """Return the record in a file's content, or None when it is malformed or another task's."""
    try:
        data.decode()
        members = _decode_members(data)
        outside = _decode_outside(data)
        task = _decode_task(members["task"])
    except (*_MALFORMED, KeyError):
        return None
    if task.id != task_id:
        return None
    return TaskRecord(
        caller=outside.caller,
        op=outside.op,
        version=outside.version,
        run=outside.run,
        created=outside.created,
        updated=outside.updated,
        task=task,
        push_configs=outside.push_configs,
        unknown={name: value.copy() for name, value in members.items() if name not in _KNOWN},
    )


def decode_head(data: bytes, task_id: str) -> TaskHead | None:
    """Return what a reader is answered with, or None when the content is malformed or another task's.

    The whole task is checked, so that what is passed on as bytes is a well-formed task.
    """
    try:
        data.decode()
        head = _decode_head(data)
        task = _decode_task(head.task)
    except _MALFORMED:
        return None
    if task.id != task_id:
        return None
    context_id = task.context_id
    timestamp = task.status.timestamp
    return TaskHead(
        caller=head.caller,
        version=head.version,
        state=task.status.state,
        context_id=context_id if isinstance(context_id, str) else "",
        timestamp=timestamp if isinstance(timestamp, str) else "",
        op=head.op,
        run=head.run,
        task=head.task,
        parsed=task,
    )


@final
class TaskFiles:
    """The task files of one workspace: any process reads them, only the owner of a task writes it."""

    def __init__(self, layout: WorkspaceLayout) -> None:
        """Read and write below this workspace."""
        self.layout = layout
        self._facts: OrderedDict[str, tuple[Stamp, TaskFacts]] = OrderedDict()

    def read(self, task_id: str) -> TaskRecord | None:
        """Return the stored record, or None: absent, malformed, not a task id. Blocks for one small read.

        Raises:
            OSError: the process has no descriptor or memory for it, or the disk failed: whether it is there is unknown.
        """
        data = self._content(task_id)
        return None if data is None else decode_record(data, task_id)

    def read_head(self, task_id: str) -> TaskHead | None:
        """Return the stored task as its bytes, with what decides who may see it; None as in `read`."""
        data = self._content(task_id)
        return None if data is None else decode_head(data, task_id)

    def read_stamped(self, task_id: str) -> tuple[TaskHead | None, Stamp | None]:
        """Return `read_head` and the state of the file that it was read from (for caches)."""
        if not is_task_id(task_id):
            return None, None
        data, stamp = read_stamped(self.layout.task(task_id), TASK_FILE_BYTES)
        if isinstance(data, Unreadable):
            _refuse_to_guess(data, self.layout.task(task_id))
            return None, stamp
        return decode_head(data, task_id), stamp

    def facts(self, task_id: str) -> TaskFacts | None:
        """Return what a task's file says in short, or None as in `read`; a file that has not changed is not read again.

        Raises:
            OSError: as `read`.
        """
        if not is_task_id(task_id):
            return None
        known = self._facts.get(task_id)
        if known is not None and stamp_of(self.layout.task(task_id)) == known[0]:
            return known[1]
        now = time.time_ns()
        head, stamp = self.read_stamped(task_id)
        if head is None or stamp is None:
            self._facts.pop(task_id, None)
            return None
        facts = TaskFacts(head.caller, head.context_id, head.state)
        if now - max(stamp.mtime_ns, stamp.ctime_ns) > SETTLED_NS:
            self._facts[task_id] = stamp, facts
            if len(self._facts) > KEPT_FACTS:
                self._facts.popitem(last=False)
        return facts

    def replace_op(self, record: TaskRecord, durable: bool, task_json: bytes | None = None) -> Replace:  # noqa: FBT001
        """Return the operation that stores a record; see `encode_record` for `task_json`."""
        return Replace(self.layout.task(record.task.id), encode_record(record, task_json), durable)

    def remove_op(self, task_id: str) -> Remove:
        """Return the operation that removes a task nobody has been shown."""
        return Remove(self.layout.task(task_id))

    def _content(self, task_id: str) -> bytes | None:
        if not is_task_id(task_id):
            return None
        data, _ = read_stamped(self.layout.task(task_id), TASK_FILE_BYTES)
        if isinstance(data, Unreadable):
            _refuse_to_guess(data, self.layout.task(task_id))
            return None
        return data


def _refuse_to_guess(data: Unreadable, path: str) -> None:
    """Raise `OSError` for a file that cannot be read now: it is not "no such task", which a caller takes for gone."""
    if data.reason is Reason.SHORT:
        raise OSError(errno.EAGAIN, f"{path} {data}")
