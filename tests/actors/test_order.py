"""Between a write and its end: whoever asks then gets what is stored, in order, and is answered at all."""

from __future__ import annotations

import pytest
import trio

from actors.messages import Event
from tests.actors.disks import Gate
from tests.actors.kit import Later, cancel, decoded, drained, edge, get, listing, refused, send, state, subscribe, until
from volcanic.protocol.errors import ErrorKind

SCRIPT = {
    "rules": [
        {"textPrefix": "wait", "steps": [{"delay": 60}]},
        {"textPrefix": "later", "steps": [{"delay": 0.2}]},
        {"textPrefix": "ask", "steps": [{"end": "input-required", "text": "which?"}]},
        {"textPrefix": "note", "steps": [{"status": "thinking"}, {"delay": 0.2}, {"text": "done"}]},
        {
            "textPrefix": "file",
            "steps": [{"artifact": {"artifactId": "f", "parts": [{"text": "x"}], "lastChunk": True}}],
        },
        {"textPrefix": "direct", "steps": [{"message": "hello"}]},
    ]
}


@pytest.fixture
def gated(make_slot):
    slot = make_slot(SCRIPT)
    slot.fs = gate = Gate()
    slot.before_stop = gate.open_gate
    return slot


async def _at_its_end(slot, owners, nursery, text, **more):
    """Start a blocking run and return when its end is being written, with the call."""
    slot.fs.close_at("sync")  # a blocking run's start is not synced: the first sync is its end's
    call = send(slot, text, **more)
    waiting = Later(nursery, owners.send_message, call, 20)
    await until(slot.fs.held.is_set)
    assert not waiting.done
    return call, waiting


@pytest.mark.parametrize("read", ["get", "list", "subscribe"])
async def test_a_read_that_meets_a_run_at_its_end_never_puts_its_beginning_back(gated, read):
    async with gated.alive(), edge(gated.path, files=gated.files) as owners, trio.open_nursery() as nursery:
        call, waiting = await _at_its_end(gated, owners, nursery, "echo")
        if read == "get":
            reading = Later(nursery, owners.get_task, get(gated, call.task_id), 20)
        elif read == "list":
            reading = Later(nursery, owners.list_tasks, listing(gated), 20)
        else:
            reading = Later(nursery, _follow, owners, subscribe(gated, call.task_id))
        await trio.sleep(0.1)
        gated.fs.open_gate()
        assert state(await waiting.outcome()) == "COMPLETED"
        if read == "subscribe":
            assert await refused(reading.outcome()) is ErrorKind.UNSUPPORTED_OPERATION
        else:
            await reading.outcome()
        stored = gated.record(call.task_id)
        assert stored["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert state(await owners.get_task(get(gated, call.task_id), 5)) == "COMPLETED"
    async with gated.alive(), edge(gated.path, files=gated.files) as owners:
        assert state(await owners.get_task(get(gated, call.task_id), 5)) == "COMPLETED"


async def _follow(owners, call):
    async with owners.stream(call, 10) as stream:
        return await drained(stream)


async def test_a_read_that_meets_a_status_note_never_puts_the_state_before_it_back(gated):
    async with gated.alive(), edge(gated.path, files=gated.files) as owners, trio.open_nursery() as nursery:
        gated.fs.close_at("sync")
        call = send(gated, "note")
        waiting = Later(nursery, owners.send_message, call, 20)
        await until(gated.fs.held.is_set)
        reading = Later(nursery, owners.get_task, get(gated, call.task_id), 20)
        await trio.sleep(0.1)
        gated.fs.open_gate()
        shown = decoded(await reading.outcome())
        assert shown["status"]["message"]["parts"] == [{"text": "thinking"}]
        assert gated.record(call.task_id)["version"] >= 2
        assert state(await waiting.outcome()) == "COMPLETED"


async def test_a_cancel_that_meets_an_end_being_stored_is_answered_by_that_end(gated):
    async with gated.alive(), edge(gated.path, files=gated.files) as owners, trio.open_nursery() as nursery:
        call, waiting = await _at_its_end(gated, owners, nursery, "echo")
        canceling = Later(nursery, owners.cancel_task, cancel(gated, call.task_id), 20)
        await trio.sleep(0.1)
        gated.fs.open_gate()
        assert await refused(canceling.outcome()) is ErrorKind.TASK_NOT_CANCELABLE
        assert state(await waiting.outcome()) == "COMPLETED"


async def test_a_cancel_that_meets_a_question_being_stored_cancels_the_waiting_task(gated):
    async with gated.alive(), edge(gated.path, files=gated.files) as owners, trio.open_nursery() as nursery:
        call, waiting = await _at_its_end(gated, owners, nursery, "ask")
        canceling = Later(nursery, owners.cancel_task, cancel(gated, call.task_id), 20)
        await trio.sleep(0.1)
        gated.fs.open_gate()
        assert state(await canceling.outcome()) == "CANCELED"
        assert state(await waiting.outcome()) == "INPUT_REQUIRED"
        assert state(await owners.get_task(get(gated, call.task_id), 5)) == "CANCELED"


async def test_a_cancel_behind_a_subscription_that_waits_for_the_disk_is_answered_although_the_run_ended(gated):
    async with gated.alive(), edge(gated.path, files=gated.files) as owners, trio.open_nursery() as nursery:
        call, waiting = await _at_its_end(gated, owners, nursery, "echo")
        following = Later(nursery, _follow, owners, subscribe(gated, call.task_id))
        await trio.sleep(0.05)
        canceling = Later(nursery, owners.cancel_task, cancel(gated, call.task_id), 20)
        again = Later(nursery, owners.send_message, _again(call), 20)
        await trio.sleep(0.05)
        gated.fs.open_gate()
        assert await refused(following.outcome()) is ErrorKind.UNSUPPORTED_OPERATION
        assert await refused(canceling.outcome()) is ErrorKind.TASK_NOT_CANCELABLE
        assert state(await waiting.outcome()) == "COMPLETED"
        assert decoded(await again.outcome())["task"]["id"] == call.task_id


def _again(call):
    return type(call)(**{name: getattr(call, name) for name in call.__struct_fields__} | {"again": True})


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_asked_again_while_another_run_is_live_is_answered_with_what_became_of_it(gated, stream):
    async with gated.alive(), edge(gated.path, files=gated.files) as owners, trio.open_nursery() as nursery:
        first = send(gated, "echo", context_id="c")
        assert state(await owners.send_message(first, 5)) == "COMPLETED"
        second = send(gated, "wait", context_id="c", return_immediately=True)
        assert state(await owners.send_message(second, 5)) == "WORKING"
        if stream:
            call = _again(first)
            call.stream = True
            async with owners.stream(call, 5) as events:
                found, reason = await drained(events)
            assert [event["task"]["id"] for event in found] == [first.task_id]
            assert reason == ""
        else:
            task = decoded(await owners.send_message(_again(first), 5))["task"]
            assert (task["id"], task["status"]["state"]) == (first.task_id, "TASK_STATE_COMPLETED")
        assert (
            await refused(owners.send_message(send(gated, "echo", context_id="c"), 5))
            is ErrorKind.UNSUPPORTED_OPERATION
        )
        assert state(await owners.get_task(get(gated, second.task_id), 5)) == "WORKING"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_listing_shows_no_end_that_the_disk_has_yet_to_confirm(gated, at_once):
    """Renamed but not synced, the file says completed: were the power cut now, it never was."""
    async with gated.alive(), edge(gated.path, files=gated.files) as owners, trio.open_nursery() as nursery:
        call = send(gated, "later" if at_once else "echo", return_immediately=at_once)
        if at_once:
            await owners.send_message(call, 5)
        gated.fs.close_at("sync", "tasks")
        if not at_once:
            Later(nursery, owners.send_message, call, 20)
        await until(gated.fs.held.is_set)
        assert gated.record(call.task_id)["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        reading = Later(nursery, owners.list_tasks, listing(gated), 20)
        await trio.sleep(0.1)
        assert not reading.done
        gated.fs.open_gate()
        (row,) = (await reading.outcome()).rows
        assert state(row.task) == "COMPLETED"


async def test_a_listing_that_meets_a_plain_answer_neither_shows_its_task_nor_brings_it_back(gated):
    async with gated.alive(), edge(gated.path, files=gated.files) as owners, trio.open_nursery() as nursery:
        gated.fs.close_at("remove")
        call = send(gated, "direct")
        waiting = Later(nursery, owners.send_message, call, 20)
        await until(gated.fs.held.is_set)
        reading = Later(nursery, owners.list_tasks, listing(gated), 20)
        await trio.sleep(0.1)
        gated.fs.open_gate()
        assert decoded(await waiting.outcome())["message"]["parts"] == [{"text": "hello"}]
        assert (await reading.outcome()).rows == []
        assert gated.files.read(call.task_id) is None
        assert (await owners.list_tasks(listing(gated), 5)).total == 0


@pytest.mark.parametrize("text", ["echo", "note", "file", "ask"])
async def test_nothing_is_shown_before_it_is_stored(gated, text):
    """Each event with a version, and each answer, comes after the folder's sync that made that version sure."""
    async with (
        gated.alive(),
        edge(gated.path, files=gated.files) as owners,
        owners.stream(send(gated, text, stream=True), 10) as stream,
    ):
        seen = 0
        while isinstance(frame := await stream.receive(), Event):
            if frame.version:
                synced = sum(1 for name, path in gated.fs.calls if name == "sync" and path.endswith("/tasks"))
                seen += 1
                assert synced >= frame.version, "told first"
        assert seen >= 2


@pytest.mark.parametrize(
    ("text", "more"),
    [("echo", {}), ("wait", {"return_immediately": True}), ("ask", {})],
)
async def test_an_answer_waits_for_the_sync_of_what_it_says(gated, text, more):
    async with gated.alive(), edge(gated.path, files=gated.files) as owners, trio.open_nursery() as nursery:
        gated.fs.close_at("sync", "tasks")
        waiting = Later(nursery, owners.send_message, send(gated, text, **more), 20)
        await until(gated.fs.held.is_set)
        await trio.sleep(0.05)
        assert not waiting.done
        gated.fs.open_gate()
        await waiting.outcome()
        nursery.cancel_scope.cancel()


async def test_a_cancel_is_answered_when_the_canceled_state_is_stored(gated):
    async with gated.alive(), edge(gated.path, files=gated.files) as owners, trio.open_nursery() as nursery:
        waiting = decoded(await owners.send_message(send(gated, "ask"), 5))["task"]
        running = decoded(await owners.send_message(send(gated, "wait", return_immediately=True), 5))["task"]
        for task in (waiting, running):
            gated.fs.close_at("sync", "tasks")
            canceling = Later(nursery, owners.cancel_task, cancel(gated, task["id"]), 20)
            await until(gated.fs.held.is_set)
            await trio.sleep(0.05)
            assert not canceling.done
            gated.fs.open_gate()
            assert state(await canceling.outcome()) == "CANCELED"
