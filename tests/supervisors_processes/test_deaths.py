"""Who dies with whom: kill -9 of each kind of process, and what is left afterwards (nothing)."""

from __future__ import annotations

import os
import signal
import socket
import time

from tests.supervisors_processes.conftest import gone, name, state, wait_until


def extra_children(service) -> list[int]:
    return [pid for pid in service.members() if name(pid) == "extra"]


def test_killed_worker_is_replaced_and_the_other_goes_on(service):
    first, second = service.pids()
    seen = len(service.events)
    killed_at = time.monotonic()
    service.kill(first)
    service.wait_state("w-0", "READY", after=seen)
    assert time.monotonic() - killed_at < 1.0
    facts = service.do("ask", 0, "facts")
    assert facts["pid"] != first
    assert facts["incarnation"] == 2
    assert service.do("ask", 1, "facts")["pid"] == second
    exit_event = service.wait_event(lambda event: event["event"] == "exit", after=seen)
    assert "SIGKILL" in exit_event["text"]
    assert not service.zombies()


def test_worker_killed_over_and_over_comes_back_and_leaves_no_zombie_or_descriptor(service):
    def after_restart() -> dict:
        seen = len(service.events)
        service.kill(service.pids()[0])
        service.wait_state("w-0", "READY", after=seen)
        return service.do("files")

    before = after_restart()
    for _ in range(6):
        after = after_restart()
    assert len(after) == len(before)
    assert not service.zombies()
    assert service.do("ask", 0, "facts")["incarnation"] == 8


def test_connection_to_a_killed_worker_s_listener_waits_for_the_successor(service):
    root = service.wait_event(lambda event: event["event"] == "root")
    for pid in service.pids():
        service.kill(pid)
    with socket.create_connection(("127.0.0.1", root["port"]), timeout=5):
        pass


def test_killed_root_takes_everything_with_it_within_a_second(service):
    members = service.members()
    assert len(members) == 4
    service.kill(service.root)
    killed_at = time.monotonic()
    assert service.wait_end() == 128 + signal.SIGKILL
    assert time.monotonic() - killed_at < 1.0
    assert all(gone(pid) for pid in members)


def test_killed_root_takes_stopped_workers_with_it(service):
    for pid in service.pids():
        service.kill(pid, signal.SIGSTOP)
    service.kill(service.root)
    assert service.wait_end(1.0) == 128 + signal.SIGKILL
    assert not service.members()


def test_killed_launcher_takes_everything_with_it_within_a_second(service):
    members = service.members()
    for pid in service.pids():
        service.kill(pid, signal.SIGSTOP)
    service.kill(service.launcher)
    assert wait_until(lambda: all(gone(pid) for pid in members)) < 1.0


def test_worker_whose_launcher_is_stopped_leaves_when_root_dies(service):
    workers = service.pids()
    service.kill(service.launcher, signal.SIGSTOP)
    service.kill(service.root)
    assert wait_until(lambda: all(gone(pid) for pid in workers)) < 1.0
    service.kill(service.launcher, signal.SIGCONT)
    assert service.wait_end() == 128 + signal.SIGKILL


def test_root_killed_in_the_middle_of_many_forks_leaves_nothing(start):
    for _ in range(3):
        service = start().up()
        forks = service.send("hold_many", 300)
        wait_until(lambda: extra_children(service))  # noqa: B023 - awaited in the same round
        service.kill(service.root)
        assert service.wait_end() == 128 + signal.SIGKILL
        assert forks not in service.answers
        assert not service.members()


def test_launcher_killed_in_the_middle_of_many_forks_leaves_nothing(start):
    for _ in range(3):
        service = start().up()
        service.send("hold_many", 300)
        wait_until(lambda: extra_children(service))  # noqa: B023 - awaited in the same round
        service.kill(service.launcher)
        assert wait_until(lambda: not service.members()) < 1.0  # noqa: B023 - awaited in the same round


def test_what_a_worker_started_in_a_session_of_its_own_ends_with_the_service(service):
    service.do("ask", 0, "spawn")
    assert len(service.members()) == 5
    service.kill(service.launcher, signal.SIGTERM)
    assert service.wait_end() == 0
    assert not service.members()


def test_orphans_of_a_dead_worker_become_no_zombies(service):
    service.do("ask", 0, "spawn")
    known = {service.launcher, service.root, *service.pids()}
    (stray,) = set(service.members()) - known
    seen = len(service.events)
    service.kill(service.pids()[0])
    service.wait_state("w-0", "READY", after=seen)
    service.kill(stray)
    wait_until(lambda: state(stray) == "")


def test_exit_status_of_root_is_the_service_s(start):
    assert start({"root_ends": 7}).wait_end() == 7
    assert start({"root_ends": 0}).wait_end() == 0
    crashed = start({"root_raises": True})
    assert crashed.wait_end() == 1
    assert "this role cannot start" in crashed.stderr()
    signalled = start().up()
    os.kill(signalled.root, signal.SIGSEGV)
    assert signalled.wait_end() == 128 + signal.SIGSEGV
