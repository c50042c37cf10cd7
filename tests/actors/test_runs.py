"""Runs through the Owner API: what is stored, what is answered, and who is told."""

from __future__ import annotations

import json

import pytest
import trio

from actors.mailbox import Mailbox
from tests.actors.kit import Later, cancel, decoded, drained, edge, get, listing, refused, send, state, subscribe, until
from tests.actors.reader import texts_of
from volcanic.protocol.errors import CONTEXT_BUSY, A2AError, ErrorKind

SCRIPT = {
    "rules": [
        {"textPrefix": "count", "steps": [{"text": "run {n}"}]},
        {"textPrefix": "wait", "steps": [{"delay": 60}]},
        {"textPrefix": "ask", "turns": "ask"},
        {"textPrefix": "login", "steps": [{"end": "auth-required", "text": "log in"}]},
        {"textPrefix": "refuse", "steps": [{"end": "rejected", "text": "no"}]},
        {"textPrefix": "boom", "steps": [{"text": "some"}, {"raise": "/etc/secret in a traceback"}]},
        {"textPrefix": "direct", "steps": [{"message": "hello"}]},
        {"textPrefix": "late direct", "steps": [{"message": "hello"}, {"delay": 0.2}]},
        {
            "textPrefix": "append",
            "steps": [{"artifact": {"artifactId": "x", "parts": [{"text": "1"}], "append": True}}],
        },
    ],
    "turns": {"ask": [[{"end": "input-required", "text": "which?"}], [{"text": "booked {n}"}]]},
}


async def test_a_context_remembers_after_its_session_was_evicted(make_slot):
    slot = make_slot(SCRIPT, idle_seconds=0.05)
    async with slot.alive() as contexts, edge(slot.path) as owners:
        for number in range(1, 4):
            task = decoded(await owners.send_message(send(slot, "count", context_id="kept"), 10))["task"]
            assert task["artifacts"][0]["parts"] == [{"text": f"run {number}"}]
            contexts.sessions.evict(float("inf"))
            assert len(contexts.sessions) == 0


async def test_a_session_that_runs_waits_or_is_followed_is_not_evicted(slot, owners):
    sessions = slot.contexts.sessions
    async with trio.open_nursery() as nursery:
        running = send(slot, "wait", context_id="running")
        Later(nursery, owners.send_message, running, 20)
        await until(lambda: running.task_id in slot.contexts.runs)
        assert sessions.evict(float("inf")) == 0
        parked = decoded(await owners.send_message(send(slot, "ask", context_id="parked"), 5))["task"]
        async with owners.stream(subscribe(slot, parked["id"]), 5) as stream:
            await stream.receive()
            assert sessions.evict(float("inf")) == 0
        await until(lambda: sessions.evict(float("inf")) == 1)
        assert [session.key[2] for session in sessions] == ["running"]
        nursery.cancel_scope.cancel()


async def test_an_idle_session_has_no_task(slot, owners):
    await owners.send_message(send(slot, "count"), 5)
    before = _tasks()
    for number in range(20):
        await owners.send_message(send(slot, "count", context_id=f"c{number}"), 5)
    await until(lambda: _tasks() == before)
    assert len(slot.contexts.sessions) == 21


def _tasks():
    pending, count = [trio.lowlevel.current_root_task()], 0
    while pending:
        task = pending.pop()
        count += 1
        for nursery in task.child_nurseries if task is not None else ():
            pending += nursery.child_tasks
    return count


async def test_a_message_to_a_busy_context_is_refused_and_leaves_no_trace(slot, owners):
    first = send(slot, "wait", context_id="c", return_immediately=True)
    await owners.send_message(first, 5)
    for stream, at_once in ((False, False), (True, False), (False, True)):
        second = send(slot, "count", context_id="c", stream=stream, return_immediately=at_once)
        asking = _open(owners, second) if stream else owners.send_message(second, 5)
        with pytest.raises(A2AError, match=CONTEXT_BUSY) as caught:
            await asking
        assert caught.value.kind is ErrorKind.UNSUPPORTED_OPERATION
        assert slot.files.read(second.task_id) is None
    assert (
        await refused(owners.send_message(send(slot, "count", task_id=first.task_id), 5))
        is ErrorKind.UNSUPPORTED_OPERATION
    )
    assert len(decoded(await owners.get_task(get(slot, first.task_id), 5))["history"]) == 1
    assert (await owners.list_tasks(listing(slot), 5)).total == 1


async def test_of_two_racing_continuations_one_wins_and_the_loser_leaves_no_trace(slot, owners):
    for number in range(20):
        task = decoded(await owners.send_message(send(slot, "ask", context_id=f"c{number}"), 5))["task"]
        async with trio.open_nursery() as nursery:
            racers = [
                Later(nursery, owners.send_message, send(slot, "answer", task_id=task["id"], message_id=f"m{racer}"), 5)
                for racer in range(3)
            ]
        winners = [racer for racer, later in enumerate(racers) if later.error is None]
        losers = [later.error for later in racers if later.error is not None]
        assert len(winners) == 1
        assert {error.kind for error in losers} == {ErrorKind.UNSUPPORTED_OPERATION}
        shown = decoded(await owners.get_task(get(slot, task["id"]), 5))
        assert [message["messageId"] for message in shown["history"] if message["role"] == "ROLE_USER"] == [
            "m",
            f"m{winners[0]}",
        ]
        assert texts_of(shown) == {"response": "booked 2"}


@pytest.mark.parametrize(("text", "ends"), [("count", "COMPLETED"), ("refuse", "REJECTED"), ("boom", "FAILED")])
async def test_a_finished_task_takes_no_message_no_cancel_and_no_follower(slot, owners, text, ends):
    task = decoded(await owners.send_message(send(slot, text), 5))["task"]
    assert task["status"]["state"] == f"TASK_STATE_{ends}"
    before = slot.record(task["id"])
    assert (
        await refused(owners.send_message(send(slot, "more", task_id=task["id"]), 5)) is ErrorKind.UNSUPPORTED_OPERATION
    )
    for call in (send(slot, "more", task_id=task["id"], stream=True), subscribe(slot, task["id"])):
        assert await refused(_open(owners, call)) is ErrorKind.UNSUPPORTED_OPERATION
    assert await refused(owners.cancel_task(cancel(slot, task["id"]), 5)) is ErrorKind.TASK_NOT_CANCELABLE
    assert slot.record(task["id"]) == before


async def _open(owners, call):
    async with owners.stream(call, 5):
        return "opened"


async def test_a_crash_of_the_assistant_ends_its_task_with_a_plain_text(slot, owners):
    task = decoded(await owners.send_message(send(slot, "boom"), 5))["task"]
    (part,) = task["status"]["message"]["parts"]
    assert part == {"text": "The run failed unexpectedly."}
    assert state(await owners.send_message(send(slot, "count", context_id=task["contextId"]), 5)) == "COMPLETED"


async def test_a_continuation_names_its_own_context_or_none(slot, owners):
    task = decoded(await owners.send_message(send(slot, "ask", context_id="c"), 5))["task"]
    assert (
        await refused(owners.send_message(send(slot, "x", task_id=task["id"], context_id="d"), 5))
        is ErrorKind.INVALID_PARAMS
    )
    assert slot.record(task["id"])["version"] == 2
    reply = decoded(await owners.send_message(send(slot, "x", task_id=task["id"]), 5))["task"]
    assert (reply["contextId"], reply["status"]["state"]) == ("c", "TASK_STATE_COMPLETED")


async def test_over_the_hop_limit_a_task_fails_without_a_run(make_slot):
    slot = make_slot(SCRIPT, max_hops=3)
    async with slot.alive(), edge(slot.path, files=slot.files) as owners:
        assert state(await owners.send_message(send(slot, "count", hops=3), 5)) == "COMPLETED"
        far = send(slot, "count", hops=4, context_id="far")
        task = decoded(await owners.send_message(far, 5))["task"]
        assert task["status"]["state"] == "TASK_STATE_FAILED"
        assert "4 agents" in task["status"]["message"]["parts"][0]["text"]
        assert slot.record(far.task_id)["task"] == task
        async with owners.stream(send(slot, "count", hops=99, stream=True), 5) as stream:
            events, reason = await drained(stream)
        assert [event["task"]["status"]["state"] for event in events] == ["TASK_STATE_FAILED"]
        assert reason == ""
        task = decoded(await owners.send_message(send(slot, "count", context_id="far"), 5))["task"]
        assert texts_of(task) == {"response": "run 1"}


async def test_who_follows_a_waiting_task_hears_that_the_hop_limit_ended_it(slot, owners):
    task = decoded(await owners.send_message(send(slot, "ask"), 5))["task"]
    async with owners.stream(subscribe(slot, task["id"]), 5) as stream:
        await stream.receive()
        assert state(await owners.send_message(send(slot, "x", task_id=task["id"], hops=99), 5)) == "FAILED"
        with trio.fail_after(5):
            events, reason = await drained(stream)
    assert [event["statusUpdate"]["status"]["state"] for event in events] == ["TASK_STATE_FAILED"]
    assert reason == ""


async def test_a_plain_answer_leaves_no_task(slot, owners):
    call = send(slot, "direct")
    answer = decoded(await owners.send_message(call, 5))
    assert list(answer) == ["message"]
    assert answer["message"]["contextId"] == call.context_id
    assert slot.files.read(call.task_id) is None
    assert (await owners.list_tasks(listing(slot), 5)).total == 0
    assert await refused(owners.get_task(get(slot, call.task_id), 5)) is ErrorKind.TASK_NOT_FOUND
    async with owners.stream(send(slot, "direct", stream=True), 5) as stream:
        events, reason = await drained(stream)
    assert [list(event) for event in events] == [["version", "message"]]
    assert reason == ""


async def test_a_plain_answer_that_came_too_late_is_the_tasks_response(slot, owners):
    async with owners.stream(send(slot, "late direct", stream=True), 5) as stream:
        events, _ = await drained(stream)
    assert "task" in events[0]
    shown = decoded(await owners.get_task(get(slot, events[0]["task"]["id"]), 5))
    assert texts_of(shown) == {"response": "hello"}
    assert events[-2]["artifactUpdate"]["artifact"]["parts"] == [{"text": "hello"}]
    call = send(slot, "direct", return_immediately=True)
    assert state(await owners.send_message(call, 5)) == "WORKING"
    await until(lambda: len(slot.contexts.runs) == 0)
    assert texts_of(decoded(await owners.get_task(get(slot, call.task_id), 5))) == {"response": "hello"}


async def test_return_immediately_answers_with_the_working_task_that_is_stored_by_then(slot, owners):
    call = send(slot, "wait", return_immediately=True)
    with trio.fail_after(2):
        task = decoded(await owners.send_message(call, 5))["task"]
    assert (task["id"], task["status"]["state"]) == (call.task_id, "TASK_STATE_WORKING")
    assert slot.record(call.task_id)["task"] == task
    assert slot.record(call.task_id)["run"] == {"boot": "boot", "slot": "agents-0", "incarnation": 1}
    assert slot.record(call.task_id)["op"] == call.op


async def test_history_length_trims_each_answer_and_never_the_stored_task(slot, owners):
    first = send(slot, "ask", history_length=0)
    task = decoded(await owners.send_message(first, 5))["task"]
    assert "history" not in task
    task = decoded(await owners.send_message(send(slot, "x", task_id=task["id"], history_length=1), 5))["task"]
    assert [message["parts"] for message in task["history"]] == [[{"text": "x"}]]
    for length, kept in ((None, 3), (0, 0), (2, 2), (99, 3)):
        call = get(slot, task["id"])
        call.history_length = length
        assert len(decoded(await owners.get_task(call, 5)).get("history", [])) == kept
        (row,) = (await owners.list_tasks(listing(slot, history_length=length), 5)).rows
        assert len(decoded(row.task).get("history", [])) == kept
        assert "artifacts" not in decoded(row.task)
    assert len(slot.record(task["id"])["task"]["history"]) == 3
    (row,) = (await owners.list_tasks(listing(slot, artifacts=True), 5)).rows
    assert texts_of(decoded(row.task)) == {"response": "booked 2"}


async def test_an_append_to_an_artifact_not_seen_yet_is_not_lost(slot, owners):
    task = decoded(await owners.send_message(send(slot, "append"), 5))["task"]
    assert texts_of(task) == {"x": "1"}


async def test_auth_required_is_continued_as_input_required_is(slot, owners):
    task = decoded(await owners.send_message(send(slot, "login"), 5))["task"]
    assert task["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
    reply = decoded(await owners.send_message(send(slot, "count", task_id=task["id"]), 5))["task"]
    assert reply["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_flood_to_one_session_is_answered_busy_and_others_answer_on(make_slot, monkeypatch):
    slot = make_slot(SCRIPT, mailbox=8)
    async with slot.alive(), edge(slot.path, files=slot.files) as flooder, edge(slot.path, files=slot.files) as owners:
        await owners.send_message(send(slot, "wait", context_id="flooded", return_immediately=True), 5)
        deepest = 0
        put = Mailbox.put

        def watched(mailbox, message):
            nonlocal deepest
            put(mailbox, message)
            deepest = max(deepest, len(mailbox))

        monkeypatch.setattr(Mailbox, "put", watched)
        async with trio.open_nursery() as nursery:
            calls = [send(slot, "count", context_id="flooded") for _ in range(500)]
            flood = [Later(nursery, flooder.send_message, call, 20) for call in calls]
            for number in range(5):
                with trio.fail_after(5):
                    assert (
                        state(await owners.send_message(send(slot, "count", context_id=f"o{number}"), 5)) == "COMPLETED"
                    )
        assert {later.error.kind for later in flood if later.error} == {ErrorKind.UNSUPPORTED_OPERATION}
        assert all(later.error is not None for later in flood)
        assert deepest == 8, "the mailbox was never full"
        assert (await owners.list_tasks(listing(slot), 10)).total == 6


async def test_two_workspaces_may_have_the_same_caller_in_the_same_context(make_slot):
    """Their sessions are two children of one supervisor."""
    slot = make_slot(SCRIPT)
    other = make_slot(SCRIPT, "other")
    slot.also = other
    async with slot.alive(), edge(slot.path) as owners, trio.open_nursery() as nursery:
        Later(nursery, owners.send_message, send(slot, "wait", context_id="c"), 20)
        await until(lambda: len(slot.contexts.runs) == 1)
        call = send(slot, "count", context_id="c")
        call.workspace = other.layout.root
        assert decoded(await owners.send_message(call, 5))["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert other.files.read(call.task_id) is not None
        nursery.cancel_scope.cancel()


async def test_no_key_of_the_workspace_is_told_to_a_caller(make_slot):
    key = "k_0123456789abcdef0123456789abcdef"
    script = {
        "rules": [
            {"textPrefix": "fail", "steps": [{"error": f"the provider said {key}", "retryable": False}]},
            {"textPrefix": "note", "steps": [{"status": f"trying {key}"}, {"delay": 0.05}]},
            {"textPrefix": "ask", "steps": [{"end": "input-required", "text": f"is it {key}?"}]},
        ]
    }
    slot = make_slot(script)
    slot.admit("alice", key)
    async with slot.alive(), edge(slot.path) as owners:
        for text in ("fail", "ask"):
            task = decoded(await owners.send_message(send(slot, text), 10))["task"]
            assert "[redacted]" in task["status"]["message"]["parts"][0]["text"]
            assert key not in json.dumps(task)
        async with owners.stream(send(slot, "note", stream=True), 10) as stream:
            events, _ = await drained(stream)
        assert "[redacted]" in json.dumps(events)
        assert key not in json.dumps(events)
