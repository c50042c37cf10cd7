"""A crash inside a session ends that session; what a dead slot left is settled by its successor, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from actors.session import Session
from actors.task_run import TaskRun
from tests.actors.kit import Later, cancel, decoded, drained, edge, get, listing, refused, send, state, subscribe, until
from volcanic.protocol.errors import ErrorKind

SCRIPT = {
    "rules": [
        {"textPrefix": "wait", "steps": [{"delay": 60}]},
        {"textPrefix": "soon", "steps": [{"delay": 0.05}, {"text": "done"}]},
        {"textPrefix": "ask", "steps": [{"end": "input-required", "text": "which?"}]},
    ]
}


def _break(monkeypatch, owner, name, only):
    """Have a method raise for the session of context `only`; return how often it did."""
    real = getattr(owner, name)
    fired = []

    async def broken(self, *args, **more):
        if self.key[2] == only:
            fired.append(name)
            raise RuntimeError("a bug")
        return await real(self, *args, **more)

    monkeypatch.setattr(owner, name, broken)
    return fired


async def test_a_crashing_session_is_gone_its_asker_refused_and_every_other_keeps_its_identity(
    slot, owners, monkeypatch
):
    """B6: one of many contexts crash-loops."""
    for number in range(50):
        await owners.send_message(send(slot, "echo", context_id=f"c{number}"), 5)
    before = {session.key[2]: session for session in slot.contexts.sessions}
    fired = _break(monkeypatch, Session, "_start", "c7")
    for _ in range(10):
        assert await refused(owners.send_message(send(slot, "echo", context_id="c7"), 5)) is ErrorKind.UNAVAILABLE
    assert len(fired) == 10
    after = {session.key[2]: session for session in slot.contexts.sessions}
    assert "c7" not in after
    assert all(after[key] is before[key] for key in before if key != "c7")
    monkeypatch.undo()
    task = decoded(await owners.send_message(send(slot, "echo", context_id="c7"), 5))["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert next(session for session in slot.contexts.sessions if session.key[2] == "c7") is not before["c7"]


async def test_who_waits_in_the_mailbox_of_a_crashing_session_is_refused_too(slot, owners, monkeypatch):
    parked = decoded(await owners.send_message(send(slot, "ask", context_id="c"), 5))["task"]
    slow, handling = trio.Event(), trio.Event()

    async def broken(self, message):
        handling.set()
        await slow.wait()
        raise RuntimeError("a bug")

    monkeypatch.setattr(Session, "_cancel", broken)
    async with trio.open_nursery() as nursery:
        calls = [Later(nursery, owners.cancel_task, cancel(slot, parked["id"]), 20)]
        await handling.wait()
        calls += [
            Later(nursery, owners.send_message, send(slot, "echo", context_id="c"), 20),
            Later(nursery, _follow, owners, subscribe(slot, parked["id"])),
        ]
        (session,) = slot.contexts.sessions
        await until(lambda: len(session.mailbox) == 2)
        slow.set()
    assert [later.error.kind for later in calls] == [ErrorKind.UNAVAILABLE] * 3
    assert slot.record(parked["id"])["task"] == parked


async def _follow(owners, call):
    async with owners.stream(call, 10) as stream:
        return await drained(stream)


async def test_a_crash_beside_a_run_settles_the_run_and_answers_whoever_caused_it(slot, owners, monkeypatch):
    call = send(slot, "wait", context_id="c")
    fired = _break(monkeypatch, Session, "_follow_run", "c")
    async with trio.open_nursery() as nursery:
        sending = Later(nursery, owners.send_message, call, 20)
        await until(lambda: call.task_id in slot.contexts.runs)
        assert await refused(_follow(owners, subscribe(slot, call.task_id))) is ErrorKind.UNAVAILABLE
        task = decoded(await sending.outcome())["task"]
    assert fired
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert slot.record(call.task_id)["task"] == task
    assert len(slot.contexts.runs) == 0
    monkeypatch.undo()
    assert state(await owners.send_message(send(slot, "soon", context_id="c"), 5)) == "COMPLETED"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_crash_between_a_stored_start_and_its_run_leaves_nobody_waiting(slot, owners, monkeypatch, stream):
    parked = decoded(await owners.send_message(send(slot, "ask", context_id="c"), 5))["task"]
    async with owners.stream(subscribe(slot, parked["id"]), 5) as following:
        await following.receive()

        def broken(self, followers):
            raise RuntimeError("a bug")

        monkeypatch.setattr(TaskRun, "adopt", broken)
        call = send(slot, "soon", task_id=parked["id"], stream=stream)
        with trio.fail_after(5):
            if stream:
                async with owners.stream(call, 5) as opened:
                    _, reason = await drained(opened)
                assert reason == "lost"
            else:
                assert await refused(owners.send_message(call, 5)) is ErrorKind.UNAVAILABLE
        assert len(slot.contexts.runs) == 0
        monkeypatch.undo()
        # Stored as working without a run: the next reader settles it.
        assert state(await owners.get_task(get(slot, parked["id"]), 5)) == "FAILED"


async def test_who_follows_a_waiting_task_is_told_that_its_session_is_lost(slot, owners, monkeypatch):
    parked = decoded(await owners.send_message(send(slot, "ask", context_id="c"), 5))["task"]
    async with owners.stream(subscribe(slot, parked["id"]), 5) as following:
        await following.receive()
        _break(monkeypatch, Session, "_start", "c")
        assert await refused(owners.send_message(send(slot, "echo", context_id="c"), 5)) is ErrorKind.UNAVAILABLE
        with trio.fail_after(5):
            _, reason = await drained(following)
    assert reason == "lost"


# -- what a predecessor left


def _live(slot):
    return Path(slot.live_path)


async def _left_behind(slot, *texts):
    """Run `texts`, a context each, and stop the slot as if its process had been killed; return the task ids."""
    calls = [send(slot, text, context_id=f"c{number}", return_immediately=True) for number, text in enumerate(texts)]
    async with slot.alive() as contexts, edge(slot.path, files=slot.files) as owners:
        for call in calls:
            await owners.send_message(call, 5)
        await until(lambda: len(contexts.runs) == sum(text.startswith("wait") for text in texts))
        killed = slot.snapshot()
    for path, content in killed.items():
        path.write_bytes(content)
    return [call.task_id for call in calls]


async def test_a_successor_fails_what_ran_and_touches_nothing_else(make_slot):
    slot = make_slot(SCRIPT)
    running, parked, finished = await _left_behind(slot, "wait", "ask", "echo")
    before = {task_id: slot.record(task_id) for task_id in (parked, finished)}
    assert slot.record(running)["task"]["status"]["state"] == "TASK_STATE_WORKING"
    # Of the ends nothing reached the log: what the files say counts.
    starts = [line for line in _live(slot).read_bytes().splitlines(keepends=True) if b'"start"' in line]
    assert len(starts) == 3
    _live(slot).write_bytes(b"".join(starts))
    async with slot.alive() as contexts:
        failed = slot.record(running)
        assert failed["task"]["status"]["state"] == "TASK_STATE_FAILED"
        assert failed["task"]["status"]["message"]["parts"] == [{"text": "server restarted"}]
        assert failed["version"] == 2
        assert {task_id: slot.record(task_id) for task_id in before} == before
        assert _live(slot).read_bytes() == b""
        assert await contexts.settle_predecessor() == 0
    async with slot.alive():
        assert slot.record(running) == failed


async def test_a_torn_live_log_loses_no_more_than_its_last_line_and_reads_repair_that_one(make_slot):
    slot = make_slot(SCRIPT)
    first, second = await _left_behind(slot, "wait one", "wait two")
    log = _live(slot).read_bytes()
    torn = log.rstrip(b"\n")
    _live(slot).write_bytes(torn[: len(torn) - 10])
    async with slot.alive(), edge(slot.path, files=slot.files) as owners:
        states = {task_id: slot.record(task_id)["task"]["status"]["state"] for task_id in (first, second)}
        assert sorted(states.values()) == ["TASK_STATE_FAILED", "TASK_STATE_WORKING"]
        for task_id in (first, second):
            assert state(await owners.get_task(get(slot, task_id), 5)) == "FAILED"
            assert slot.record(task_id)["task"]["status"]["message"]["parts"] == [{"text": "server restarted"}]


async def test_a_run_of_another_boot_is_settled_and_garbage_in_the_log_is_passed_over(make_slot):
    slot = make_slot(SCRIPT)
    (running,) = await _left_behind(slot, "wait")
    lines = [json.loads(line) for line in _live(slot).read_bytes().splitlines()]
    other = [line | {"boot": "another", "workspace": slot.layout.root} for line in lines]
    strange = [line | {"workspace": "/nowhere"} for line in lines]
    text = "\n".join(map(json.dumps, [*other, *strange, {"type": "?"}])) + '\n\0\n{"taskId":1}\n'
    _live(slot).write_bytes(text.encode() + b"\xff\xfe\n")
    async with slot.alive():
        pass
    # The strange line was the last word on this task; whoever reads it settles it.
    _live(slot).write_bytes("\n".join(map(json.dumps, other)).encode() + b"\n")
    async with slot.alive():
        assert slot.record(running)["task"]["status"]["state"] == "TASK_STATE_FAILED"


async def test_a_task_that_belongs_to_another_slot_by_now_is_left_to_it(make_slot):
    slot = make_slot(SCRIPT)
    (running,) = await _left_behind(slot, "wait")
    before = slot.record(running)
    slot.owns = lambda task_id: task_id != running
    async with slot.alive():
        assert slot.record(running) == before
    assert _live(slot).read_bytes() == b""


async def test_every_reader_of_an_interrupted_task_finds_it_failed(make_slot):
    slot = make_slot(SCRIPT)
    for read in ("get", "list", "send", "cancel", "subscribe"):
        (running,) = await _left_behind(slot, "wait")
        _live(slot).write_bytes(b"")
        async with slot.alive(), edge(slot.path, files=slot.files) as owners:
            if read == "get":
                assert state(await owners.get_task(get(slot, running), 5)) == "FAILED"
            elif read == "list":
                page = await owners.list_tasks(listing(slot), 5)
                assert {state(row.task) for row in page.rows} == {"FAILED"}
            elif read == "send":
                call = send(slot, "more", task_id=running)
                assert await refused(owners.send_message(call, 5)) is ErrorKind.UNSUPPORTED_OPERATION
            elif read == "cancel":
                assert await refused(owners.cancel_task(cancel(slot, running), 5)) is ErrorKind.TASK_NOT_CANCELABLE
            else:
                assert await refused(_follow(owners, subscribe(slot, running))) is ErrorKind.UNSUPPORTED_OPERATION
            assert slot.record(running)["task"]["status"]["message"]["parts"] == [{"text": "server restarted"}]
