"""Event streams: snapshot first, versions that only grow, one end, and readers that cannot hurt one another (SS-05, SS-11)."""

from __future__ import annotations

import json
import random
import socket
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.service.a2a import Json, answer, said, saying, sending, state_of
from tests.service.conftest import caller_of
from tests.service.harness import eventually
from tests.service.script import CHUNKS
from tests.service.streams import assemble
from tests.service.wire import RefusedError

TERMINAL = {"COMPLETED", "FAILED", "CANCELED", "REJECTED"}
ORDER = ["SUBMITTED", "WORKING", "COMPLETED"]


def _check(events):
    """Check what holds for every stream of a task: a snapshot, then updates of that task, versions growing, one end."""
    assert events[0].kind == "task"
    identity, context = events[0].value["task"]["id"], events[0].value["task"]["contextId"]
    for event in events[1:]:
        assert event.kind in {"statusUpdate", "artifactUpdate"}
        assert event.value[event.kind]["taskId"] == identity
        assert event.value[event.kind]["contextId"] == context
        assert "final" not in event.value[event.kind]
    versions = [event.id for event in events if event.id is not None]
    assert versions == sorted(versions)
    ends = [event for event in events if event.state in TERMINAL]
    assert ends in ([], [events[-1]])
    return identity


def test_a_stream_shows_the_whole_run(alice):
    with alice.stream("SendStreamingMessage", sending("phases")) as stream:
        events = list(stream)
    identity = _check(events)
    states = [event.state for event in events if event.state]
    assert states == sorted(states, key=ORDER.index)
    assert states[-1] == "COMPLETED"
    assert "looking" in [said(event.value["statusUpdate"]) for event in events if event.kind == "statusUpdate"]
    task = alice.get(identity)
    assert assemble(events)[task["artifacts"][0]["artifactId"]] == answer(task) == "first half, second half"
    assert len([event for event in events if event.kind == "artifactUpdate"]) > 1, "text is streamed in pieces"


def test_a_redrafted_answer_starts_anew_on_the_stream(alice):
    with alice.stream("SendStreamingMessage", sending("redraft")) as stream:
        events = list(stream)
    task = alice.get(_check(events))
    assert assemble(events) == {task["artifacts"][0]["artifactId"]: "the final text"}
    assert any("a draft" in str(event.value) or "a dr" in str(event.value) for event in events)


@pytest.mark.parametrize(
    "text", ["reject", "give-up", "explode", "explode-late", "end-canceled", "no-provider", "cut-short"]
)
def test_every_terminal_state_ends_the_stream(alice, text):
    with alice.stream("SendStreamingMessage", sending(text)) as stream:
        events = list(stream)
    task = alice.get(_check(events))
    assert events[-1].state == state_of(task)
    assert events[-1].state in TERMINAL


def test_a_direct_reply_is_a_stream_of_exactly_one_message(alice):
    with alice.stream("SendStreamingMessage", {"message": saying("direct")}) as stream:
        events = list(stream)
    assert [event.kind for event in events] == ["message"]
    assert events[0].value["message"]["parts"] == [{"text": "a plain reply"}]


def test_what_is_refused_before_a_stream_starts_is_plain_json(alice):
    task = alice.send("hi")
    refused: list[Json] = [
        sending("x", task=task["id"]),
        {"message": {"parts": []}},
        sending("x", task=str(uuid.uuid4())),
    ]
    for params in refused:
        reply = alice.exchange("SendStreamingMessage", params)
        assert reply.media_type == "application/json"
        assert isinstance(alice.outcome(reply), RefusedError)


def test_a_stream_is_not_to_be_buffered_or_kept(service, rest):
    task = rest.send("ask")
    with rest.stream("SubscribeToTask", {"id": task["id"]}) as stream:
        headers = stream.headers
    assert headers["Content-Type"].startswith("text/event-stream")
    assert "no-cache" in headers["Cache-Control"] or "no-store" in headers["Cache-Control"]


def test_a_subscriber_gets_the_text_so_far_and_then_only_what_is_newer(alice):
    with alice.stream("SendStreamingMessage", sending("phases")) as first:
        seen = []
        for event in first:
            seen.append(event)
            if event.kind == "artifactUpdate":
                break
        with alice.stream("SubscribeToTask", {"id": seen[0].value["task"]["id"]}) as second:
            late = list(second)
        seen += list(first)
    _check(seen)
    _check(late)
    assert assemble(seen) == assemble(late)
    assert "first half, second half" in assemble(late).values()


def test_all_streams_of_a_task_get_the_same_events_in_the_same_order(alice):
    task = alice.send("slow-ask")
    with (
        alice.stream("SubscribeToTask", {"id": task["id"]}) as one,
        alice.stream("SubscribeToTask", {"id": task["id"]}) as two,
        alice.stream("SubscribeToTask", {"id": task["id"]}) as dropped,
    ):
        assert one.next().state == two.next().state == dropped.next().state == "INPUT_REQUIRED"
        dropped.close()
        alice.send("monday", task=task["id"])
        first, second = list(one), list(two)
    assert [(event.id, event.value) for event in first] == [(event.id, event.value) for event in second]
    assert first[-1].state == "COMPLETED"


def test_a_subscription_to_a_parked_task_stays_open_until_its_end(alice):
    task = alice.send("keep-asking")
    with alice.stream("SubscribeToTask", {"id": task["id"]}) as stream:
        assert stream.next().value["task"] == alice.get(task["id"])
        alice.send("monday", task=task["id"])
        states = [event.state for event in stream.until("INPUT_REQUIRED")]
        assert states[-1] == "INPUT_REQUIRED"
        assert "WORKING" in states
        alice.send("nine", task=task["id"])
        assert [event.state for event in stream][-1] == "COMPLETED"


def test_what_a_stream_shows_is_stored_before(service, alice):
    for text in ("phases", "hi", "redraft", "files"):
        with alice.stream("SendStreamingMessage", sending(text)) as stream:
            identity = None
            for event in stream:
                identity = identity or event.value["task"]["id"]
                record = service.record(identity)
                assert event.id is None or record["version"] >= event.id
                if event.state:
                    assert ORDER.index(state_of(record["task"])) >= ORDER.index(event.state)
        assert state_of(service.record(identity)["task"]) == "COMPLETED"


def test_a_reader_gets_every_one_of_very_many_updates_in_order(alice):
    with alice.stream("SendStreamingMessage", sending("many")) as stream:
        events = list(stream)
    _check(events)
    pieces = [
        event.value["artifactUpdate"]["artifact"]["parts"][0]["text"]
        for event in events
        if event.kind == "artifactUpdate" and event.value["artifactUpdate"]["artifact"]["artifactId"] == "many"
    ]
    assert "".join(pieces) == "".join(f"{number};" for number in range(CHUNKS))
    assert events[-1].state == "COMPLETED"


def test_a_last_event_id_is_answered_with_a_snapshot_and_newer_versions(alice):
    task = alice.send("keep-asking")
    with alice.stream("SubscribeToTask", {"id": task["id"]}) as stream:
        version = stream.next().id
    assert version is not None
    alice.send("monday", task=task["id"])
    alice.extra = {"Last-Event-ID": str(version)}
    with alice.stream("SubscribeToTask", {"id": task["id"]}) as stream:
        snapshot = stream.next()
        assert snapshot.kind == "task"
        assert snapshot.id > version
        alice.send("nine", task=task["id"])
        later = list(stream)
    assert all(event.id is None or event.id > snapshot.id for event in later)
    alice.extra = {"Last-Event-ID": "no number"}
    with alice.stream("SendStreamingMessage", sending("hi")) as stream:
        assert list(stream)[-1].state == "COMPLETED"


def _subscribe_to_an_ending_task(caller, randomness):
    task = caller.send("quick: ending", immediately=True)
    time.sleep(randomness.uniform(0.1, 0.3))
    try:
        with caller.stream("SubscribeToTask", {"id": task["id"]}) as stream:
            events = list(stream)
    except RefusedError as refused:
        return refused.kind
    assert _check(events) == task["id"]
    assert "done: quick: ending" in assemble(events).values()
    return f"{len(events) > 1} {events[-1].state}"


def _subscriptions(service, binding, rounds):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    caller = caller_of(service, binding, "alice")
    with ThreadPoolExecutor(6) as threads:
        ends = set(threads.map(lambda n: _subscribe_to_an_ending_task(caller, random.Random(seed + n)), range(rounds)))
    assert ends <= {"True COMPLETED", "False COMPLETED", "UNSUPPORTED_OPERATION"}
    assert {"True COMPLETED", "UNSUPPORTED_OPERATION"} <= ends, "the race was always won by one side"


@pytest.mark.parametrize("binding", ["jsonrpc", "rest"])
def test_a_subscriber_never_misses_the_end(service, binding):
    _subscriptions(service, binding, rounds=48)


@pytest.mark.slow
@pytest.mark.parametrize("binding", ["jsonrpc", "rest"])
def test_a_subscriber_never_misses_the_end_hundreds_of_times(service, binding):
    _subscriptions(service, binding, rounds=600)


def _leave(service, caller, path, params, context):
    """Send a call, drop the connection once its run is there, and return the task."""
    working = {"contextId": context, "status": "TASK_STATE_WORKING"}
    headers = {"Content-Type": "application/json", **caller.headers()}
    with service.endpoint.begin("POST", path, headers, json.dumps(params).encode()) as raw:
        listed = eventually(lambda: caller.call("ListTasks", working)["tasks"], 5, "the run is there")
        raw.shutdown(socket.SHUT_RDWR)
    return listed[0]["id"]


@pytest.mark.parametrize(
    ("setting", "blocking", "streaming"),
    [(None, "CANCELED", "COMPLETED"), ("never", "COMPLETED", "COMPLETED"), ("always", "CANCELED", "CANCELED")],
)
def test_a_client_that_leaves_cancels_what_the_setting_says(make_service, setting, blocking, streaming):
    environment = {} if setting is None else {"A2A__CancelOnDisconnect": setting}
    service = make_service(environment=environment).start()
    rest = service.rest()
    parked = rest.send("slow-ask", context="continued")
    left = {
        "blocking": _leave(service, rest, "/a2a/v1/message:send", sending("steady: a", context="a"), "a"),
        "streaming": _leave(service, rest, "/a2a/v1/message:stream", sending("steady: b", context="b"), "b"),
        "continuation": _leave(
            service, rest, "/a2a/v1/message:send", sending("monday", task=parked["id"]), "continued"
        ),
        "immediate": _leave(
            service, rest, "/a2a/v1/message:send", sending("steady: c", context="c", immediately=True), "c"
        ),
    }
    ends = {name: state_of(rest.wait(identity, *TERMINAL, seconds=8)) for name, identity in left.items()}
    assert ends == {
        "blocking": blocking,
        "streaming": streaming,
        "continuation": streaming,
        "immediate": "COMPLETED",
    }


def test_a_subscriber_that_leaves_never_cancels(make_service):
    service = make_service(environment={"A2A__CancelOnDisconnect": "always"}).start()
    rest = service.rest()
    task = rest.send("steady: watched", immediately=True)
    with rest.stream("SubscribeToTask", {"id": task["id"]}) as stream:
        stream.next()
    assert state_of(rest.wait(task["id"], *TERMINAL, seconds=8)) == "COMPLETED"


def _send_later(caller, task_id, seconds):
    time.sleep(seconds)
    caller.send("monday", task=task_id)


@pytest.mark.slow
def test_a_quiet_stream_carries_comments(service, rest):
    task = rest.send("ask")
    with rest.stream("SubscribeToTask", {"id": task["id"]}) as stream:
        stream.next()
        started = time.monotonic()
        with ThreadPoolExecutor(1) as threads:
            threads.submit(_send_later, rest, task["id"], 33)
            rest_of_it = list(stream)
    assert time.monotonic() - started > 30
    assert stream.comments >= 2
    assert rest_of_it[-1].state == "COMPLETED"


@pytest.mark.slow
def test_a_reader_that_stops_reading_holds_up_nobody(make_service):
    script = {"rules": [{"textPrefix": "flood", "steps": [{"delay": 1}, {"text": "x" * 5_000_000}]}], "chunk": 1000}
    service = make_service(script=script).start()
    rest = service.rest()
    task = rest.send("flood", immediately=True)
    path = f"/a2a/v1/tasks/{task['id']}:subscribe"
    stalled = service.endpoint.connect(receive_buffer=4096)
    with stalled:
        head = "".join(f"{name}: {value}\r\n" for name, value in rest.headers().items())
        stalled.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode())
        started = time.monotonic()
        with rest.stream("SubscribeToTask", {"id": task["id"]}) as stream:
            events = list(stream)
        assert time.monotonic() - started < 20
        assert events[-1].state == "COMPLETED"
        assert "x" * 5_000_000 in assemble(events).values()
        assert answer(rest.get(task["id"])) == "x" * 5_000_000
