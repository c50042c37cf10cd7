"""Followers of runs and of waiting tasks: timely, in order, alike for all, and a slow one harms itself alone."""

from __future__ import annotations

import random
import time
from functools import partial

import trio

from actors.messages import End
from tests.actors.kit import Later, Pace, decoded, drained, edge, get, refused, send, state, subscribe, until
from tests.actors.reader import Reader, texts_of
from volcanic.protocol.errors import ErrorKind

SCRIPT = {
    "rules": [
        {"textPrefix": "slowly", "steps": [{"text": "early "}, {"delay": 0.3}, {"text": "late"}]},
        {"textPrefix": "soon", "steps": [{"text": "one "}, {"delay": 0.02}, {"text": "two"}]},
        {"textPrefix": "wait", "steps": [{"text": "partial"}, {"delay": 60}]},
        {"textPrefix": "ask", "steps": [{"text": "hm"}, {"end": "input-required", "text": "which?"}]},
        {"textPrefix": "much", "steps": [{"delay": 2}, *[{"status": "x" * 900}] * 40, {"text": "end"}]},
        {"textPrefix": "burst", "steps": [{"delay": 0.2}, *[{"text": "z" * 1000}] * 600]},
        {
            "textPrefix": "many",
            "steps": [{"artifact": {"artifactId": "a", "parts": [{"text": "y" * 100}], "append": True}}] * 1500,
        },
    ],
    "chunk": 1000,
}
SETTINGS = {"stream_buffer_bytes": 8 * 1024}


async def _read(owners, call):
    reader = Reader()
    async with owners.stream(call, 10) as stream:
        while not isinstance(frame := await stream.receive(), End):
            reader.event(frame.version, frame.payload)
        reader.end(frame.reason)
    return reader


async def test_who_follows_a_run_that_nobody_followed_at_its_start_sees_text_as_it_comes(slot, owners):
    call = send(slot, "slowly", return_immediately=True)
    await owners.send_message(call, 5)
    async with owners.stream(subscribe(slot, call.task_id), 5) as stream:
        began = time.monotonic()
        reader = Reader()
        while reader.artifacts.get("response") != "early ":
            frame = await stream.receive()
            reader.event(frame.version, frame.payload)
        assert time.monotonic() - began < 0.25
        await drained(stream)


async def test_a_waiting_task_is_followed_through_its_continuations_to_its_end(slot, owners):
    task = decoded(await owners.send_message(send(slot, "ask", context_id="c"), 5))["task"]
    async with trio.open_nursery() as nursery:
        following = Later(nursery, _read, owners, subscribe(slot, task["id"]))
        await until(lambda: any(session._followers for session in slot.contexts.sessions))
        for text, ends in (("ask", "INPUT_REQUIRED"), ("soon", "COMPLETED")):
            reply = decoded(await owners.send_message(send(slot, text, task_id=task["id"]), 5))["task"]
            assert reply["status"]["state"] == f"TASK_STATE_{ends}"
        reader = await following.outcome()
    assert reader.states == [
        "TASK_STATE_INPUT_REQUIRED",
        "TASK_STATE_WORKING",
        "TASK_STATE_INPUT_REQUIRED",
        "TASK_STATE_WORKING",
        "TASK_STATE_COMPLETED",
    ]
    assert reader.artifacts == texts_of(reply) == {"response": "one two"}
    assert reader.ends == [""]


async def test_the_stream_of_a_message_ends_when_the_task_waits_and_a_subscription_does_not(slot, owners):
    reader = await _read(owners, send(slot, "ask", context_id="c", stream=True))
    assert reader.states[-1] == "TASK_STATE_INPUT_REQUIRED"
    assert reader.ends == [""]
    task_id = reader.events[0]["task"]["id"]
    async with owners.stream(subscribe(slot, task_id), 5) as stream:
        await stream.receive()
        with trio.move_on_after(0.1) as quiet:
            await stream.receive()
    assert quiet.cancelled_caught


async def test_who_subscribes_at_any_moment_sees_an_end_or_is_refused(slot, owners):
    """SS-05: never a clean end on a state that is none."""
    chance = random.Random(5)
    outcomes = {"followed": 0, "refused": 0}
    pace = Pace(0.04)

    async def one(number):
        call = send(slot, "soon", context_id=f"c{number}", return_immediately=True)
        await owners.send_message(call, 20)
        began = trio.current_time()
        await trio.sleep(pace.moment(chance))
        async with trio.open_nursery() as nursery:
            following = Later(nursery, _read, owners, subscribe(slot, call.task_id))
        if following.error is not None:
            assert following.error.kind is ErrorKind.UNSUPPORTED_OPERATION
            outcomes["refused"] += 1
            return
        assert following.answer.states[-1] == "TASK_STATE_COMPLETED"
        assert following.answer.artifacts == {"response": "one two"}
        outcomes["followed"] += 1
        pace.note(trio.current_time() - began)

    for batch in range(8):
        async with trio.open_nursery() as nursery:
            for number in range(25):
                nursery.start_soon(one, batch * 25 + number)
    assert min(outcomes.values()) >= 3, f"the race was none: {outcomes}"


async def test_fifteen_hundred_events_stall_no_stream(slot, owners):
    reader = await _read(owners, send(slot, "many", stream=True))
    assert reader.artifacts == {"a": "y" * 100 * 1500}
    assert sum("artifactUpdate" in event for event in reader.events) == 1500
    assert reader.states[-1] == "TASK_STATE_COMPLETED"
    assert state(await owners.send_message(send(slot, "many"), 10)) == "COMPLETED"


async def test_a_burst_costs_nobody_who_reads_and_waits_once_for_who_does_not(make_slot, monkeypatch):
    slot = make_slot(SCRIPT, stream_buffer_bytes=400 * 1024)
    async with slot.alive(), edge(slot.path, files=slot.files) as owners:
        await _burst(slot, owners, monkeypatch)


async def _burst(slot, owners, monkeypatch):
    monkeypatch.setattr("actors.subscription.INITIAL_CREDIT", 4 * 1024)
    monkeypatch.setattr("actors.slot_link.CREDIT_STEP", 1024)
    call = send(slot, "burst", return_immediately=True)
    await owners.send_message(call, 5)
    async with edge(slot.path, files=slot.files) as deaf, deaf.stream(subscribe(slot, call.task_id), 10) as stalled:
        began = time.monotonic()
        reader = await _read(owners, subscribe(slot, call.task_id))
        assert time.monotonic() - began < 5, "it waited for a deaf follower again and again"
        _, reason = await drained(stalled)
        assert reason == "slow"
    assert reader.artifacts == {"response": "z" * 1000 * 600}
    assert reader.states[-1] == "TASK_STATE_COMPLETED"


async def test_a_thousand_followers_get_everything_and_ten_that_never_read_are_dropped_alone(slot, owners, monkeypatch):
    monkeypatch.setattr("actors.subscription.INITIAL_CREDIT", 4 * 1024)
    monkeypatch.setattr("actors.slot_link.CREDIT_STEP", 1024)
    call = send(slot, "much", return_immediately=True)
    await owners.send_message(call, 5)
    readers = []

    async def follow():
        readers.append(await _read(owners, subscribe(slot, call.task_id)))

    async with trio.open_nursery() as nursery, edge(slot.path, files=slot.files) as deaf:
        stalled = []
        for _ in range(10):
            opening = deaf.stream(subscribe(slot, call.task_id), 10)
            stalled.append((opening, await opening.__aenter__()))
        run = slot.contexts.runs.get(call.task_id)
        for number in range(990):
            nursery.start_soon(follow)
            if number % 30 == 29:  # no more at a time than its mailbox takes
                await until(partial(_has, run, 10 + number + 1), 20)
        assert not run.over, "the run was over before everybody followed"
        await until(lambda: len(readers) == 990, 30)
        for opening, stream in stalled:
            events, reason = await drained(stream)
            assert reason == "slow"
            assert 0 < len(events) < 41
            await opening.__aexit__(None, None, None)
    assert all(reader.ends == [""] for reader in readers)
    assert all(reader.states.count("TASK_STATE_WORKING") == 41 for reader in readers)
    assert {reader.states[-1] for reader in readers} == {"TASK_STATE_COMPLETED"}
    assert state(await owners.get_task(get(slot, call.task_id), 5)) == "COMPLETED"


def _has(run, followers):
    return len(run._telling) == followers


async def test_a_follower_who_left_is_forgotten_and_the_rest_go_on(slot, owners):
    call = send(slot, "soon", return_immediately=True)
    await owners.send_message(call, 5)
    run = slot.contexts.runs.get(call.task_id)
    async with trio.open_nursery() as nursery:
        staying = Later(nursery, _read, owners, subscribe(slot, call.task_id))
        async with owners.stream(subscribe(slot, call.task_id), 5) as stream:
            await stream.receive()
        reader = await staying.outcome()
    assert reader.artifacts == {"response": "one two"}
    assert len(run._telling) == 0


async def test_a_stopping_slot_ends_the_streams_of_waiting_tasks_and_fails_what_runs(slot, owners):
    parked = decoded(await owners.send_message(send(slot, "ask"), 5))["task"]
    running = send(slot, "wait", return_immediately=True)
    await owners.send_message(running, 5)
    async with trio.open_nursery() as nursery:
        first = Later(nursery, _read, owners, subscribe(slot, parked["id"]))
        second = Later(nursery, _read, owners, subscribe(slot, running.task_id))
        await until(lambda: any(session._followers for session in slot.contexts.sessions))
        await until(lambda: len(slot.contexts.runs.get(running.task_id)._telling) == 1)
        slot.contexts.close()
        for link in owners._links:
            link.draining = True
        assert await refused(owners.send_message(send(slot, "soon"), 5)) is ErrorKind.UNAVAILABLE
        await slot.contexts.drain(0.05)
        assert (await first.outcome()).ends == ["drain"]
        reader = await second.outcome()
    assert reader.ends == [""]
    assert reader.events[-1]["statusUpdate"]["status"]["message"]["parts"] == [{"text": "server restarted"}]
    assert slot.record(running.task_id)["task"]["status"]["state"] == "TASK_STATE_FAILED"
    assert slot.record(parked["id"])["task"] == parked
