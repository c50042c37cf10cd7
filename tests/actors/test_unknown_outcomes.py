"""The Owner API with either side lost at every byte and every frame: one run for each send, one answer for each call."""

from __future__ import annotations

import pytest
import trio

from tests.actors.kit import decoded, drained, edge, get, listing, send, subscribe, until

SCRIPT = {
    "rules": [
        {"textPrefix": "slow", "steps": [{"text": "one "}, {"delay": 0.02}, {"text": "two"}]},
        {"textPrefix": "long", "steps": [{"delay": 60}]},
        {"textPrefix": "ask", "steps": [{"end": "input-required", "text": "which?"}]},
        {"textPrefix": "count", "steps": [{"text": "run {n}"}]},
    ]
}


async def _bytes(make_slot, make_wire, way, text, **more):
    """Return how many bytes pass in one direction when nothing breaks, less what varies from one time to the next."""
    slot = make_slot(SCRIPT, "dry")
    wire = make_wire(slot)
    async with slot.alive(), trio.open_nursery() as nursery:
        await nursery.start(wire.run)
        async with edge(wire.path) as owners:
            if more:
                async with owners.stream(send(slot, text, **more), 10) as stream:
                    await drained(stream)
            else:
                await owners.send_message(send(slot, text, context_id="c"), 10)
        nursery.cancel_scope.cancel()
    return {"up": wire.up, "down": wire.down}[way] - 40


@pytest.mark.parametrize("way", ["up", "down"])
async def test_a_send_whose_link_breaks_at_any_byte_runs_once_and_is_answered(make_slot, make_wire, way):
    total = await _bytes(make_slot, make_wire, way, "count")
    for number, cut in enumerate(range(0, total, 7)):
        slot = make_slot(SCRIPT, str(number))
        wire = make_wire(slot)
        setattr(wire, f"cut_{way}", cut)
        async with slot.alive(), trio.open_nursery() as nursery:
            await nursery.start(wire.run)
            async with edge(wire.path) as owners:
                call = send(slot, "count", context_id="c")
                task = decoded(await owners.send_message(call, 10))["task"]
                assert wire.cuts == 1, "the fault did not fire"
                assert task["id"] == call.task_id
                assert task["status"]["state"] == "TASK_STATE_COMPLETED"
                assert task["artifacts"][0]["parts"] == [{"text": "run 1"}], f"cut {way} at {cut}: it ran twice"
                assert len(task["history"]) == 1
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("way", ["up", "down"])
async def test_a_stream_whose_link_breaks_at_any_byte_has_one_beginning_and_one_end(make_slot, make_wire, way):
    total = await _bytes(make_slot, make_wire, way, "slow", stream=True)
    for number, cut in enumerate(range(0, total, 53)):
        slot = make_slot(SCRIPT, str(number))
        wire = make_wire(slot)
        setattr(wire, f"cut_{way}", cut)
        async with slot.alive(), trio.open_nursery() as nursery:
            await nursery.start(wire.run)
            async with edge(wire.path, files=slot.files) as owners:
                async with owners.stream(send(slot, "slow", stream=True), 10) as stream:
                    events, reason = await drained(stream)
                where = f"cut {way} at {cut}: {events}"
                assert wire.cuts == 1, "the fault did not fire"
                assert reason == "", where
                assert ["task" in event for event in events] == [True] + [False] * (len(events) - 1), where
                versions = [event["version"] for event in events if event["version"]]
                assert versions == sorted(set(versions)), where
                last = events[-1].get("statusUpdate") or events[-1]["task"]
                assert last["status"]["state"] == "TASK_STATE_COMPLETED", where
                assert _text(events) == "one two", where
            nursery.cancel_scope.cancel()


def _text(events):
    """Return the response as a reader who follows append and replace has it."""
    text = ""
    for event in events:
        if "task" in event:
            text = "".join(p["text"] for a in event["task"].get("artifacts", []) for p in a["parts"])
        elif "artifactUpdate" in event:
            piece = "".join(part["text"] for part in event["artifactUpdate"]["artifact"]["parts"])
            text = text + piece if event["artifactUpdate"].get("append") else piece
    return text


async def test_a_blocked_sender_is_answered_by_the_successor_of_its_slot(make_slot, make_wire):
    slot = make_slot(SCRIPT)
    answers = []

    async def ask(owners):
        answers.append(decoded(await owners.send_message(send(slot, "long", context_id="c"), 30))["task"])

    async with edge(slot.path) as owners, trio.open_nursery() as nursery:
        async with slot.alive() as contexts:
            nursery.start_soon(ask, owners)
            await until(lambda: len(contexts.runs) == 1 and len(slot.snapshot()) == 2)
            killed = slot.snapshot()
        # What the end of this incarnation wrote is taken back: its process was killed.
        for path, content in killed.items():
            path.write_bytes(content)
        async with slot.alive():
            await until(lambda: bool(answers), 10)
    assert answers[0]["status"]["state"] == "TASK_STATE_FAILED"
    assert answers[0]["status"]["message"]["parts"] == [{"text": "server restarted"}]


async def test_a_follower_of_a_waiting_task_finds_it_again_after_its_slot_was_replaced(make_slot, make_wire):
    slot = make_slot(SCRIPT)
    async with edge(slot.path, files=slot.files) as owners:
        async with slot.alive():
            task = decoded(await owners.send_message(send(slot, "ask", context_id="c"), 10))["task"]
            async with owners.stream(subscribe(slot, task["id"]), 10) as stream:
                assert "task" in decoded((await stream.receive()).payload)
        async with slot.alive(), owners.stream(subscribe(slot, task["id"]), 10) as stream:
            snapshot = decoded((await stream.receive()).payload)["task"]
            assert snapshot["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            reply = decoded(await owners.send_message(send(slot, "count", task_id=task["id"]), 10))["task"]
            assert reply["status"]["state"] == "TASK_STATE_COMPLETED"
            events, reason = await drained(stream)
            states = [event["statusUpdate"]["status"]["state"] for event in events if "statusUpdate" in event]
            assert states == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
            assert reason == ""


async def test_a_read_whose_link_breaks_is_asked_again(make_slot, make_wire):
    slot = make_slot(SCRIPT)
    wire = make_wire(slot)
    async with slot.alive(), trio.open_nursery() as nursery:
        async with edge(slot.path) as owners:
            task = decoded(await owners.send_message(send(slot, "long", return_immediately=True), 10))["task"]
        await nursery.start(wire.run)
        async with edge(wire.path, files=slot.files) as owners:
            await until(owners.ready)
            wire.cut_up = wire.up + 20
            read = decoded(await owners.get_task(get(slot, task["id"]), 10))
            assert wire.cuts == 1, "the fault did not fire"
            assert read["status"]["state"] == "TASK_STATE_WORKING"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("stopping", "state"), [(True, "COMPLETED"), (False, "CANCELED")])
async def test_an_edge_that_stops_takes_no_run_with_it(make_slot, make_wire, stopping, state):
    slot = make_slot(SCRIPT)
    async with slot.alive() as contexts, edge(slot.path, stopping=stopping) as owners:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(owners.send_message, send(slot, "slow", context_id="c", cancel_on_disconnect=True), 10)
            await until(lambda: len(contexts.runs) == 1)
            nursery.cancel_scope.cancel()
        await until(lambda: len(contexts.runs) == 0)
        (row,) = (await owners.list_tasks(listing(slot), 10)).rows
        assert decoded(row.task)["status"]["state"] == f"TASK_STATE_{state}"
