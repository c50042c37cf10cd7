"""What a full or failing disk, and a power cut, may leave: old or new, never mixed, never called stored when it is not."""

from __future__ import annotations

import errno

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.file_systems import CALLS, Failing, PowerCut, ShortWrites, names
from volcanic.storage.batch import BatchWriter
from volcanic.storage.disk import Append, Replace, open_disk


class Job:
    def __init__(self, *ops):
        self.ops = ops
        self.error = None


OLD, NEW = b'{"version":1}', b'{"version":2,"more":"than before"}'


def _finish(writer, jobs):
    done = writer.step(jobs)
    while writer.unfinished:
        done += writer.step([])
    assert sorted(map(id, done)) == sorted(map(id, jobs))
    writer.close()


def _cut(*ops, files):
    """Carry out a job on a file system that then tells every state a power cut may have left."""
    fs = PowerCut(files)
    job = Job(*ops)
    writer = BatchWriter(fs, helpers=0)
    _finish(writer, [job])
    assert job.error is None
    return fs


@pytest.mark.parametrize("files", [{}, {"/w/task": OLD}], ids=["new", "replaced"])
def test_a_power_cut_leaves_a_durable_file_old_or_new(files):
    fs = _cut(Replace("/w/task", NEW, durable=True), files=files)
    states = list(fs.crash_states("/w/task"))
    assert {content for _, content in states} == {files.get("/w/task"), NEW}
    finished = len(fs.log) - 1
    assert {content for calls, content in states if calls == finished} == {NEW}
    assert len(states) >= 10


def test_a_power_cut_may_tear_a_file_that_is_not_durable():
    fs = _cut(Replace("/w/task", NEW, durable=False), files={"/w/task": OLD})
    assert {content for _, content in fs.crash_states("/w/task")} - {OLD, NEW}


def test_a_power_cut_after_a_durable_append_keeps_it():
    fs = _cut(Append("/w/log", b"two\n", durable=True), files={"/w/log": b"one\n"})
    finished = len(fs.log) - 1
    assert {content for calls, content in fs.crash_states("/w/log") if calls == finished} == {b"one\ntwo\n"}


def test_a_power_cut_leaves_every_file_of_a_batch_old_or_new():
    files = {f"/w/task{number}": OLD for number in range(5)}
    fs = PowerCut(files)
    jobs = [Job(Append("/w/log", b"x"), Replace(path, NEW, durable=True), Append("/w/log", b"y")) for path in files]
    writer = BatchWriter(fs, helpers=0)
    _finish(writer, jobs)
    for path in files:
        states = list(fs.crash_states(path))
        assert {content for _, content in states} == {OLD, NEW}
        assert {content for calls, content in states if calls == len(fs.log) - 1} == {NEW}


WANTED = {
    "create": [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EMFILE],
    "open_append": [errno.ENOSPC, errno.EACCES],
    "open_folder": [errno.EMFILE, errno.EIO],
    "write": [errno.ENOSPC, errno.EIO],
    "sync": [errno.EIO, errno.ENOSPC],
    "close": [errno.EIO],
    "rename": [errno.EIO, errno.EROFS],
}


@pytest.mark.parametrize(
    ("name", "number", "nth"),
    [
        (name, number, nth)
        for name, numbers in WANTED.items()
        for number in numbers
        for nth in range(1, 3 if name == "open_folder" else 9)  # group commit makes that few calls
    ],
)
async def test_a_failing_call_fails_its_job_and_nothing_else(tmp_path, name, number, nth):
    fs = Failing(name, nth, number)
    outcomes = {}

    async def store(disk, key):
        for version in (OLD, NEW):
            try:
                await disk.submit(
                    Append(f"{tmp_path}/log{key}", version + b"\n"),
                    Replace(f"{tmp_path}/task{key}", version, durable=True),
                    Append(f"{tmp_path}/live", b"%d\n" % key, keep_open=True),
                )
                outcomes.setdefault(key, []).append(None)
            except OSError as error:
                outcomes.setdefault(key, []).append(error)

    async with open_disk(fs) as disk:
        async with trio.open_nursery() as nursery:
            for key in range(4):
                nursery.start_soon(store, disk, key)
        fired = fs.fired
        await disk.submit(Replace(f"{tmp_path}/after", NEW, durable=True), Append(f"{tmp_path}/live", b"after\n"))
    assert fired == 1
    errors = [error for results in outcomes.values() for error in results if error is not None]
    assert errors or name == "close"
    assert {error.errno for error in errors} <= {number}
    for key, results in outcomes.items():
        content = _read(tmp_path / f"task{key}")
        if results[-1] is None:
            assert content == NEW
        else:
            assert content in {None, OLD, NEW}
        log = _read(tmp_path / f"log{key}") or b""
        assert all(line in {OLD, NEW} for line in log.splitlines())
        assert log == b"" or log.endswith(b"\n")
    assert (tmp_path / "after").read_bytes() == NEW
    assert [entry for entry in names(tmp_path) if entry.startswith(".tmp-")] == []
    assert fs.open == {}


def _read(path):
    return path.read_bytes() if path.exists() else None


async def test_a_folder_that_cannot_be_synced_is_not_success(tmp_path):
    fs = Failing("sync", 2, errno.EIO)  # the first is the file's, the second its folder's
    async with open_disk(fs) as disk:
        with pytest.raises(OSError, match="Input/output error"):
            await disk.submit(Replace(f"{tmp_path}/a", NEW, durable=True))
    assert fs.fired == 1


async def test_a_file_that_cannot_be_synced_gets_no_name(tmp_path):
    (tmp_path / "a").write_bytes(OLD)
    fs = Failing("sync", 1, errno.EIO)
    async with open_disk(fs) as disk:
        with pytest.raises(OSError, match="Input/output error"):
            await disk.submit(Replace(f"{tmp_path}/a", NEW, durable=True))
    assert (tmp_path / "a").read_bytes() == OLD
    assert names(tmp_path) == ["a"]


async def test_a_durable_append_that_cannot_be_synced_is_not_success(tmp_path):
    fs = Failing("sync", 1, errno.EIO)
    async with open_disk(fs) as disk:
        with pytest.raises(OSError, match="Input/output error"):
            await disk.submit(Append(f"{tmp_path}/a", NEW, durable=True))
    assert fs.fired == 1


@pytest.mark.parametrize("room", range(len(NEW)))
async def test_an_append_that_finds_no_room_is_cut_off_again(tmp_path, room):
    (tmp_path / "log").write_bytes(b"before\n")
    async with open_disk(ShortWrites(room)) as disk:
        with pytest.raises(OSError, match="No space left"):
            await disk.submit(Append(f"{tmp_path}/log", NEW))
    assert (tmp_path / "log").read_bytes() == b"before\n"


async def test_a_write_in_pieces_is_whole(tmp_path):
    async with open_disk(ShortWrites(1000)) as disk:
        await disk.submit(Append(f"{tmp_path}/log", NEW), Replace(f"{tmp_path}/a", NEW, durable=True))
    assert (tmp_path / "log").read_bytes() == NEW
    assert (tmp_path / "a").read_bytes() == NEW


async def test_after_the_disk_was_full_writes_succeed_again(tmp_path):
    fs = ShortWrites(10)
    async with open_disk(fs) as disk:
        for _ in range(3):
            with pytest.raises(OSError, match="No space left"):
                await disk.submit(Replace(f"{tmp_path}/a", NEW, durable=True))
        fs.room = 1000
        await disk.submit(Replace(f"{tmp_path}/a", NEW, durable=True))
    assert names(tmp_path) == ["a"]


async def test_a_defect_in_the_file_system_is_the_jobs_and_the_thread_lives_on(tmp_path):
    class Broken(Failing):
        def before(self, name):
            if name == "rename" and not self.fired:
                self.fired += 1
                raise ZeroDivisionError

    fs = Broken("rename", 1, 0)
    async with open_disk(fs) as disk:
        with pytest.raises(ZeroDivisionError):
            await disk.submit(Replace(f"{tmp_path}/a", NEW, durable=True))
        await disk.submit(Replace(f"{tmp_path}/a", NEW, durable=True))
    assert names(tmp_path) == ["a"]


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(CALLS),
    nth=st.integers(1, 25),
    forever=st.booleans(),
    sizes=st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=12),
)
async def test_any_fault_leaves_whole_files_and_honest_answers(tmp_path_factory, name, nth, forever, sizes):
    folder = tmp_path_factory.mktemp("faults")
    fs = Failing(name, nth, errno.EIO, forever=forever)
    stored, possible = {}, {}

    async def store(disk, number, key, durable):
        content = b"%d" % number * 3
        possible.setdefault(key, {None}).add(content)
        try:
            await disk.submit(
                Replace(f"{folder}/task{key}", content, durable), Append(f"{folder}/log", content + b"\n")
            )
            outcome = content
        except OSError:
            outcome = None
        stored[key] = max(stored.get(key, (-1, None)), (number, outcome), key=lambda entry: entry[0])

    async with open_disk(fs, helpers=2) as disk, trio.open_nursery() as nursery:
        for number, (key, durable) in enumerate(sizes):
            nursery.start_soon(store, disk, number, key, durable)
            await trio.testing.wait_all_tasks_blocked()
    for key, (_, known) in stored.items():
        content = _read(folder / f"task{key}")
        assert content == known if known is not None else content in possible[key]
    lines = (_read(folder / "log") or b"").splitlines()
    assert set(lines) <= {content for contents in possible.values() for content in contents}
    if name not in {"remove", "close"}:
        assert [entry for entry in names(folder) if entry.startswith(".tmp-")] == []
    assert fs.open == {}
