"""Task files: what is kept, what reads as no such task."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanic.protocol.types import Message, Part, Role, Task, TaskPushNotificationConfig, TaskState, TaskStatus
from volcanic.storage.disk import open_disk
from volcanic.storage.tasks import RunStamp, TaskFiles, TaskRecord, decode_head, decode_record, encode_record

TASK_ID = "0123abcd-0000-4000-8000-00000000abcd"


def _task(task_id=TASK_ID, **more):
    message = Message(
        message_id="m", role=Role.USER, parts=[Part(text='hé\u2028 "quoted"'), Part(data=msgspec.Raw(b"1e999"))]
    )
    status = TaskStatus(state=TaskState.COMPLETED, timestamp="2026-12-01T09:30:00.123Z")
    return Task(id=task_id, context_id="c", status=status, history=[message], **more)


def _record(**more):
    config = TaskPushNotificationConfig(id="p", url="https://x.example/", token="t")
    members = {
        "caller": "travel-bot",
        "op": "op-1",
        "version": 3,
        "run": RunStamp("boot", "agents-0", 2),
        "created": "2026-12-01T09:29:00.000Z",
        "updated": "2026-12-01T09:30:00.123Z",
        "task": _task(),
        "push_configs": [config],
    }
    return TaskRecord(**{**members, **more})


async def test_a_record_comes_back_as_it_was_stored(layout):
    files = TaskFiles(layout)
    record = _record()
    async with open_disk() as disk:
        await disk.submit(files.replace_op(record, durable=True))
        assert files.read(TASK_ID) == record
        head = files.read_head(TASK_ID)
        assert (head.caller, head.version, head.state, head.context_id) == ("travel-bot", 3, TaskState.COMPLETED, "c")
        assert (head.op, head.run, head.timestamp) == ("op-1", record.run, "2026-12-01T09:30:00.123Z")
        assert bytes(head.task) == msgspec.json.encode(record.task)
        await disk.submit(files.remove_op(TASK_ID))
    assert files.read(TASK_ID) is None
    assert files.read_head(TASK_ID) is None


def test_the_file_has_the_documented_names():
    data = json.loads(encode_record(_record()))
    assert sorted(data) == ["caller", "created", "op", "pushConfigs", "run", "task", "updated", "version"]
    assert data["run"] == {"boot": "boot", "slot": "agents-0", "incarnation": 2}
    assert data["task"]["contextId"] == "c"


def test_a_task_already_encoded_is_not_encoded_again():
    record = _record()
    assert encode_record(record, msgspec.json.encode(record.task)) == encode_record(record)


def test_members_of_a_later_version_are_kept():
    data = json.loads(encode_record(_record()).replace(b"1e999", b"999"))
    data["later"] = {"a": [1, 2.50, None]}
    data['Übung "x"'] = "y"
    record = _decoded(json.dumps(data).encode())
    assert sorted(record.unknown) == ["later", 'Übung "x"']
    again = json.loads(encode_record(msgspec.structs.replace(record, version=4)))
    assert again == {**data, "version": 4}


def test_numbers_and_free_json_stay_as_they_were_written():
    data = encode_record(_record()).replace(b'"caller"', b'"odd":1.0000000000000000000001e400,"caller"')
    assert b'"odd":1.0000000000000000000001e400' in encode_record(_decoded(data))
    assert b'"data":1e999' in encode_record(_decoded(data))


def _decoded(data):
    record = decode_record(data, TASK_ID)
    assert record is not None
    return record


GOOD = encode_record(_record())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"null",
        b"[]",
        GOOD[:-1],
        GOOD + b"x",
        GOOD.replace(b'"version":3', b'"version":"3"'),
        GOOD.replace(b'"version":3', b'"version":null'),
        GOOD.replace(b"TASK_STATE_COMPLETED", b"TASK_STATE_DONE"),
        GOOD.replace(b'"caller":"travel-bot",', b""),
        GOOD.replace(TASK_ID.encode(), b"11111111-0000-4000-8000-00000000abcd"),
        GOOD.replace(b"travel-bot", b"travel\xff"),
        GOOD.replace(b'"contextId":"c"', b'"contextId":7'),
        GOOD.replace(b'"task":{', b'"task":{"metadata":' + b"[" * 100_000 + b"]" * 100_000 + b","),
    ],
)
def test_a_malformed_file_is_no_task(layout, data):
    Path(layout.task(TASK_ID)).write_bytes(data)
    files = TaskFiles(layout)
    assert files.read(TASK_ID) is None
    assert files.read_head(TASK_ID) is None


@pytest.mark.parametrize("kind", ["folder", "fifo", "loop", "unreadable"])
def test_an_odd_file_is_no_task_and_holds_up_nobody(layout, kind):
    path = layout.task(TASK_ID)
    if kind == "folder":
        Path(path).mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        Path(path).symlink_to(path)
    else:
        Path(path).write_bytes(GOOD)
        os.truncate(path, 300 * 1024 * 1024)
    files = TaskFiles(layout)
    assert files.read(TASK_ID) is None
    assert files.read_head(TASK_ID) is None
    assert files.read_stamped(TASK_ID)[0] is None


@pytest.mark.parametrize(
    "task_id",
    [
        "",
        ".",
        "..",
        "../callers",
        f"{TASK_ID}/",
        f"{TASK_ID}\n",
        TASK_ID.upper(),
        f"x/../{TASK_ID}",
        "\0",
        "é" * 36,
        TASK_ID[:-1],
    ],
)
def test_what_is_no_task_id_is_never_looked_up(layout, task_id):
    Path(layout.task(TASK_ID)).write_bytes(GOOD)
    Path(layout.callers).write_bytes(GOOD.replace(TASK_ID.encode(), b"../callers"))
    files = TaskFiles(layout)
    assert files.read(task_id) is None
    assert files.read_head(task_id) is None
    assert files.read_stamped(task_id) == (None, None)
    assert files.read(TASK_ID) is not None


@given(cut=st.integers(0, len(GOOD)))
def test_no_part_of_a_file_passes_for_the_whole(cut):
    whole = cut == len(GOOD)
    assert (decode_record(GOOD[:cut], TASK_ID) is not None) is whole
    assert (decode_head(GOOD[:cut], TASK_ID) is not None) is whole
