"""Signals, from the user's side: to the launcher, to root, from a terminal, from a terminal that goes away."""

from __future__ import annotations

import os
import pty
import signal
import time

import pytest

from tests.supervisors_processes.conftest import wait_until


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("target", ["launcher", "root"])
def test_stop_signal_drains_and_exits_0(service, number, target):
    service.kill(getattr(service, target), number)
    assert service.wait_end() == 0
    stopping = [event for event in service.events if event["event"] == "stopping"]
    assert stopping == [{"event": "stopping", "signal": number.name}]
    order = [event["event"] for event in service.events if event.get("state") == "STOPPING"]
    assert order == ["w-1", "w-0"]
    assert service.stderr() == ""
    assert not service.members()


def test_signalling_every_process_of_the_service_stops_it_in_order(service):
    for pid in service.members():
        service.kill(pid, signal.SIGTERM)
    assert service.wait_end() == 0
    assert [event["event"] for event in service.events if event.get("state") == "STOPPING"] == ["w-1", "w-0"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_workers_leave_only_when_root_says_so(service, number):
    before = service.pids()
    for pid in before:
        service.kill(pid, number)
    time.sleep(0.1)
    assert [service.do("ask", index, "facts")["pid"] for index in (0, 1)] == before


def test_second_signal_stops_at_once(start):
    service = start({"drain": 30.0, "root_drain": 60.0}).up()
    service.do("ask", 0, "ignore_stop")
    service.kill(service.launcher, signal.SIGTERM)
    service.wait_event(lambda event: event["event"] == "stopping")
    time.sleep(0.3)
    assert service.process.poll() is None
    again = time.monotonic()
    service.kill(service.launcher, signal.SIGINT)
    assert service.wait_end() == 128 + signal.SIGINT
    assert time.monotonic() - again < 1.0
    assert not service.members()


def test_second_signal_right_after_the_first_is_the_same_wish(start):
    service = start({"drain": 1.0}).up()
    service.do("ask", 0, "ignore_stop")
    service.kill(service.launcher, signal.SIGTERM)
    service.kill(service.launcher, signal.SIGINT)
    service.kill(service.root, signal.SIGTERM)
    assert service.wait_end() == 0


def test_drain_that_takes_too_long_ends_with_status_1(start):
    service = start({"drain": 30.0, "root_drain": 0.5}).up()
    service.do("ask", 0, "ignore_stop")
    asked = time.monotonic()
    service.kill(service.launcher, signal.SIGTERM)
    assert service.wait_end() == 1
    assert 0.4 < time.monotonic() - asked < 1.5
    assert not service.members()


def test_blocked_root_is_killed_after_a_second_signal(service):
    service.kill(service.root, signal.SIGSTOP)
    service.kill(service.launcher, signal.SIGTERM)
    time.sleep(0.3)
    service.kill(service.launcher, signal.SIGTERM)
    assert service.wait_end(4.0) == 128 + signal.SIGKILL
    assert "root does not end and is killed" in service.stderr()


def test_stop_right_at_the_start_leaves_nothing(start):
    for delay in (0.0, 0.05, 0.1, 0.15, 0.2):
        service = start()
        time.sleep(delay)
        service.kill(service.launcher, signal.SIGTERM)
        assert service.wait_end() in {0, 128 + signal.SIGTERM, -signal.SIGTERM}
        assert not service.members()


def test_hangup_signal_replaces_the_workers_one_after_the_other(service):
    before = service.pids()
    seen = len(service.events)
    service.kill(service.launcher, signal.SIGHUP)
    assert service.wait_event(lambda event: event["event"] == "reloaded", after=seen)["trouble"] == ""
    states = [(event["event"], event["state"]) for event in service.events[seen:] if "state" in event]
    assert states == [(name, state) for name in ("w-0", "w-1") for state in ("STOPPING", "DOWN", "STARTING", "READY")]
    assert not set(before) & set(service.pids())
    assert service.do("ask", 0, "facts")["incarnation"] == 2


def test_rolling_restart_kills_a_worker_that_does_not_leave(start):
    service = start({"drain": 0.5}).up()
    service.do("ask", 0, "ignore_stop")
    seen = len(service.events)
    service.kill(service.launcher, signal.SIGHUP)
    service.wait_event(lambda event: event["event"] == "reloaded", after=seen)
    text = service.wait_event(lambda e: e["event"] == "exit" and e["child"] == "w-0", after=seen)["text"]
    assert "did not leave within 0.5 s" in text


def test_stop_in_the_middle_of_a_rolling_restart_lets_the_worker_finish(start):
    service = start({"drain": 1.0}).up()
    service.do("ask", 0, "ignore_stop")
    service.kill(service.launcher, signal.SIGHUP)
    service.wait_state("w-0", "STOPPING")
    asked = time.monotonic()
    service.kill(service.launcher, signal.SIGTERM)
    assert service.wait_end() == 0
    assert time.monotonic() - asked < 3.0
    assert not service.members()


def test_interrupt_from_the_terminal_reaches_root_once(start):
    master, terminal = pty.openpty()
    try:
        service = start(stdin=terminal, stdout=terminal, preexec_fn=lambda: take_terminal(terminal)).up()
        os.write(master, b"\x03")
        assert service.wait_end() == 0
        assert [e["signal"] for e in service.events if e["event"] == "stopping"] == ["SIGINT"]
        assert service.stderr() == ""
    finally:
        os.close(master)
        os.close(terminal)


@pytest.mark.parametrize(("nohup", "stops"), [(False, True), (True, False)])
def test_terminal_that_goes_away(start, nohup, stops):
    master, terminal = pty.openpty()

    def before() -> None:
        take_terminal(terminal)
        # Said in both cases: tests that are run under nohup would hand it on.
        signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)

    service = start(stdin=terminal, preexec_fn=before).up()
    os.close(terminal)
    os.close(master)
    if stops:
        assert service.wait_end() == 0
        assert [e["signal"] for e in service.events if e["event"] == "stopping"] == ["SIGTERM"]
        return
    time.sleep(0.3)
    assert service.do("ask", 0, "facts")["incarnation"] == 1
    service.kill(service.launcher, signal.SIGHUP)
    service.wait_event(lambda event: event["event"] == "reloaded")


def take_terminal(terminal: int) -> None:
    os.setsid()
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def test_stopped_launcher_forwards_when_it_goes_on(service):
    service.kill(service.launcher, signal.SIGSTOP)
    service.kill(service.launcher, signal.SIGTERM)
    service.kill(service.pids()[0])
    time.sleep(0.2)
    service.kill(service.launcher, signal.SIGCONT)
    assert service.wait_end() == 0
    wait_until(lambda: not service.members())
