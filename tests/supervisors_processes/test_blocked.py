"""Workers that neither die nor work: blocked, stopped, never ready, deaf to a stop, talking nonsense."""

from __future__ import annotations

import signal
import time

import msgspec
import pytest

from supervisors.frames import encode_frame
from tests.supervisors_processes.conftest import gone, wait_until


def exit_text(service, child: str, seen: int) -> str:
    return service.wait_event(lambda e: e["event"] == "exit" and e["child"] == child, after=seen)["text"]


def test_blocked_worker_is_killed_and_the_reason_names_what_it_took_up(start):
    service = start({"silence": 1.0}).up()
    first, second = service.pids()
    seen = len(service.events)
    asked = time.monotonic()
    ask = service.send("ask", 0, "block 60", 30)
    service.wait_state("w-0", "READY", after=seen)
    assert 0.9 < time.monotonic() - asked < 3.0
    text = exit_text(service, "w-0", seen)
    assert "its loop stood still for 1." in text
    assert "took up block" in text
    assert service.answer(ask) == {"error": "w-0 gave no answer: it ended"}
    assert gone(first)
    assert service.pids()[1] == second


def test_stopped_worker_is_killed(start):
    service = start({"silence": 1.0}).up()
    first, second = service.pids()
    seen = len(service.events)
    service.kill(first, signal.SIGSTOP)
    service.wait_state("w-0", "READY", after=seen, seconds=4.0)
    assert "stood still" in exit_text(service, "w-0", seen)
    assert service.pids()[1] == second


def test_root_that_was_blocked_itself_kills_nobody(start):
    service = start({"silence": 1.0}).up()
    before = service.pids()
    for pid in before:
        service.kill(pid, signal.SIGSTOP)
    block = service.send("block", 3.0)
    time.sleep(2.9)
    for pid in before:
        service.kill(pid, signal.SIGCONT)
    service.answer(block)
    assert service.do("ask", 0, "facts")["pid"] == before[0]
    assert service.pids() == before


def test_ask_of_a_stopped_worker_ends_in_time_and_costs_it_nothing(service):
    pid = service.pids()[0]
    service.kill(pid, signal.SIGSTOP)
    for seconds in (0.0, 0.2):
        assert service.do("ask", 0, "facts", seconds) == {"error": f"w-0 did not answer within {seconds:g} s"}
    service.kill(pid, signal.SIGCONT)
    assert service.do("ask", 0, "facts")["pid"] == pid


def test_worker_refuses_more_asks_than_it_holds_and_answers_the_others(service):
    asks = [service.send("ask", 0, "sleep 0.05", 10) for _ in range(40)]
    answers = [service.answer(ask) for ask in asks]
    refused = [answer for answer in answers if answer == {"error": "w-0 gave no answer: busy"}]
    assert 0 < len(refused) <= 40 - 16
    assert len({answer["pid"] for answer in answers if "pid" in answer}) == 1


def test_failing_answer_refuses_that_ask_alone(service):
    assert service.do("ask", 0, "fail no such thing") == {"error": "w-0 gave no answer: ValueError"}
    assert service.do("ask", 0, "facts")["incarnation"] == 1


def test_worker_that_never_says_ready_is_killed_and_root_gives_up(start):
    service = start({"role": "never_ready", "start": 0.1})
    text = service.wait_event(lambda e: e["event"] == "exit")["text"]
    assert "not ready within 0.1 s, before it was ready" in text
    assert service.wait_end() == 1
    assert "gave up" in service.stderr()


def test_worker_that_fails_at_once_ends_the_service_with_the_reason(start):
    service = start({"role": "broken"})
    assert service.wait_end() == 1
    errors = service.stderr()
    assert "exit status 1, before it was ready" in errors
    assert "this role cannot start" in errors


def test_unknown_role_ends_the_service_with_the_reason(start):
    service = start({"role": "nonsense"})
    assert service.wait_end() == 1
    assert "no role 'nonsense'" in service.stderr()


def test_worker_whose_main_raises_says_so_once_and_exits_1(service):
    seen = len(service.events)
    service.do("ask", 0, "crash")
    assert "exited with status 1: exit status 1" in exit_text(service, "w-0", seen)
    service.wait_state("w-0", "READY", after=seen)
    service.kill(service.launcher, signal.SIGTERM)
    assert service.stderr().count("RuntimeError: told to crash") == 1


def test_worker_that_leaves_by_itself_is_replaced(service):
    seen = len(service.events)
    service.send("ask", 0, "exit 0")
    service.wait_state("w-0", "READY", after=seen)
    assert service.do("ask", 0, "facts")["incarnation"] == 2


def frame(message: object) -> str:
    return encode_frame(msgspec.msgpack.encode(message)).hex()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("ffffffff", "over the limit"),
        (frame("abc"), "no message"),
        ("00000001c1", "no message"),
        ("00000000", "no message"),
        (frame({"type": "stop"}), "no message"),
        (frame({"type": "reply", "id": 99, "payload": b""}), "question 99, of"),
        (frame({"type": "ready", "more": 1}), "no message"),
    ],
)
def test_garbage_on_the_channel_costs_the_worker_that_sent_it(service, data, reason):
    second = service.pids()[1]
    seen = len(service.events)
    assert service.do("ask", 0, f"garbage {data}") == {"error": "w-0 gave no answer: it ended"}
    text = exit_text(service, "w-0", seen)
    assert "garbage on its channel" in text
    assert reason in text
    service.wait_state("w-0", "READY", after=seen)
    assert service.pids()[1] == second
    assert service.do("ask", 0, "facts")["incarnation"] == 2


def test_worker_that_dies_inside_a_frame_is_told_as_any_other(service):
    seen = len(service.events)
    assert service.do("ask", 0, "cut 0000001092aa7265") == {"error": "w-0 gave no answer: it ended"}
    assert "exited with status 5: exit status 5" in exit_text(service, "w-0", seen)
    service.wait_state("w-0", "READY", after=seen)


def test_worker_that_closes_its_channel_and_lives_on_is_killed(service):
    first = service.pids()[0]
    seen = len(service.events)
    service.send("ask", 0, "close", 20)
    service.wait_state("w-0", "READY", after=seen, seconds=4.0)
    assert "closed its channel" in exit_text(service, "w-0", seen)
    assert gone(first)


def test_deaf_worker_is_killed_when_its_time_to_stop_is_over(start):
    service = start({"drain": 0.5}).up()
    service.do("ask", 0, "ignore_stop")
    asked = time.monotonic()
    service.kill(service.launcher, signal.SIGTERM)
    assert service.wait_end() == 0
    assert 0.5 <= time.monotonic() - asked < 1.5
    assert not service.members()


def test_worker_that_keeps_a_thread_leaves_all_the_same(service):
    service.do("ask", 0, "thread")
    asked = time.monotonic()
    service.kill(service.launcher, signal.SIGTERM)
    assert service.wait_end() == 0
    assert time.monotonic() - asked < 2.0


def test_stopped_worker_is_killed_when_the_service_stops(start):
    service = start({"drain": 0.5}).up()
    service.kill(service.pids()[1], signal.SIGSTOP)
    asked = time.monotonic()
    service.kill(service.launcher, signal.SIGTERM)
    assert service.wait_end() == 0
    assert time.monotonic() - asked < 1.5
    wait_until(lambda: not service.members())
