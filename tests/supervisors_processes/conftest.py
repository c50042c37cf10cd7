from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

DEADLINE = 15.0
"""How long a test waits for anything, in seconds."""

ROOM = Path(__file__).parents[2]
MARK = "SUPERVISORS_TEST_SERVICE"


def state(pid: int) -> str:
    """The kernel's letter for a process's state; "" when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def name(pid: int) -> str:
    """What `ps` calls it."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def gone(pid: int) -> bool:
    return state(pid) in {"", "Z", "X"}


def wait_until(condition, seconds: float = DEADLINE) -> float:
    """Wait for a condition; return how long it took."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < seconds, "waited in vain"
        time.sleep(0.002)
    return time.monotonic() - start


def open_descriptors(pid: int) -> list[int]:
    return sorted(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir())


class Service:
    """A running `tests.supervisors_processes.service`, seen from its user's side."""

    def __init__(self, options: dict, **popen) -> None:
        self.mark = uuid.uuid4().hex
        ours, theirs = socket.socketpair()
        self.socket = ours
        self.events: list[dict] = []
        self.answers: dict[int, object] = {}
        self.buffer = b""
        self.number = 0
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.supervisors_processes.service", str(theirs.fileno()), json.dumps(options)],
            cwd=ROOM,
            env={**os.environ, MARK: self.mark},
            pass_fds=[theirs.fileno()],
            stderr=subprocess.PIPE,
            **popen,
        )
        theirs.close()
        self.root = 0

    def up(self, workers: int = 2) -> Service:
        self.root = self.wait_event(lambda event: event["event"] == "root")["pid"]
        for number in range(workers):
            self.wait_state(f"w-{number}", "READY")
        return self

    @property
    def launcher(self) -> int:
        return self.process.pid

    def _pump(self, seconds: float) -> bool:
        if not select.select([self.socket], [], [], seconds)[0]:
            return True
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self.buffer += data
        *lines, self.buffer = self.buffer.split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "answer" in message:
                self.answers[message["answer"]] = message["result"]
            else:
                self.events.append(message)
        return bool(data)

    def wait_event(self, matches, seconds: float = DEADLINE, *, after: int = 0) -> dict:
        deadline = time.monotonic() + seconds
        while True:
            for event in self.events[after:]:
                if matches(event):
                    return event
            assert time.monotonic() < deadline, f"no such event in {self.events}"
            assert self._pump(0.05), f"the service ended: {self.stderr()}"

    def wait_state(self, name: str, wanted: str, *, after: int = 0, seconds: float = DEADLINE) -> dict:
        return self.wait_event(lambda e: e["event"] == name and e["state"] == wanted, seconds, after=after)

    def send(self, command: str, *args) -> int:
        self.number += 1
        self.socket.sendall(json.dumps([self.number, command, *args]).encode() + b"\n")
        return self.number

    def answer(self, number: int, seconds: float = DEADLINE):
        deadline = time.monotonic() + seconds
        while number not in self.answers:
            assert time.monotonic() < deadline, "no answer"
            assert self._pump(0.05), f"the service ended: {self.stderr()}"
        return self.answers.pop(number)

    def do(self, command: str, *args, seconds: float = DEADLINE):
        return self.answer(self.send(command, *args), seconds)

    def pids(self) -> list[int]:
        return self.do("pids")

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        os.kill(pid, number)

    def wait_end(self, seconds: float = DEADLINE) -> int:
        """Wait for the launcher; return its status. Goes on reading, so that nobody is held up by the test."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "the service does not end"
            if not self._pump(0.01):
                time.sleep(0.005)
        return self.process.returncode

    def stderr(self) -> str:
        """All of standard error; call it when everything has ended."""
        self.wait_end()
        wait_until(lambda: not self.members())
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def members(self) -> list[int]:
        """Every live process of this service, whoever its parent is by now."""
        mark = f"{MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def zombies(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, IndexError):
                if entry.name.isdigit() and state(int(entry.name)) == "Z" and parent(int(entry.name)) == self.launcher:
                    found.append(int(entry.name))
        return found

    def close(self) -> None:
        """End it the way a user does; what does not end in a second is killed."""
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(DEADLINE)
        assert self.process.stderr is not None
        self.process.stderr.close()
        self.socket.close()
        wait_until(lambda: not self.members())


@pytest.fixture
def start():
    """Start services with options; whatever became of them, none is left after the test."""
    services = []

    def begin(options: dict | None = None, **popen) -> Service:
        services.append(Service(options or {}, **popen))
        return services[-1]

    yield begin
    for service in services:
        service.close()


@pytest.fixture
def service(start) -> Service:
    return start().up()
