"""A task's life: how each end is reached, what is shown of it, and that it never changes after (seed: Task lifecycle)."""

from __future__ import annotations

import random
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.service.a2a import answer, said, saying, sending, state_of
from tests.service.conftest import caller_of
from tests.service.harness import eventually
from tests.service.script import CHUNKS

ENDS = {
    "hi": ("COMPLETED", ""),
    "cut-short": ("COMPLETED", ""),
    "reject": ("REJECTED", "not for me"),
    "decline": ("REJECTED", "not for me"),
    "give-up": ("FAILED", "could not do it"),
    "no-provider": ("FAILED", "the provider refused the request"),
    "explode": ("FAILED", "The run failed unexpectedly."),
    "explode-late": ("FAILED", "The run failed unexpectedly."),
    "end-canceled": ("CANCELED", "never mind"),
    "ask": ("INPUT_REQUIRED", "which day?"),
    "tool-ask": ("INPUT_REQUIRED", "which day?"),
    "login": ("AUTH_REQUIRED", "log in first"),
    "tool-login": ("AUTH_REQUIRED", "log in first"),
}
TERMINAL = {"COMPLETED", "REJECTED", "FAILED", "CANCELED"}
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.mark.parametrize("text", ENDS)
def test_each_end_is_answered_stored_and_read_back_alike(service, alice, text):
    state, words = ENDS[text]
    task = alice.send(text)
    assert state_of(task) == state
    assert words in said(task)
    assert TIMESTAMP.fullmatch(task["status"]["timestamp"])
    assert alice.get(task["id"]) == task
    record = service.record(task["id"])
    assert record["caller"] == "alice"
    assert record["task"]["status"] == task["status"]
    assert not ({"caller", "op", "version", "kind"} & set(task)), "the file's own members are not A2A's"


@pytest.mark.parametrize("text", [text for text, (state, _) in ENDS.items() if state in TERMINAL])
def test_a_terminal_task_takes_neither_message_nor_cancel_nor_subscriber(alice, text):
    task = alice.send(text)
    for method in ("SendMessage", "SendStreamingMessage"):
        assert alice.refused(method, sending("more", task=task["id"])).kind == "UNSUPPORTED_OPERATION"
        with_context = sending("more", task=task["id"], context=task["contextId"])
        assert alice.refused(method, with_context).kind == "UNSUPPORTED_OPERATION"
    assert alice.refused("SubscribeToTask", {"id": task["id"]}).kind == "UNSUPPORTED_OPERATION"
    assert alice.refused("CancelTask", {"id": task["id"]}).kind == "TASK_NOT_CANCELABLE"
    assert alice.get(task["id"]) == task


def test_an_unexpected_exception_shows_nothing_of_itself(service, alice):
    for text in ("explode", "explode-late"):
        started = time.monotonic()
        reply = alice.exchange("SendMessage", sending(text))
        assert time.monotonic() - started < 2
        assert b"/srv/secrets" not in reply.body
        assert b"Traceback" not in reply.body
        assert said(alice.read(reply)["task"]) == "The run failed unexpectedly."
    assert answer(alice.send("still up")) == "still up"


def test_the_answer_is_the_last_message_of_the_run_and_thinking_is_not_shown(alice):
    assert answer(alice.send("redraft")) == "the final text"
    task = alice.send("think")
    assert answer(task) == "shown"
    assert "do not show this" not in str(task)
    assert answer(alice.send("cut-short")) == "a long answ"


def test_artifacts_of_every_kind_come_as_they_were_made(alice):
    task = alice.send("files")
    parts = {each["artifactId"]: each["parts"][0] for each in task["artifacts"]}
    assert parts["facts"] == {"data": {"key": "value", "count": 42}}
    assert parts["file"] == {"raw": "ZmlsZSBjb250ZW50", "filename": "output.txt", "mediaType": "text/plain"}
    assert parts["link"] == {
        "url": "https://example.com/output.txt",
        "filename": "output.txt",
        "mediaType": "text/plain",
    }
    assert answer(task) == "three artifacts"


def test_output_appended_to_an_artifact_that_is_not_there_yet_is_kept(alice):
    task = alice.send("append-first")
    late = [each for each in task["artifacts"] if each["artifactId"] == "late"]
    assert [part["text"] for part in late[0]["parts"]] == ["kept"]


def test_a_task_of_very_many_updates_finishes_without_a_reader(alice):
    task = alice.send("many")
    many = next(each for each in task["artifacts"] if each["artifactId"] == "many")
    assert "".join(part["text"] for part in many["parts"]) == "".join(f"{n};" for n in range(CHUNKS))


def test_a_direct_reply_makes_no_task(alice):
    before = alice.call("ListTasks", {})["totalSize"]
    result = alice.call("SendMessage", {"message": saying("direct")})
    assert set(result) == {"message"}
    assert result["message"]["parts"] == [{"text": "a plain reply"}]
    assert result["message"]["role"] == "ROLE_AGENT"
    assert alice.call("ListTasks", {})["totalSize"] == before


def test_return_immediately_returns_a_task_that_is_there_and_goes_on_alone(service, alice):
    started = time.monotonic()
    task = alice.send("steady: on my own", immediately=True)
    assert time.monotonic() - started < 1
    assert state_of(task) in {"SUBMITTED", "WORKING"}
    assert state_of(alice.get(task["id"])) == "WORKING"
    assert task["id"] in {each["id"] for each in alice.call("ListTasks", {"status": "TASK_STATE_WORKING"})["tasks"]}
    assert service.record(task["id"])["task"]["id"] == task["id"]
    done = alice.wait(task["id"], "COMPLETED", seconds=10)
    assert answer(done) == "done: steady: on my own"


def test_a_blocking_send_waits_for_the_end(alice):
    started = time.monotonic()
    task = alice.send("brief: wait for me")
    assert time.monotonic() - started >= 0.5
    assert answer(task) == "done: brief: wait for me"


def test_history_length_limits_what_a_send_answers_with(alice):
    assert "history" not in alice.send("hi", configuration={"historyLength": 0})
    task = alice.send("ask", configuration={"historyLength": 1})
    assert len(task["history"]) == 1
    again = alice.send("monday", task=task["id"], configuration={"historyLength": 2})
    assert again["history"] == alice.get(task["id"])["history"][-2:]


def test_messages_keep_their_ids_and_one_id_may_come_again(alice):
    first = alice.send("hi", messageId="same-id")
    second = alice.send("hi", messageId="same-id")
    assert first["id"] != second["id"]
    parked = alice.send("keep-asking", messageId="same-id")
    parked = alice.send("monday", messageId="same-id", task=parked["id"])
    mine = [each for each in parked["history"] if each["role"] == "ROLE_USER"]
    assert [each["messageId"] for each in mine] == ["same-id", "same-id"]
    assert [each["parts"][0]["text"] for each in mine] == ["keep-asking", "monday"]


def test_history_names_its_task_and_context(alice):
    task = alice.send("ask")
    for message in [*task["history"], task["status"]["message"]]:
        assert message["messageId"]
        assert message.get("taskId", task["id"]) == task["id"]
        assert message.get("contextId", task["contextId"]) == task["contextId"]
    assert task["status"]["message"]["role"] == "ROLE_AGENT"


def test_a_cancel_ends_the_run_its_callers_and_its_streams(service, alice):
    with ThreadPoolExecutor(2) as threads:
        blocked = threads.submit(alice.send, "long: to be canceled", context="cancel-" + alice.name)
        listed = eventually(
            lambda: alice.call("ListTasks", {"contextId": "cancel-" + alice.name, "status": "TASK_STATE_WORKING"})[
                "tasks"
            ],
            5,
            "the task is listed",
        )
        identity = listed[0]["id"]
        with alice.stream("SubscribeToTask", {"id": identity}) as stream:
            first = stream.next()
            assert first.state == "WORKING"
            canceled = alice.call("CancelTask", {"id": identity})
            assert state_of(canceled) == "CANCELED"
            assert [event.state for event in stream][-1] == "CANCELED"
        assert state_of(blocked.result(5)) == "CANCELED"
    assert alice.refused("CancelTask", {"id": identity}).kind == "TASK_NOT_CANCELABLE"
    assert state_of(alice.get(identity)) == "CANCELED"
    assert state_of(service.record(identity)["task"]) == "CANCELED"
    assert answer(alice.send("free again", context="cancel-" + alice.name)) == "free again"


@pytest.mark.parametrize("text", ["ask", "login"])
def test_a_parked_task_can_be_canceled(alice, text):
    task = alice.send(text)
    with alice.stream("SubscribeToTask", {"id": task["id"]}) as stream:
        assert stream.next().value["task"]["id"] == task["id"]
        assert state_of(alice.call("CancelTask", {"id": task["id"]})) == "CANCELED"
        assert [event.state for event in stream][-1] == "CANCELED"
    assert state_of(alice.get(task["id"])) == "CANCELED"
    assert alice.refused("SendMessage", sending("monday", task=task["id"])).kind == "UNSUPPORTED_OPERATION"


def _race(caller, randomness):
    task = caller.send("quick: race", immediately=True)
    with caller.stream("SubscribeToTask", {"id": task["id"]}) as stream:
        time.sleep(randomness.uniform(0.1, 0.3))
        outcome = caller.outcome(caller.exchange("CancelTask", {"id": task["id"]}))
        ends = [event.state for event in stream if event.state in TERMINAL]
    after = caller.get(task["id"])
    assert len(ends) == 1, ends
    assert state_of(after) == ends[0]
    if isinstance(outcome, dict):
        assert state_of(outcome) == ends[0] == "CANCELED"
    else:
        assert outcome.kind == "TASK_NOT_CANCELABLE"
        assert ends[0] == "COMPLETED"
    return task["id"], after


def _races(service, binding, rounds):
    seed = random.randrange(2**32)
    print(f"seed {seed}")

    def several(number):
        randomness = random.Random(seed + number)
        caller = caller_of(service, binding, "alice")
        return [_race(caller, randomness) for _ in range(rounds // 6)]

    with ThreadPoolExecutor(6) as threads:
        results = [result for part in threads.map(several, range(6)) for result in part]
    assert {state_of(task) for _, task in results} == {"CANCELED", "COMPLETED"}, "the race was always won by one side"
    caller = caller_of(service, binding, "alice")
    assert all(caller.get(identity) == task for identity, task in results), "an acknowledged end changed"


@pytest.mark.parametrize("binding", ["jsonrpc", "rest"])
def test_of_a_cancel_and_an_end_exactly_one_wins(service, binding):
    _races(service, binding, rounds=60)


@pytest.mark.slow
@pytest.mark.parametrize("binding", ["jsonrpc", "rest"])
def test_of_a_cancel_and_an_end_exactly_one_wins_hundreds_of_times(service, binding):
    _races(service, binding, rounds=300)


def test_contexts_run_beside_each_other_and_never_mix(alice):
    words = [f"word-{number}" for number in range(20)]
    started = time.monotonic()
    with ThreadPoolExecutor(20) as threads:
        tasks = list(threads.map(lambda word: alice.send(f"repeat {word}"), words))
    assert time.monotonic() - started < 20 * 0.3
    assert [answer(task) for task in tasks] == words


def test_age_alone_never_ends_a_run(make_service):
    service = make_service(environment={"A2A__SessionIdleTimeout": "1s"}).start()
    alice = service.rpc()
    task = alice.send("steady: longer than the idle timeout")
    assert answer(task) == "done: steady: longer than the idle timeout"
    assert alice.get(task["id"]) == task
