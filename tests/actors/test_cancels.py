"""Cancel, and clients that leave: one end each, told to everybody alike."""

from __future__ import annotations

import random
from functools import partial

import pytest
import trio
import trio.testing

from actors.subscription import Subscription
from tests.actors.kit import Later, Pace, cancel, decoded, drained, edge, get, refused, send, state, subscribe, until
from tests.actors.reader import texts_of
from volcanic.protocol.errors import A2AError, ErrorKind

RACES = 300
SCRIPT = {
    "rules": [
        {"textPrefix": "soon", "steps": [{"text": "one "}, {"delay": 0.03}, {"text": "two"}]},
        {"textPrefix": "wait", "steps": [{"text": "partial"}, {"delay": 60}]},
        {"textPrefix": "ask", "steps": [{"end": "input-required", "text": "which?"}]},
    ]
}
SETTINGS = {"flush_seconds": 0.01}


async def test_a_cancel_races_the_end_and_each_run_has_one_end_that_all_agree_on(slot, owners):
    """TL-04: reply, stream, blocked sender and file say the same, and it never changes again."""
    chance = random.Random(4)
    ends = {"CANCELED": 0, "COMPLETED": 0}
    pace = Pace(0.05)
    limiter = trio.CapacityLimiter(25)

    async def race(number):
        async with limiter:
            call = send(slot, "soon", context_id=f"c{number}")
            async with trio.open_nursery() as nursery:
                sending = Later(nursery, owners.send_message, call, 20)
                await until(lambda: call.task_id in slot.contexts.runs)
                began = trio.current_time()
                following = Later(nursery, _follow, owners, subscribe(slot, call.task_id))
                await trio.sleep(pace.moment(chance))
                canceling = Later(nursery, owners.cancel_task, cancel(slot, call.task_id), 20)
        task = decoded(sending.answer)["task"]
        end = task["status"]["state"].removeprefix("TASK_STATE_")
        ends[end] += 1
        if end == "COMPLETED":
            pace.note(trio.current_time() - began)
        if end == "CANCELED":
            assert state(canceling.answer) == "CANCELED"
        else:
            assert canceling.error.kind is ErrorKind.TASK_NOT_CANCELABLE
        if following.error is None:
            events, reason = following.answer
            states = [event["statusUpdate"]["status"]["state"] for event in events if "statusUpdate" in event]
            assert states == [f"TASK_STATE_{end}"], events
            assert reason == ""
        else:
            assert following.error.kind is ErrorKind.UNSUPPORTED_OPERATION
        assert slot.record(call.task_id)["task"] == task
        return task

    tasks = []
    async with trio.open_nursery() as nursery:
        tasks = [Later(nursery, race, number) for number in range(RACES)]
    assert min(ends.values()) >= 3, f"the race was none: {ends}"
    await trio.sleep(0.1)
    for later in tasks:
        assert slot.record(later.answer["id"])["task"] == later.answer


async def _follow(owners, call):
    async with owners.stream(call, 10) as stream:
        return await drained(stream)


async def test_a_running_task_is_canceled_for_its_blocked_sender_and_its_followers(slot, owners):
    call = send(slot, "wait")
    async with trio.open_nursery() as nursery:
        sending = Later(nursery, owners.send_message, call, 20)
        await until(lambda: call.task_id in slot.contexts.runs)
        async with owners.stream(subscribe(slot, call.task_id), 5) as stream:
            assert "task" in decoded((await stream.receive()).payload)
            first = Later(nursery, owners.cancel_task, cancel(slot, call.task_id), 20)
            second = Later(nursery, owners.cancel_task, cancel(slot, call.task_id), 20)
            events, _ = await drained(stream)
    assert state(sending.answer) == state(first.answer) == "CANCELED"
    assert second.error is None or second.error.kind is ErrorKind.TASK_NOT_CANCELABLE
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert texts_of(decoded(await owners.get_task(get(slot, call.task_id), 5))) == {}
    assert await refused(owners.cancel_task(cancel(slot, call.task_id), 5)) is ErrorKind.TASK_NOT_CANCELABLE
    assert state(await owners.send_message(send(slot, "soon", context_id=call.context_id), 5)) == "COMPLETED"


async def test_a_waiting_task_is_closed_and_its_followers_are_told(slot, owners):
    task = decoded(await owners.send_message(send(slot, "ask"), 5))["task"]
    async with owners.stream(subscribe(slot, task["id"]), 5) as stream:
        await stream.receive()
        canceled = decoded(await owners.cancel_task(cancel(slot, task["id"]), 5))
        with trio.fail_after(5):
            events, reason = await drained(stream)
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert [(event["version"], event["statusUpdate"]["status"]) for event in events] == [(3, canceled["status"])]
    assert reason == ""
    assert slot.record(task["id"])["task"] == canceled
    assert await refused(owners.send_message(send(slot, "x", task_id=task["id"]), 5)) is ErrorKind.UNSUPPORTED_OPERATION


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("way", ["blocking", "stream", "at once"])
async def test_a_client_that_leaves_ends_its_run_only_when_it_is_to(slot, owners, wanted, way):
    call = send(slot, "wait", cancel_on_disconnect=wanted, stream=way == "stream")
    async with trio.open_nursery() as nursery:
        if way == "stream":
            leaving = Later(nursery, _follow, owners, call)
        else:
            leaving = Later(nursery, owners.send_message, call, 20)
        if way != "at once":  # else it leaves before its call was even taken up
            await until(lambda: call.task_id in slot.contexts.runs)
        else:
            await trio.testing.wait_all_tasks_blocked()
        leaving.scope.cancel()
        if wanted:
            await until(lambda: _stored_state(slot, call) in {"CANCELED", None} and not len(slot.contexts.runs))
            if way != "at once":
                assert _stored_state(slot, call) == "CANCELED"
        else:
            await trio.sleep(0.1)
            if way != "at once":
                assert call.task_id in slot.contexts.runs
                assert state(await owners.get_task(get(slot, call.task_id), 5)) == "WORKING"


def _stored_state(slot, call):
    record = slot.files.read(call.task_id)
    return None if record is None else record.task.status.state.removeprefix("TASK_STATE_")


def _is_canceled(slot, call):
    return _stored_state(slot, call) == "CANCELED"


async def test_a_leave_in_the_same_breath_as_its_call_still_ends_the_run(slot, owners):
    """Both frames are read at once, before the session has taken up the call."""
    for stream in (False, True):
        call = send(slot, "wait", cancel_on_disconnect=True, stream=stream)
        left = Asker()
        slot.contexts.send(call, left)
        left.leave()
        await until(partial(_is_canceled, slot, call))


async def test_a_client_that_leaves_after_its_answer_ends_nothing(slot, owners):
    call = send(slot, "ask", cancel_on_disconnect=True)
    await owners.send_message(call, 5)
    asker = Asker()
    slot.contexts.send(send(slot, "wait", task_id=call.task_id, return_immediately=True), asker)
    await until(lambda: asker.answered == 1)
    asker.leave()
    await trio.sleep(0.05)
    assert call.task_id in slot.contexts.runs


class Asker:
    """A caller in this process, who may leave at any moment."""

    def __init__(self):
        self.on_leave = None
        self.left = False
        self.answered = 0
        self.error: A2AError | None = None

    def answer(self, result):
        assert result
        self.answered += 1

    def refuse(self, error):
        self.error = error

    def open_stream(self, *, until_interrupted):
        return Subscription(self, 1000, until_interrupted=until_interrupted)

    def event(self, version, payload):
        pass

    def end(self, reason):
        pass

    def leave(self):
        self.left = True
        if self.on_leave is not None:
            self.on_leave()


async def test_an_edge_that_dies_is_no_client_that_leaves(slot):
    call = send(slot, "soon", cancel_on_disconnect=True)
    async with edge(slot.path, files=slot.files) as dying, trio.open_nursery() as nursery:
        Later(nursery, dying.send_message, call, 20)
        await until(lambda: call.task_id in slot.contexts.runs)
        (link,) = dying._links
        link._outbox = None  # so that no Leave goes out: the edge is gone at once
        nursery.cancel_scope.cancel()
    await until(lambda: _stored_state(slot, call) == "COMPLETED")


async def test_who_only_follows_ends_nothing_by_leaving(slot, owners):
    call = send(slot, "soon", return_immediately=True)
    await owners.send_message(call, 5)
    async with owners.stream(subscribe(slot, call.task_id), 5) as stream:
        await stream.receive()
    await until(lambda: _stored_state(slot, call) == "COMPLETED")
