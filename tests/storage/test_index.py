"""The listing: order, filters, pages, and files that people touch by hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volcanic.protocol.ids import shard_of_task_id
from volcanic.protocol.types import Task, TaskState, TaskStatus
from volcanic.storage import index as module
from volcanic.storage.index import TaskIndex, TaskQuery
from volcanic.storage.layout import WorkspaceLayout
from volcanic.storage.tasks import TaskFiles, TaskRecord, encode_record


def _id(number):
    return f"{number:08x}-0000-4000-8000-000000000000"


def _put(files, number, *, caller="a", context="c", state=TaskState.COMPLETED, at="2026-12-01T09:30:00.000Z"):
    task = Task(id=_id(number), context_id=context, status=TaskStatus(state=state, timestamp=at))
    record = TaskRecord(caller=caller, version=1, task=task)
    temp = Path(files.layout.tasks, ".tmp-x")
    temp.write_bytes(encode_record(record))
    temp.rename(files.layout.task(_id(number)))


def _page(index, caller="a", limit=50, **more):
    total, rows = index.page(TaskQuery(caller=caller, limit=limit, **more))
    return total, [int(row.task_id[:8], 16) for row in rows]


@pytest.fixture
def files(layout):
    return TaskFiles(layout)


def test_newest_first_and_by_id_within_one_instant(files):
    _put(files, 1, at="2026-12-01T09:30:00.000Z")
    _put(files, 2, at="2026-12-01T09:30:00.001Z")
    _put(files, 3, at="2026-12-01T09:30:00.001Z")
    assert _page(TaskIndex(files)) == (3, [3, 2, 1])


def test_filters_count_and_page(files):
    for number in range(10):
        _put(
            files,
            number,
            caller="ab"[number % 2],
            context="cd"[number // 2 % 2],
            state=TaskState.FAILED if number > 7 else TaskState.COMPLETED,
            at=f"2026-12-01T09:30:0{number}.000Z",
        )
    index = TaskIndex(files)
    assert _page(index) == (5, [8, 6, 4, 2, 0])
    assert _page(index, caller="b") == (5, [9, 7, 5, 3, 1])
    assert _page(index, caller="nobody") == (0, [])
    assert _page(index, context_id="c") == (3, [8, 4, 0])
    assert _page(index, state="TASK_STATE_FAILED") == (1, [8])
    assert _page(index, since="2026-12-01T09:30:06.000Z") == (2, [8, 6])
    assert _page(index, limit=2) == (5, [8, 6])
    assert _page(index, limit=2, before=("2026-12-01T09:30:06.000Z", _id(6))) == (5, [4, 2])
    assert _page(index, limit=0) == (5, [])


def test_only_what_the_slot_owns_is_listed(files):
    for number in (0x01000000, 0x02000000, 0x03000000):
        _put(files, number)
    index = TaskIndex(files, lambda task_id: shard_of_task_id(task_id) == 2)
    assert _page(index) == (1, [0x02000000])


@pytest.mark.parametrize("settled", [False, True])
def test_files_changed_by_hand_are_seen_at_the_next_page(files, monkeypatch, settled):
    monkeypatch.setattr(module, "_SETTLED_NS", -1 if settled else 10**18)
    index = TaskIndex(files)
    assert _page(index) == (0, [])
    _put(files, 1)
    _put(files, 2)
    assert _page(index) == (2, [2, 1])
    path = Path(files.layout.task(_id(2)))
    path.write_bytes(path.read_bytes().replace(b'"contextId":"c"', b'"contextId":"x y"'))
    assert _page(index, context_id="x y") == (1, [2])
    path.write_bytes(b"{")
    assert _page(index) == (1, [1])
    Path(files.layout.task(_id(1))).unlink()
    assert _page(index) == (0, [])
    _put(files, 2, at="2026-12-02T00:00:00.000Z")
    assert _page(index) == (1, [2])


def test_an_edit_within_one_step_of_the_file_systems_clock_is_seen(files, monkeypatch):
    step = 50_000_000
    monkeypatch.setattr(
        module, "_stamp", lambda inode, size, *times: (inode, size, *(moment // step * step for moment in times))
    )
    index = TaskIndex(files)
    path = Path(files.layout.task(_id(1)))
    _put(files, 1)
    for number in range(300):
        context = f"context-{number % 7}"
        path.write_bytes(path.read_bytes().replace(b'"contextId":"c"', f'"contextId":"{context}"'.encode()))
        assert _page(index, context_id=context) == (1, [1]), number
        path.write_bytes(path.read_bytes().replace(f'"contextId":"{context}"'.encode(), b'"contextId":"c"'))


def test_a_file_that_did_not_change_is_not_read_again(files, monkeypatch):
    monkeypatch.setattr(module, "_SETTLED_NS", -1)
    for number in range(5):
        _put(files, number)
    index = TaskIndex(files)
    _page(index)
    reads = []
    monkeypatch.setattr(files.__class__, "read_stamped", lambda _self, task_id: (reads.append(task_id), None)[1])
    assert _page(index)[0] == 5
    assert reads == []


def test_what_is_no_task_file_is_passed_over(files):
    _put(files, 1)
    folder = Path(files.layout.tasks)
    for name in (".tmp-aa-1", f"{_id(2)}.push.json", "notes.json", f"{_id(3)}", f"{_id(4)}.json.bak"):
        (folder / name).write_bytes(b"{}")
    (folder / f"{_id(5)}.json").mkdir()
    os.mkfifo(folder / f"{_id(6)}.json")
    (folder / f"{_id(7)}.json").symlink_to("nowhere")
    (folder / f"{_id(8)}.json").write_bytes(b"")
    assert _page(TaskIndex(files)) == (1, [1])


def test_a_missing_folder_has_no_tasks(tmp_path):
    assert _page(TaskIndex(TaskFiles(WorkspaceLayout(f"{tmp_path}/none")))) == (0, [])


def test_timestamps_written_otherwise_sort_by_their_instant(files):
    _put(files, 1, at="2026-12-01T10:30:00+02:00")
    _put(files, 2, at="2026-12-01T09:00:00Z")
    _put(files, 3, at="yesterday")
    assert _page(TaskIndex(files)) == (3, [2, 1, 3])


@settings(max_examples=40, deadline=None)
@given(
    tasks=st.dictionaries(st.integers(0, 40), st.integers(0, 3), max_size=25),
    limit=st.integers(1, 7),
)
def test_pages_together_are_the_whole_list_once(tmp_path_factory, tasks, limit):
    layout = WorkspaceLayout(str(tmp_path_factory.mktemp("ws")))
    layout.create()
    files = TaskFiles(layout)
    for number, moment in tasks.items():
        _put(files, number, at=f"2026-12-01T09:30:0{moment}.000Z")
    index = TaskIndex(files)
    seen, before = [], None
    while True:
        total, rows = index.page(TaskQuery(caller="a", limit=limit, before=before))
        assert total == len(tasks)
        if not rows:
            break
        seen.extend((int(row.timestamp[18:19]), int(row.task_id[:8], 16)) for row in rows)
        before = (rows[-1].timestamp, rows[-1].task_id)
    assert seen == sorted(((moment, number) for number, moment in tasks.items()), reverse=True)
