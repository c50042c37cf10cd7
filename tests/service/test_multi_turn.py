"""Conversations: continuing a task, keeping a context, and what is refused before anything is stored (MT-02, MT-05)."""

from __future__ import annotations

import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.service.a2a import answer, said, sending, state_of
from tests.service.wire import RefusedError

BUSY = "context busy, retry when the current task ends"


@pytest.mark.parametrize("ask", ["ask", "tool-ask"])
@pytest.mark.parametrize("named", ["task", "task and context"])
def test_a_question_is_answered_on_its_own_task(alice, ask, named):
    asked = alice.send(ask)
    assert (state_of(asked), said(asked)) == ("INPUT_REQUIRED", "which day?")
    context = asked["contextId"] if named == "task and context" else None
    done = alice.send("monday", task=asked["id"], context=context)
    assert (done["id"], done["contextId"]) == (asked["id"], asked["contextId"])
    assert (state_of(done), answer(done)) == ("COMPLETED", "booked monday")
    spoken = [(each["role"], each["parts"][0].get("text")) for each in done["history"]]
    assert [text for role, text in spoken if role == "ROLE_USER"] == [ask, "monday"]
    assert ("ROLE_AGENT", "which day?") in spoken


def test_a_task_may_ask_more_than_once_and_each_run_replaces_the_answer(alice):
    task = alice.send("keep-asking")
    assert said(task) == "which day?"
    task = alice.send("monday", task=task["id"])
    assert (state_of(task), said(task)) == ("INPUT_REQUIRED", "which hour?")
    task = alice.send("nine", task=task["id"])
    assert (state_of(task), answer(task)) == ("COMPLETED", "booked nine")
    assert answer(alice.get(task["id"])) == "booked nine"


def test_auth_required_is_continued_like_a_question(alice):
    task = alice.send("login")
    assert (state_of(task), said(task)) == ("AUTH_REQUIRED", "log in first")
    assert answer(alice.send("done so", task=task["id"])) == "welcome"


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
def test_a_task_with_another_context_is_refused_before_anything_is_stored(alice, method):
    asked = alice.send("ask")
    refused = alice.refused(method, sending("monday", task=asked["id"], context=str(uuid.uuid4())))
    assert refused.kind == "INVALID_PARAMS"
    assert alice.get(asked["id"]) == asked
    running = alice.send("long: mismatch", immediately=True)
    refused = alice.refused(method, sending("more", task=running["id"], context=asked["contextId"]))
    assert refused.kind == "INVALID_PARAMS"
    alice.call("CancelTask", {"id": running["id"]})


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
def test_an_unknown_task_cannot_be_continued_and_none_is_made(alice, method):
    before = alice.call("ListTasks", {})["totalSize"]
    for identity in (str(uuid.uuid4()), "no-such-task"):
        assert alice.refused(method, sending("hi", task=identity)).kind == "TASK_NOT_FOUND"
    assert alice.call("ListTasks", {})["totalSize"] == before


def test_a_running_task_takes_no_second_message(alice):
    running = alice.send("long: alone", immediately=True)
    for method in ("SendMessage", "SendStreamingMessage"):
        assert alice.refused(method, sending("more", task=running["id"])).kind == "UNSUPPORTED_OPERATION"
    users = [each for each in alice.get(running["id"])["history"] if each["role"] == "ROLE_USER"]
    assert len(users) == 1
    alice.call("CancelTask", {"id": running["id"]})


def test_a_busy_context_refuses_a_second_task_and_says_so(alice):
    context = str(uuid.uuid4())
    running = alice.send("long: busy", context=context, immediately=True)
    for method in ("SendMessage", "SendStreamingMessage"):
        refused = alice.refused(method, sending("me too", context=context))
        assert (refused.kind, refused.message) == ("UNSUPPORTED_OPERATION", BUSY)
    assert [task["id"] for task in alice.call("ListTasks", {"contextId": context})["tasks"]] == [running["id"]]
    assert answer(alice.send("another context is free")) == "another context is free"
    alice.call("CancelTask", {"id": running["id"]})
    assert answer(alice.send("now it is free", context=context)) == "now it is free"


def test_of_messages_racing_into_one_context_one_runs_at_a_time(service, alice):
    context = str(uuid.uuid4())
    with ThreadPoolExecutor(8) as threads:
        outcomes = list(
            threads.map(
                lambda number: alice.outcome(
                    alice.exchange("SendMessage", sending(f"brief: {number}", context=context))
                ),
                range(8),
            )
        )
    ran = [outcome["task"]["id"] for outcome in outcomes if isinstance(outcome, dict)]
    refused = [outcome for outcome in outcomes if isinstance(outcome, RefusedError)]
    assert ran
    assert refused, "they did not race"
    assert {(each.kind, each.message) for each in refused} == {("UNSUPPORTED_OPERATION", BUSY)}
    assert {task["id"] for task in alice.call("ListTasks", {"contextId": context})["tasks"]} == set(ran)
    roles = [entry["message"]["role"] for entry in service.transcript("alice", context) if entry["type"] == "message"]
    assert roles == ["user", "assistant"] * len(ran)


def test_a_parked_task_does_not_keep_its_context_busy(alice):
    asked = alice.send("ask")
    other = alice.send("something else", context=asked["contextId"])
    assert other["id"] != asked["id"]
    assert answer(other) == "something else"
    assert answer(alice.send("monday", task=asked["id"])) == "booked monday"


def test_of_racing_continuations_one_wins_and_the_other_leaves_no_trace(alice):
    for _ in range(5):
        asked = alice.send("slow-ask")
        answers = [sending(f"day-{number}", task=asked["id"]) for number in range(6)]
        with ThreadPoolExecutor(6) as threads:
            outcomes = list(threads.map(lambda params: alice.outcome(alice.exchange("SendMessage", params)), answers))
        winners = [outcome["task"] for outcome in outcomes if isinstance(outcome, dict)]
        losers = [outcome for outcome in outcomes if isinstance(outcome, RefusedError)]
        assert len(winners) == 1
        assert {loser.kind for loser in losers} == {"UNSUPPORTED_OPERATION"}
        users = [each["parts"][0]["text"] for each in winners[0]["history"] if each["role"] == "ROLE_USER"]
        assert len(users) == 2
        assert answer(winners[0]) == f"booked {users[1]}"
        assert alice.get(asked["id"]) == winners[0]


def test_a_context_keeps_its_conversation_and_a_message_without_one_starts_clean(service, alice):
    first = alice.send("my word is plum")
    second = alice.send("what is my word?")
    assert first["contextId"] != second["contextId"]
    assert "plum" not in json.dumps(service.transcript("alice", second["contextId"]))
    again = alice.send("count", context=first["contextId"])
    assert answer(again) == "run 2"
    assert "plum" in json.dumps(service.transcript("alice", first["contextId"]))


def test_a_chosen_context_is_kept_and_a_missing_one_is_a_fresh_uuid(alice):
    chosen = f"my_context-{uuid.uuid4().hex}"
    assert alice.send("hi", context=chosen)["contextId"] == chosen
    fresh = [alice.send("hi")["contextId"] for _ in range(2)]
    assert fresh[0] != fresh[1]
    assert all(str(uuid.UUID(context)) == context for context in fresh)


def test_turns_of_one_context_are_in_order(service, alice):
    context = str(uuid.uuid4())
    for number in range(4):
        assert answer(alice.send("count", context=context)) == f"run {number + 1}"
    entries = [entry for entry in service.transcript("alice", context) if entry["type"] == "message"]
    roles = [entry["message"]["role"] for entry in entries]
    assert roles == ["user", "assistant"] * 4
    assert [entry["parentId"] for entry in entries[1:]] == [entry["id"] for entry in entries[:-1]]


@pytest.mark.parametrize(
    ("request_hops", "message_hops", "refused"),
    [
        (None, None, False),
        (3, None, False),
        (4, None, True),
        (None, 3, False),
        (None, 4, True),
        (1, 9, False),
        (9, 1, True),
        (10**30, None, True),
        (0, None, False),
    ],
)
def test_a_task_over_the_hop_limit_is_made_and_fails_at_once(alice, request_hops, message_hops, refused):
    params = sending("hi", metadata=None if request_hops is None else {"volcanic.hops": request_hops})
    if message_hops is not None:
        params["message"]["metadata"] = {"volcanic.hops": message_hops}
    task = alice.call("SendMessage", params)["task"]
    assert state_of(task) == ("FAILED" if refused else "COMPLETED")
    assert alice.get(task["id"]) == task
    assert (answer(task) is None) == refused
    if refused:
        assert "3" in said(task), "the message names the limit"


def test_the_hop_limit_holds_for_streams(alice):
    with alice.stream("SendStreamingMessage", sending("hi", metadata={"volcanic.hops": 4})) as stream:
        events = list(stream)
    assert events[0].kind == "task"
    assert events[-1].state == "FAILED"


def test_steering_by_message_id_prefix_goes_before_the_text(alice):
    task = alice.send("ask", messageId=f"steer-by-id-{time.monotonic_ns()}")
    assert answer(task) == "steered"
