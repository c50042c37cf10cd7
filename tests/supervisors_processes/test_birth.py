"""What a forked process starts with, and what it must not inherit; and the fork pipe under stress."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from tests.supervisors_processes.conftest import ROOM, name, open_descriptors, parent, wait_until


def test_worker_is_the_launcher_s_child_in_a_session_of_its_own_and_named(service):
    facts = [service.do("ask", index, "facts") for index in (0, 1)]
    for index, fact in enumerate(facts):
        assert fact["parent"] == service.launcher
        assert fact["session"] == fact["pid"]
        assert fact["payload"] == f"for w-{index}"
        assert fact["comm"] == name(fact["pid"]) == f"w-{index}"
        assert not fact["sigterm_ignored"]
    assert facts[0]["random"] != facts[1]["random"]
    assert parent(service.root) == service.launcher
    assert os.getsid(service.root) == service.root


def test_worker_holds_only_the_descriptors_meant_for_it(service):
    seen = len(service.events)
    service.kill(service.pids()[0])  # the second incarnation is forked while more is open in the launcher
    service.wait_state("w-0", "READY", after=seen)
    facts = service.do("ask", 0, "facts")
    files = facts["files"]
    assert files["0"] == "/dev/null"
    (listener,) = facts["descriptors"]
    assert files[str(listener)].startswith("socket:")
    sockets = [number for number, target in files.items() if target.startswith("socket:") and int(number) > 2]
    # The control socket (kept), the channel, the listener; and two pairs by which trio wakes itself.
    assert len(sockets) == 3 + 4
    others = [
        target
        for number, target in files.items()
        if int(number) > 2 and not target.startswith(("socket:", "anon_inode:[eventpoll]", "anon_inode:[eventfd]"))
    ]
    assert others == ["/memfd:heartbeat-w-0 (deleted)"]


def test_descriptors_do_not_leak_into_programs_a_worker_starts(service):
    service.do("ask", 0, "spawn")
    (stray,) = set(service.members()) - {service.launcher, service.root, *service.pids()}
    wait_until(lambda: name(stray) == "sleep")
    # Only the control socket was made inheritable, by this test's own pass_fds.
    assert len(open_descriptors(stray)) == 3 + 1


def test_closed_standard_descriptors_do_no_harm(start):
    service = start(preexec_fn=lambda: os.closerange(0, 2)).up()
    files = service.do("ask", 0, "facts")["files"]
    assert files["0"] == files["1"] == "/dev/null"
    service.kill(service.launcher, signal.SIGTERM)
    assert service.wait_end() == 0


def test_launcher_of_two_threads_refuses():
    program = (
        "import threading, time\n"
        "from supervisors.launcher import launch\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "launch(lambda boot: 0, {})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOM, capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 1
    assert "LauncherError: a process of 2 threads cannot fork safely" in done.stderr


def test_fork_answers_and_tells_how_the_child_ended(service):
    done = service.do("fork", "hold", "payload", 3)
    assert done["status"] == -signal.SIGKILL
    assert done["text"] == "killed by SIGKILL"
    assert done["pidfd"]


def test_ways_to_end(service):
    for role in ("ends", "ends_well"):
        assert "pid" in service.do("fork", role, "")


def test_fork_of_an_unknown_role_is_refused_and_nothing_leaks(service):
    before = len(service.do("files"))
    held = len(open_descriptors(service.launcher))
    for _ in range(20):
        assert service.do("fork", "nonsense", "", 5) == {"error": "no role 'nonsense'"}
    assert len(service.do("files")) == before
    assert len(open_descriptors(service.launcher)) == held


def test_oversized_payload_and_too_many_descriptors_are_refused(service):
    assert "over the limit" in service.do("fork", "hold", "x" * (1024 * 1024))["error"]
    assert "over the limit" in service.do("fork", "hold", "", 65)["error"]
    assert service.do("fork", "hold", "x" * 900_000, 64)["status"] == -signal.SIGKILL


def test_launcher_out_of_descriptors_says_so_and_goes_on(service):
    import resource

    limits = resource.prlimit(service.launcher, resource.RLIMIT_NOFILE)
    held = len(open_descriptors(service.launcher))
    resource.prlimit(service.launcher, resource.RLIMIT_NOFILE, (held + 2, limits[1]))
    assert service.do("fork", "hold", "", 8) == {"error": "Too many open files"}
    resource.prlimit(service.launcher, resource.RLIMIT_NOFILE, limits)
    assert service.do("fork", "hold", "", 8)["status"] == -signal.SIGKILL
    assert len(open_descriptors(service.launcher)) == held


def test_kernel_without_processes_refuses_one_fork_and_nothing_else(start):
    service = start({"forks_fail": ["extra"]}).up()
    assert "Resource temporarily unavailable" in service.do("fork", "hold", "")["error"]
    assert service.do("ask", 0, "facts")["incarnation"] == 1
    assert not service.zombies()


def test_worker_that_cannot_be_forked_ends_the_service_with_the_reason(start):
    service = start({"forks_fail": ["w-1"]})
    assert service.wait_end() == 1
    assert "Resource temporarily unavailable" in service.stderr()
    assert not service.members()


def test_root_that_cannot_be_forked_ends_the_launcher_with_the_reason(start):
    service = start({"forks_fail": ["root"]})
    assert service.wait_end() == 1
    assert "LauncherError: cannot fork root: " in service.stderr()


def test_stop_signal_during_the_preload_starts_nothing(tmp_path):
    (tmp_path / "stops.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    program = (
        "import sys\nfrom supervisors.launcher import launch\nsys.exit(launch(lambda boot: 0, {}, preload=['stops']))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOM, env=environment, capture_output=True, timeout=20, check=False
    )
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, b"")


def test_full_fork_pipe_waits_and_every_request_is_served(service):
    service.kill(service.launcher, signal.SIGSTOP)
    forks = service.send("fork_many", 40, 100_000)
    time.sleep(0.5)
    assert forks not in service.answers
    assert service.do("ask", 0, "facts")["incarnation"] == 1  # root itself is not held up
    service.kill(service.launcher, signal.SIGCONT)
    assert service.answer(forks) == 40
    assert not service.zombies()


def test_cancelled_fork_leaves_no_child(service):
    service.kill(service.launcher, signal.SIGSTOP)
    assert service.do("fork_cancelled", 0.2) is True
    service.kill(service.launcher, signal.SIGCONT)
    assert service.do("fork", "hold", "")["status"] == -signal.SIGKILL
    wait_until(lambda: "unwanted" not in [name(pid) for pid in service.members()])
    assert not service.zombies()


def test_without_pidfds_children_are_signalled_by_the_launcher(start):
    service = start({"no_pidfd": True, "silence": 1.0}).up()
    forked = service.do("fork", "hold", "")
    assert (forked["text"], forked["pidfd"]) == ("killed by SIGKILL", False)
    seen = len(service.events)
    service.kill(service.pids()[0], signal.SIGSTOP)
    service.wait_state("w-0", "READY", after=seen, seconds=5.0)
    service.kill(service.launcher, signal.SIGTERM)
    assert service.wait_end() == 0


def test_root_that_sends_the_launcher_garbage_ends_the_service(service):
    service.send("garbage_to_launcher", "ffffffff")
    assert service.wait_end() == 128 + signal.SIGKILL
    assert "root sent what is no request" in service.stderr()


def test_root_that_closes_its_pipe_and_lives_on_is_killed(service):
    service.send("close_forks")
    assert service.wait_end(5.0) == 128 + signal.SIGKILL
    assert not service.members()
