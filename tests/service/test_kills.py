"""Killing processes under load with SIGKILL: what is promised then, seen from outside (A1 to A3, I1 to I3, RS-04)."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import statistics
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.service.a2a import answer, said, state_of
from tests.service.harness import eventually
from tests.service.streams import assemble

RESTARTED = "server restarted"
SLOTS, EDGES = r"agents-\d+", r"edge-\d+"


def _kill(service, pattern):
    for pid in service.pids(pattern):
        os.kill(pid, signal.SIGKILL)
    return time.monotonic()


def _restarts(service, pattern):
    return sum(node["restarts"] for node in service.nodes(pattern))


def _watch(rest, text):
    """Stream one message to its end."""
    with rest.stream("SendStreamingMessage", {"message": _message(text)}) as stream:
        return list(stream)


def _message(text):
    return {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}


def _one_round_of_slot_kills(service, number):
    """Kill every slot under 20 running tasks; return how long a new message took to be served."""
    rest, rpc = service.rest(), service.rpc()
    parked = rest.send("ask")
    done = rest.send("hi", context=f"kept-{number}")
    before = _restarts(service, SLOTS)
    with ThreadPoolExecutor(14) as threads:
        blocked = [threads.submit(rpc.send, f"long: blocking {each}") for each in range(7)]
        streamed = [threads.submit(_watch, rest, f"long: streaming {each}") for each in range(7)]
        started = [rpc.send(f"long: alone {each}", immediately=True) for each in range(6)]
        working = {"status": "TASK_STATE_WORKING"}
        eventually(lambda: rpc.call("ListTasks", working)["totalSize"] == 20, 10, "20 tasks run")
        owners = {service.record(task["id"])["run"]["slot"] for task in rpc.call("ListTasks", working)["tasks"]}
        assert len(owners) == 2, "the tasks run on both slots"
        killed = _kill(service, SLOTS)
        assert answer(rpc.send("are you there?")) == "are you there?"
        served = time.monotonic() - killed
        tasks = [each.result(10) for each in blocked]
        streams = [each.result(10) for each in streamed]
        settled = time.monotonic() - killed
    assert settled < 5, "blocked callers and streams are answered at once"
    assert [(state_of(task), said(task)) for task in tasks] == [("FAILED", RESTARTED)] * 7
    for events in streams:
        assert events[-1].state == "FAILED"
        tasks.append(rest.get(events[0].value["task"]["id"]))
    tasks += [rest.get(task["id"]) for task in started]
    assert [(state_of(task), said(task)) for task in tasks] == [("FAILED", RESTARTED)] * 20
    assert rest.call("ListTasks", {"status": "TASK_STATE_WORKING"})["totalSize"] == 0
    assert [rest.get(task["id"]) for task in tasks] == tasks, "a settled task changed"
    assert rest.get(parked["id"]) == parked
    assert answer(rest.send("monday", task=parked["id"])) == "booked monday"
    assert rest.get(done["id"]) == done
    assert answer(rest.send("count", context=f"kept-{number}")) == "run 2"
    assert _restarts(service, SLOTS) == before + 2
    return served


def test_killing_every_slot_settles_what_ran_and_serves_on(make_service):
    service = make_service(edges=1, workers=2).start()
    root, edge = service.pids("root"), service.pids(EDGES)
    served = [_one_round_of_slot_kills(service, number) for number in range(3)]
    print(f"a new message was served after {served} s")
    assert statistics.median(served) < 1, "new messages are served within a second"
    assert (service.pids("root"), service.pids(EDGES)) == (root, edge), "only the slots died"
    eventually(service.is_ready, 5, "it says that it is ready again")
    service.assert_no_key_shown()
    service.stop()


def test_while_a_slot_is_down_it_is_not_ready_and_never_answers_half(make_service):
    service = make_service(edges=1, workers=2).start()
    rest = service.rest()
    ids = {rest.send("hi")["id"] for _ in range(12)}
    for _ in range(5):
        _kill(service, SLOTS)
        page = rest.outcome(rest.exchange("ListTasks", {}))
        if isinstance(page, dict):
            assert {task["id"] for task in page["tasks"]} == ids, "a partial page was given as the whole"
        else:
            assert page.reply.status == 503
        assert rest.get(next(iter(ids)))["id"] in ids, "a finished task is read without its slot"
        eventually(service.is_ready, 10, "it is ready again")


def test_a_killed_edge_ends_no_run_and_refuses_nobody(make_service):
    service = make_service(edges=1, workers=2).start()
    rest = service.rest()
    refused, stop = [], threading.Event()

    def knock():
        while not stop.is_set():
            try:
                service.endpoint.connect().close()
            except ConnectionRefusedError as error:
                refused.append(error)
            except OSError:
                pass
            time.sleep(0.005)

    with ThreadPoolExecutor(3) as threads:
        threads.submit(knock)
        try:
            alone = rest.send("steady: alone", immediately=True)
            blocked = threads.submit(_whatever_comes, rest.send, "steady: blocking")
            streamed = threads.submit(_whatever_comes, _watch, rest, "steady: streaming")
            eventually(lambda: rest.call("ListTasks", {"status": "TASK_STATE_WORKING"})["totalSize"] == 3, 5, "all run")
            running = [task["id"] for task in rest.call("ListTasks", {})["tasks"]]
            assert alone["id"] in running
            old = service.pids(EDGES)
            slots = service.pids(SLOTS)
            killed = _kill(service, EDGES)
            assert answer(rest.send("hello")) == "hello"
            assert time.monotonic() - killed < 5
            blocked.result(10)
            streamed.result(10)
        finally:
            stop.set()
    for identity in running:
        assert state_of(rest.wait(identity, "COMPLETED", "FAILED", "CANCELED", seconds=8)) == "COMPLETED"
    assert refused == []
    assert service.pids(EDGES) != old
    assert service.pids(SLOTS) == slots
    service.stop()


def _whatever_comes(call, *arguments):
    with contextlib.suppress(OSError, ValueError, AssertionError, http.client.HTTPException):
        return call(*arguments)


def test_a_subscriber_of_a_killed_edge_comes_back_to_the_same_run(make_service):
    service = make_service(edges=1, workers=1).start()
    rest = service.rest()
    task = rest.send("steady: come back", immediately=True)
    with rest.stream("SubscribeToTask", {"id": task["id"]}) as stream:
        stream.next()
        _kill(service, EDGES)
    with rest.stream("SubscribeToTask", {"id": task["id"]}) as stream:
        events = list(stream)
    assert events[0].state == "WORKING"
    assert events[-1].state == "COMPLETED"
    assert "done: steady: come back" in assemble(events).values()


@pytest.mark.parametrize("victim", ["root", "launcher"])
def test_killing_the_head_leaves_nothing_and_a_new_start_repairs(make_service, victim):
    service = make_service(edges=1, workers=2).start()
    rest = service.rest()
    done, parked = rest.send("hi", context="before"), rest.send("ask")
    running = [rest.send(f"long: {number}", immediately=True) for number in range(20)]
    pid = service.pids("root")[0] if victim == "root" else service.process.pid
    os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    eventually(lambda: not service.census() and service.process.poll() is not None, 1, f"all gone: {service.census()}")
    assert service.port_is_free()
    assert service.process.returncode != 0
    print(f"nothing was left {time.monotonic() - killed:.3f} s after the kill")
    service.start()
    assert "volcanic ready" in service.out.read_text()
    for task in running:
        after = rest.get(task["id"])
        assert (state_of(after), said(after)) == ("FAILED", RESTARTED)
    assert rest.get(done["id"]) == done
    assert rest.get(parked["id"]) == parked
    assert answer(rest.send("monday", task=parked["id"])) == "booked monday"
    assert answer(rest.send("count", context="before")) == "run 2"
    service.stop()


def test_the_lock_of_a_killed_service_is_free_at_once(make_service):
    service = make_service(edges=1, workers=1)
    started = time.monotonic()
    service.start()
    usual = time.monotonic() - started
    os.kill(service.pids("root")[0], signal.SIGKILL)
    eventually(lambda: not service.census(), 1, "all gone")
    service.process.wait(1)
    started = time.monotonic()
    service.start()
    assert time.monotonic() - started < usual + 2, "it did not wait for the lock"


def test_a_worker_that_kills_itself_takes_only_its_runs_with_it(make_service):
    script = {"rules": [{"textPrefix": "die", "steps": [{"text": "last words"}, {"exit": 3}]}, {"textPrefix": "ask", "turns": "ask"}], "turns": {"ask": [[{"end": "input-required", "text": "?"}], [{"text": "ok"}]]}}  # fmt: skip
    service = make_service(script=script, edges=1, workers=2).start()
    rest = service.rest()
    parked = rest.send("ask")
    for _ in range(3):
        task = rest.send("die")
        assert (state_of(task), said(task)) == ("FAILED", RESTARTED)
        assert rest.get(task["id"]) == task
    assert answer(rest.send("yes", task=parked["id"])) == "ok"
    service.stop()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stopped", "blocked"])
def test_a_slot_that_hangs_is_killed_and_replaced(make_service, how):
    script = {
        "rules": [{"textPrefix": "spin", "steps": [{"spin": 60}]}, {"textPrefix": "long", "steps": [{"delay": 60}]}]
    }
    service = make_service(script=script, edges=1, workers=1, environment={"VOLCANIC_HEARTBEAT_SECONDS": "3s"}).start()
    rest = service.rest()
    (pid,) = service.pids(SLOTS)
    with ThreadPoolExecutor(1) as threads:
        if how == "stopped":
            blocked = threads.submit(rest.send, "long: hang")
            eventually(lambda: rest.call("ListTasks", {"status": "TASK_STATE_WORKING"})["totalSize"], 5, "it runs")
            os.kill(pid, signal.SIGSTOP)
        else:
            blocked = threads.submit(rest.send, "spin")
        started = time.monotonic()
        task = blocked.result(20)
        assert time.monotonic() - started < 15
    assert (state_of(task), said(task)) == ("FAILED", RESTARTED)
    assert answer(rest.send("hi")) == "hi"
    assert service.pids(SLOTS) != [pid]
    assert "agents-0" in service.log.read_text(), "the log says which slot was killed"
    service.stop()


@pytest.mark.slow
def test_slots_and_edges_killed_again_and_again_lose_nothing(make_service):
    service = make_service(edges=2, workers=2).start()
    acknowledged, stop = {}, threading.Event()

    def work(caller):
        while not stop.is_set():
            task = _whatever_comes(caller.send, "quick: work")
            if task is not None:
                acknowledged[task["id"]] = task

    with ThreadPoolExecutor(8) as threads:
        for caller in [service.rpc, service.rest] * 4:
            threads.submit(work, caller())
        try:
            for number in range(60):
                time.sleep(0.4)
                with contextlib.suppress(ProcessLookupError):
                    node = service.nodes(SLOTS if number % 3 else EDGES)[number % 2]
                    if node["pid"]:
                        os.kill(node["pid"], signal.SIGKILL)
        finally:
            stop.set()
    eventually(service.is_ready, 10, "it is ready after the kills")
    rest = service.rest()
    ends = {state_of(task) for task in acknowledged.values()}
    print(f"{len(acknowledged)} tasks were acknowledged: {ends}")
    assert ends == {"COMPLETED", "FAILED"}, "some runs ended and some were hit"
    assert {identity: rest.get(identity) for identity in acknowledged} == acknowledged
    for state in ("WORKING", "SUBMITTED"):
        assert rest.call("ListTasks", {"status": f"TASK_STATE_{state}"})["totalSize"] == 0
    service.stop()
