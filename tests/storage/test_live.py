"""The live log: which runs a predecessor left, whatever the crash did to the file."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from volcanic.storage import live as module
from volcanic.storage.disk import open_disk
from volcanic.storage.live import LiveLog, LiveRun


def _run(task_id, incarnation=1):
    return LiveRun(task_id=task_id, workspace="/ws", caller="a", op=f"op-{task_id}", boot="b", incarnation=incarnation)


def _content(path):
    return Path(path).read_bytes()


def _add(path, data):
    with Path(path).open("ab") as file:
        file.write(data)


async def test_the_runs_without_an_end_are_what_is_left(tmp_path):
    path = f"{tmp_path}/live/agents-0"
    log = LiveLog(path)
    assert log.unfinished() == []
    async with open_disk() as disk:
        await disk.submit(log.compact_op())
        for task_id in "abc":
            await disk.submit(log.start_op(_run(task_id)))
        await disk.submit(log.end_op("b"), log.end_op("never started"))
        await disk.submit(log.end_op("a"), log.start_op(_run("a", 2)))
    assert LiveLog(path).unfinished() == [_run("c"), _run("a", 2)]


async def test_a_successor_goes_on_from_a_compacted_log(tmp_path):
    path = f"{tmp_path}/live"
    first = LiveLog(path)
    async with open_disk() as disk:
        await disk.submit(first.start_op(_run("a")), first.start_op(_run("b")))
        _add(path, b'{"type":"end","taskId":"b"')  # torn
        second = LiveLog(path)
        assert [run.task_id for run in second.unfinished()] == ["a", "b"]
        await disk.submit(second.end_op("a"), second.compact_op(), second.start_op(_run("c")))
    assert [run.task_id for run in LiveLog(path).unfinished()] == ["b", "c"]


async def test_a_long_log_is_written_anew_with_what_still_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "COMPACT_BYTES", 4000)
    path = f"{tmp_path}/live"
    log = LiveLog(path)
    compacted = 0
    async with open_disk() as disk:
        held = log.start_op(_run("held"))
        await disk.submit(log.start_op(_run("long")))
        for number in range(300):
            await disk.submit(log.start_op(_run(f"t{number}")), log.end_op(f"t{number}"))
            if log.overgrown():
                compacted += 1
                await disk.submit(log.compact_op())
        assert len(_content(path)) < 8000
        await disk.submit(held)
    assert compacted > 5
    assert sorted(run.task_id for run in LiveLog(path).unfinished()) == ["held", "long"]


async def test_a_start_that_was_held_back_takes_no_other_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "COMPACT_BYTES", 100)
    log = LiveLog(f"{tmp_path}/live")
    held = [log.start_op(_run(f"held-{number}")) for number in range(20)]
    async with open_disk() as disk:
        await disk.submit(log.start_op(_run("other")))
        await disk.submit(*held)
    assert len(LiveLog(f"{tmp_path}/live").unfinished()) == 21


def test_what_is_no_log_has_no_runs(tmp_path):
    assert LiveLog(str(tmp_path)).unfinished() == []
    os.mkfifo(tmp_path / "fifo")
    assert LiveLog(f"{tmp_path}/fifo").unfinished() == []


@given(st.data())
def test_a_cut_log_gives_the_runs_of_its_whole_lines(tmp_path_factory, data):
    lines, expected = [b""], [[]]
    log = LiveLog("/none")
    running = {}
    for task_id in data.draw(st.lists(st.sampled_from("abcde"), max_size=12)):
        if task_id in running:
            del running[task_id]
            lines.append(log.end_op(task_id).data)
        else:
            running[task_id] = _run(task_id)
            lines.append(log.start_op(running[task_id]).data)
        expected.append(list(running.values()))
    content = b"".join(lines)
    cut = data.draw(st.integers(0, len(content)))
    path = tmp_path_factory.mktemp("live") / "log"
    path.write_bytes(content[:cut])
    ends = [sum(map(len, lines[: number + 1])) for number in range(len(lines))]
    # a line is whole with or without its newline
    whole = max(number for number, end in enumerate(ends) if end <= cut or (number and end - 1 == cut))
    assert LiveLog(str(path)).unfinished() == expected[whole]
