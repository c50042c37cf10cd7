"""Standard output and error that cannot be written, or are held: the service goes on, and stops in order."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import termios
import time

import pytest

from tests.service.a2a import answer
from tests.service.harness import eventually


def _start(service, **streams):
    service.process = subprocess.Popen(
        [sys.executable, "-m", "volcanic.supervisor", *service.arguments],
        cwd=service.folder,
        env=service.environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        **streams,
    )
    eventually(service.is_ready, 20, "ready")


def _guess(service):
    return service.endpoint.request("POST", "/a2a", b"{}", {"X-API-Key": "wrong", "Content-Type": "application/json"})


@pytest.mark.parametrize("full", ["stdout", "stderr"])
def test_an_output_that_takes_nothing_costs_only_the_output(make_service, full):
    service = make_service(edges=1, workers=1)
    with open("/dev/full", "wb") as sink, open(os.devnull, "wb") as other:  # noqa: PTH123
        _start(service, **{full: sink, "stderr" if full == "stdout" else "stdout": other})
    before = service.census()
    assert _guess(service).status == 401
    assert answer(service.rpc().send("hi")) == "hi"
    assert service.census() == before
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(5) == 0
    service.assert_nothing_left()


def test_a_reader_of_the_log_that_is_gone_costs_only_the_log(make_service):
    service = make_service(edges=1, workers=1)
    read, write = os.pipe()
    _start(service, stdout=subprocess.DEVNULL, stderr=write)
    os.close(write)
    os.close(read)
    assert _guess(service).status == 401
    os.kill(service.pids("agents-0")[0], signal.SIGKILL)
    eventually(service.is_ready, 5, "the slot is back")
    assert answer(service.rpc().send("hi")) == "hi"
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(5) == 0


def test_a_terminal_that_is_held_holds_nobody(make_service):
    service = make_service(edges=1, workers=1)
    master, terminal = pty.openpty()
    try:
        _start(service, stdout=subprocess.DEVNULL, stderr=terminal)
        termios.tcflow(terminal, termios.TCOOFF)
        before = service.census()
        for _ in range(4):
            assert _guess(service).status == 401
            time.sleep(1.1)
        assert answer(service.rpc().send("hi")) == "hi"
        assert service.census() == before
        termios.tcflow(terminal, termios.TCOON)
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(5) == 0
    finally:
        os.close(terminal)
        os.close(master)


def test_a_log_pipe_that_nobody_empties_holds_nobody(make_service):
    service = make_service(edges=1, workers=1)
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    try:
        _start(service, stdout=subprocess.DEVNULL, stderr=write)
        with contextlib.suppress(BlockingIOError):
            os.set_blocking(write, False)
            while os.write(write, b"x" * 512):
                pass
        os.set_blocking(write, True)
        assert _guess(service).status == 401
        assert answer(service.rpc().send("hi")) == "hi"
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(5) == 0
    finally:
        os.close(write)
        os.close(read)


def test_connections_that_are_reset_at_once_leave_no_line(make_service):
    service = make_service(edges=1, workers=1).start()
    before = service.log.read_text()
    for _ in range(100):
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.connect(("127.0.0.1", service.port))
    assert answer(service.rpc().send("hi")) == "hi"
    assert service.log.read_text() == before
