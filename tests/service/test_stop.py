"""Stopping: a drain with a deadline, a second signal, and nothing left behind (A4, A6)."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.service.a2a import answer, said, sending, state_of
from tests.service.harness import eventually
from tests.service.wire import read_until

SHUTDOWN = {"VOLCANIC_SHUTDOWN_SECONDS": "2s"}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_service_stops_at_once_and_leaves_nothing(make_service, how):
    service = make_service().start()
    assert answer(service.rpc().send("hi")) == "hi"
    with service.endpoint.connect():
        started = time.monotonic()
        service.stop(how)
    assert time.monotonic() - started < 3, "an idle connection holds nothing up"


def test_a_run_that_ends_in_time_is_answered_and_new_calls_are_not(make_service):
    service = make_service(environment={"VOLCANIC_SHUTDOWN_SECONDS": "10s"}).start()
    rest = service.rest()
    with ThreadPoolExecutor(1) as threads:
        blocked = threads.submit(rest.send, "steady: finish me", context="drain")
        working = {"contextId": "drain", "status": "TASK_STATE_WORKING"}
        eventually(lambda: rest.call("ListTasks", working)["tasks"], 5, "the run is there")
        with rest.stream("SubscribeToTask", {"id": rest.call("ListTasks", working)["tasks"][0]["id"]}) as stream:
            started = time.monotonic()
            service.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            asked = time.monotonic()
            with contextlib.suppress(ConnectionError, http.client.HTTPException):
                assert rest.exchange("SendMessage", sending("too late")).status == 503
            assert time.monotonic() - asked < 1, "a call that comes during the drain is turned away, not left waiting"
            assert answer(blocked.result(10)) == "done: steady: finish me"
            assert [event.state for event in stream][-1] == "COMPLETED"
    assert service.process.wait(5) == 0
    assert time.monotonic() - started < 8, "nothing waits for the deadline when nothing runs"
    service.assert_nothing_left()


def test_a_run_that_does_not_end_in_time_is_settled_and_its_streams_end_cleanly(make_service):
    service = make_service(environment=SHUTDOWN).start()
    rest = service.rest()
    running = [rest.send("long: too long", immediately=True) for _ in range(10)]
    parked = rest.send("ask")
    path = f"/a2a/v1/tasks/{running[0]['id']}:subscribe"
    with (
        ThreadPoolExecutor(1) as threads,
        service.endpoint.begin("POST", path, rest.headers()) as subscriber,
        service.endpoint.begin("POST", f"/a2a/v1/tasks/{parked['id']}:subscribe", rest.headers()) as waiter,
    ):
        read_until(subscriber, b'"contextId"')
        read_until(waiter, b'"contextId"')
        blocked = threads.submit(rest.exchange, "SendMessage", sending("long: blocking"))
        eventually(lambda: rest.call("ListTasks", {"status": "TASK_STATE_WORKING"})["totalSize"] == 11, 5, "all run")
        started = time.monotonic()
        service.stop(seconds=2 + 2)
        assert time.monotonic() - started < 2 + 2
        assert _rest_of(subscriber).endswith(b"0\r\n\r\n"), "a stream ends with its last chunk"
        assert _rest_of(waiter).endswith(b"0\r\n\r\n")
        reply = blocked.result(5)
        assert reply.status in {200, 503}
    service.start()
    rest = service.rest()
    for task in running:
        after = rest.get(task["id"])
        assert (state_of(after), said(after)) == ("FAILED", "server restarted")
    assert rest.call("ListTasks", {"status": "TASK_STATE_WORKING"})["totalSize"] == 0
    assert answer(rest.send("monday", task=parked["id"])) == "booked monday"
    service.stop()


def _rest_of(raw):
    received = b""
    while more := raw.recv(65536):
        received += more
    return received


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_stops_at_once(make_service, second):
    service = make_service(environment={"VOLCANIC_SHUTDOWN_SECONDS": "60s"}).start()
    task = service.rpc().send("long: forever", immediately=True)
    service.process.send_signal(signal.SIGTERM)
    time.sleep(1)
    assert service.process.poll() is None, "the run is given its time"
    started = time.monotonic()
    service.process.send_signal(second)
    service.process.wait(5)
    assert time.monotonic() - started < 1
    service.assert_nothing_left(orderly=False)
    service.start()
    after = service.rpc().get(task["id"])
    assert (state_of(after), said(after)) == ("FAILED", "server restarted")
    service.stop()


def test_clients_that_never_read_do_not_hold_up_a_stop(make_service):
    script = {"rules": [{"textPrefix": "flood", "steps": [{"text": "x" * 2_000_000}, {"delay": 60}]}], "chunk": 1000}
    service = make_service(script=script, environment=SHUTDOWN).start()
    rest = service.rest()
    body = json.dumps(sending("flood")).encode()
    headers = {"Content-Type": "application/json", **rest.headers()}
    stalled = [service.endpoint.begin("POST", "/a2a/v1/message:stream", headers, body) for _ in range(5)]
    try:
        eventually(lambda: rest.call("ListTasks", {})["totalSize"] == 5, 5, "all run")
        service.stop(seconds=2 + 2)
    finally:
        for raw in stalled:
            raw.close()


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0.0, 0.1, 0.2, 0.4, 0.8])
def test_a_stop_in_the_middle_of_a_start_is_clean(make_service, pause):
    service = make_service()
    process = service.launch()
    time.sleep(pause)
    process.send_signal(signal.SIGTERM)
    process.wait(10)
    eventually(lambda: not service.census(), 2, "nothing is left")
