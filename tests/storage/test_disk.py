"""The disk: order, group commit, errors, cancellation, bounds and close."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs

from tests.storage.file_systems import Recording, names
from volcanic.storage.disk import Append, Remove, Replace, open_disk, sweep_temps


class Gate(Recording):
    """Holds every sync until it is opened, so that a test decides what is in a batch."""

    def __init__(self):
        super().__init__()
        self.reached = threading.Semaphore(0)
        self.opened = threading.Semaphore(0)
        self.shut = True

    def sync(self, handle):
        if self.shut:
            self.reached.release()
            assert self.opened.acquire(timeout=10)
        super().sync(handle)

    def open_up(self):
        self.shut = False
        self.opened.release(100)


async def _reached(gate):
    await trio.to_thread.run_sync(lambda: gate.reached.acquire(timeout=10))


def _left(folder):
    return [name for name in names(folder) if name.startswith(".tmp-")]


async def test_each_operation_does_what_it_says(tmp_path):
    folder = str(tmp_path)
    async with open_disk() as disk:
        await disk.submit(
            Replace(f"{folder}/a", b"one", durable=False),
            Replace(f"{folder}/a", b"two", durable=True),
            Append(f"{folder}/log", b"x\n"),
            Append(f"{folder}/log", b"y\n", durable=True),
            Append(f"{folder}/live", b"p\n", keep_open=True),
            Append(f"{folder}/live", b"q\n", keep_open=True, durable=True),
            Append(f"{folder}/new/deep/log", b"z\n", folders=True),
            Replace(f"{folder}/other/deep/file", b"f", durable=True, folders=True),
            Replace(f"{folder}/gone", b"", durable=False),
            Remove(f"{folder}/gone", durable=True),
            Remove(f"{folder}/never"),
        )
    assert (tmp_path / "a").read_bytes() == b"two"
    assert (tmp_path / "log").read_bytes() == b"x\ny\n"
    assert (tmp_path / "live").read_bytes() == b"p\nq\n"
    assert (tmp_path / "new/deep/log").read_bytes() == b"z\n"
    assert (tmp_path / "other/deep/file").read_bytes() == b"f"
    assert not (tmp_path / "gone").exists()
    assert _left(folder) == []
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


async def test_a_durable_replace_is_synced_before_and_after_it_gets_its_name(tmp_path):
    fs = Recording()
    async with open_disk(fs) as disk:
        await disk.submit(Replace(f"{tmp_path}/a", b"one", durable=True))
        done = list(fs.calls)
    temp = done[0][1]
    assert Path(temp).parent == tmp_path
    assert done == [
        ("create", temp),
        ("write", temp),
        ("sync", temp),
        ("close", temp),
        ("rename", (temp, f"{tmp_path}/a")),
        ("open_folder", str(tmp_path)),
        ("sync", str(tmp_path)),
        ("close", str(tmp_path)),
    ]


async def test_what_is_not_durable_is_not_synced(tmp_path):
    fs = Recording()
    async with open_disk(fs) as disk:
        await disk.submit(Replace(f"{tmp_path}/a", b"one", durable=False), Append(f"{tmp_path}/l", b"x"))
    assert [name for name, _ in fs.calls if name == "sync"] == []


async def test_jobs_that_wait_together_share_one_folder_sync_and_keep_their_order(tmp_path):
    fs = Gate()
    async with open_disk(fs) as disk, trio.open_nursery() as nursery:
        nursery.start_soon(disk.submit, Replace(f"{tmp_path}/first", b"1", durable=True))
        await _reached(fs)
        for number in range(10):
            nursery.start_soon(
                disk.submit,
                Append(f"{tmp_path}/log", b"%d," % number),
                Replace(f"{tmp_path}/file{number}", b"x", durable=True),
                Append(f"{tmp_path}/log", b"%d;" % number),
            )
            await trio.testing.wait_all_tasks_blocked()
        fs.open_up()
    assert disk.batches == 2
    assert disk.largest == 10
    assert disk.jobs == 11
    assert [call for call in fs.calls if call == ("sync", str(tmp_path))] == [("sync", str(tmp_path))] * 2
    assert (tmp_path / "log").read_bytes() == b"".join(b"%d,%d;" % (number, number) for number in range(10))


async def test_an_error_is_its_own_jobs_alone_and_stops_that_job(tmp_path):
    fs = Gate()
    failed = []

    async def failing(disk):
        with pytest.raises(FileNotFoundError) as caught:
            await disk.submit(
                Append(f"{tmp_path}/log", b"before,"),
                Replace(f"{tmp_path}/none/file", b"x", durable=True),
                Append(f"{tmp_path}/log", b"AFTER"),
                Replace(f"{tmp_path}/unwritten", b"x", durable=True),
            )
        failed.append(caught.value)

    async with open_disk(fs) as disk, trio.open_nursery() as nursery:
        nursery.start_soon(disk.submit, Replace(f"{tmp_path}/first", b"1", durable=True))
        await _reached(fs)
        nursery.start_soon(failing, disk)
        nursery.start_soon(disk.submit, Replace(f"{tmp_path}/fine", b"2", durable=True))
        await trio.testing.wait_all_tasks_blocked()
        fs.open_up()
    assert len(failed) == 1
    assert disk.batches == 2
    assert (tmp_path / "log").read_bytes() == b"before,"
    assert (tmp_path / "fine").read_bytes() == b"2"
    assert names(tmp_path) == ["fine", "first", "log"]


async def test_a_cancelled_submitter_leaves_its_job_to_complete(tmp_path):
    fs = Gate()
    async with open_disk(fs) as disk:
        with trio.move_on_after(0.05) as scope:
            await disk.submit(Replace(f"{tmp_path}/a", b"one", durable=True), Append(f"{tmp_path}/log", b"x"))
        assert scope.cancelled_caught
        fs.open_up()
    assert (tmp_path / "a").read_bytes() == b"one"
    assert (tmp_path / "log").read_bytes() == b"x"


async def test_a_job_of_a_submitter_already_cancelled_is_not_begun(tmp_path):
    async with open_disk() as disk:
        with trio.CancelScope() as scope:
            scope.cancel()
            await disk.submit(Append(f"{tmp_path}/log", b"x"))
        assert scope.cancelled_caught
        await disk.submit()
    assert names(tmp_path) == []


async def test_the_error_of_an_abandoned_job_is_logged(tmp_path):
    fs = Gate()
    with capture_logs() as logs:
        async with open_disk(fs) as disk:
            with trio.move_on_after(0.05):
                await disk.submit(
                    Replace(f"{tmp_path}/a", b"", durable=True), Replace(f"{tmp_path}/none/a", b"", False)
                )
            fs.open_up()
    assert [entry["log_level"] for entry in logs] == ["warning"]


async def test_submitters_over_the_bound_wait_for_room_and_are_served(tmp_path):
    fs = Gate()
    finished = []

    async def one(disk, number):
        await disk.submit(Append(f"{tmp_path}/log", b"%d," % number))
        finished.append(number)

    async with open_disk(fs, capacity=3) as disk, trio.open_nursery() as nursery:
        nursery.start_soon(disk.submit, Replace(f"{tmp_path}/first", b"", durable=True))
        await _reached(fs)
        for number in range(9):
            nursery.start_soon(one, disk, number)
            await trio.testing.wait_all_tasks_blocked()
        assert disk.waiting() == 9
        fs.open_up()
    assert sorted(finished) == list(range(9))
    assert disk.largest <= 3
    assert disk.batches <= 7
    assert (tmp_path / "log").read_bytes() == b"".join(b"%d," % number for number in range(9))


async def test_a_submitter_that_is_cancelled_before_there_is_room_never_submitted(tmp_path):
    fs = Gate()
    async with open_disk(fs, capacity=1) as disk, trio.open_nursery() as nursery:
        nursery.start_soon(disk.submit, Replace(f"{tmp_path}/first", b"", durable=True))
        await _reached(fs)
        with trio.move_on_after(0.05):
            await disk.submit(Append(f"{tmp_path}/log", b"x"))
        fs.open_up()
    assert names(tmp_path) == ["first"]


async def test_the_loop_runs_on_while_the_disk_is_slow(tmp_path):
    fs = Gate()
    async with open_disk(fs) as disk, trio.open_nursery() as nursery:
        nursery.start_soon(disk.submit, Replace(f"{tmp_path}/a", b"", durable=True))
        await _reached(fs)
        started = trio.current_time()
        for _ in range(100):
            await trio.lowlevel.checkpoint()
        assert trio.current_time() - started < 1
        fs.open_up()


async def test_close_waits_for_what_was_submitted_even_when_cancelled(tmp_path):
    fs = Gate()
    with trio.CancelScope() as scope:
        async with open_disk(fs) as disk, trio.open_nursery() as nursery:
            nursery.start_soon(disk.submit, Replace(f"{tmp_path}/a", b"one", durable=True))
            await _reached(fs)
            threading.Timer(0.1, fs.open_up).start()
            scope.cancel()
    assert (tmp_path / "a").read_bytes() == b"one"


async def test_close_gives_up_on_a_disk_that_hangs(tmp_path):
    fs = Gate()
    with capture_logs() as logs:
        with trio.CancelScope() as scope:
            async with open_disk(fs, drain_seconds=0.1) as disk, trio.open_nursery() as nursery:
                nursery.start_soon(disk.submit, Replace(f"{tmp_path}/a", b"one", durable=True))
                await _reached(fs)
                scope.cancel()
        assert [entry["log_level"] for entry in logs] == ["error"]
    fs.open_up()
    await trio.to_thread.run_sync(lambda: [thread.join(5) for thread in threading.enumerate() if thread.name == "disk"])


async def test_a_closed_disk_takes_nothing(tmp_path):
    async with open_disk() as disk:
        pass
    with pytest.raises(trio.ClosedResourceError):
        await disk.submit(Append(f"{tmp_path}/log", b"x"))
    assert names(tmp_path) == []


async def test_no_thread_outlives_the_disk(tmp_path):
    before = {thread.name for thread in threading.enumerate()}
    async with open_disk() as disk, trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(disk.submit, Replace(f"{tmp_path}/{number}", b"x", durable=True))
    await trio.sleep(0.05)
    assert {thread.name for thread in threading.enumerate() if thread.name.startswith("disk")} <= before


async def test_nothing_to_do_is_a_wait_for_what_went_before(tmp_path):
    fs = Gate()
    passed = trio.Event()

    async def barrier(disk):
        await disk.submit()
        passed.set()

    async with open_disk(fs) as disk, trio.open_nursery() as nursery:
        nursery.start_soon(disk.submit, Replace(f"{tmp_path}/a", b"", durable=True))
        await _reached(fs)
        nursery.start_soon(barrier, disk)
        await trio.testing.wait_all_tasks_blocked()
        assert not passed.is_set()
        fs.open_up()
    assert passed.is_set()


async def test_a_batchs_folders_are_synced_with_the_next_batchs_files(tmp_path):
    fs = Gate()
    done = []

    async def one(disk, name, *ops):
        await disk.submit(*ops)
        done.append(name)

    async with open_disk(fs) as disk, trio.open_nursery() as nursery:
        nursery.start_soon(one, disk, "first", Replace(f"{tmp_path}/first", b"", durable=True))
        await _reached(fs)
        nursery.start_soon(one, disk, "second", Replace(f"{tmp_path}/second", b"", durable=True))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(one, disk, "third", Append(f"{tmp_path}/third", b""))
        nursery.start_soon(one, disk, "barrier")
        await trio.testing.wait_all_tasks_blocked()
        fs.opened.release()
        await _reached(fs)
        await _reached(fs)  # side by side: the folder for the first file, and the second file
        assert done == []
        fs.opened.release(2)
        await _reached(fs)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert sorted(done) == ["first", "third"]
        fs.open_up()
    assert sorted(done) == ["barrier", "first", "second", "third"]
    assert [path for name, path in fs.calls if name == "sync"].count(str(tmp_path)) == 2


async def test_the_same_operation_twice_leaves_no_temp_file(tmp_path):
    op = Replace(f"{tmp_path}/a", b"one", durable=True)
    async with open_disk() as disk:
        await disk.submit(op, op)
    assert names(tmp_path) == ["a"]


async def test_a_replaced_file_is_appended_to_anew(tmp_path):
    path = f"{tmp_path}/live"
    async with open_disk() as disk:
        await disk.submit(Append(path, b"old,", keep_open=True))
        await disk.submit(Replace(path, b"new,", durable=False), Append(path, b"more", keep_open=True))
        await disk.submit(Remove(path), Append(path, b"again", keep_open=True))
    assert (tmp_path / "live").read_bytes() == b"again"


async def test_handles_kept_open_are_few(tmp_path):
    fs = Recording()
    async with open_disk(fs) as disk:
        for number in range(100):
            await disk.submit(Append(f"{tmp_path}/{number}", b"x", keep_open=True))
        assert len(fs.open) == 64
    assert fs.open == {}


async def test_a_fifo_in_a_files_place_does_not_hold_up_the_disk(tmp_path):
    os.mkfifo(tmp_path / "log")
    async with open_disk() as disk:
        with trio.fail_after(5), pytest.raises(OSError, match="No such device or address"):
            await disk.submit(Append(f"{tmp_path}/log", b"x"))


def test_leftover_temp_files_are_swept_by_age(tmp_path):
    for name, age in ((".tmp-aa-1", 100), (".tmp-bb-2", 0), ("task.json", 100)):
        (tmp_path / name).write_bytes(b"")
        at = (tmp_path / name).stat().st_mtime - age
        os.utime(tmp_path / name, (at, at))
    assert sweep_temps(str(tmp_path), 60) == 1
    assert names(tmp_path) == [".tmp-bb-2", "task.json"]
    assert sweep_temps(f"{tmp_path}/none", 60) == 0


def test_temp_files_of_the_disk_are_what_is_swept(tmp_path):
    fs = Recording()

    async def interrupted():
        async with open_disk(fs) as disk:
            await disk.submit(Replace(f"{tmp_path}/a", b"one", durable=True))

    trio.run(interrupted)
    temp = Path(fs.calls[0][1]).name
    (tmp_path / temp).write_bytes(b"left by a crash")
    assert sweep_temps(str(tmp_path), 0) == 1
    assert names(tmp_path) == ["a"]


async def test_what_a_killed_disk_left_goes_and_what_the_living_one_writes_stays(tmp_path):
    async with open_disk(name="agents-1") as disk:
        assert disk.token.startswith("agents-1-")
        mine = tmp_path / f".tmp-{disk.token}-1"
        for path in (mine, tmp_path / ".tmp-agents-1-dead0000-1", tmp_path / ".tmp-agents-10-dead0000-1"):
            path.write_bytes(b"")
        assert sweep_temps(str(tmp_path), 0.0, "agents-1", disk.token) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([mine.name, ".tmp-agents-10-dead0000-1"])
