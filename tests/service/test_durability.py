"""Store, then tell, as the kernel sees it: fsync, rename and the folder's fsync come before the answer (C2)."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from tests.service.a2a import answer
from tests.service.harness import eventually

CALLS = "openat,close,fsync,fdatasync,rename,renameat,renameat2,sendto,sendmsg,write,writev"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace (Debian package strace)")
@pytest.mark.parametrize("text", ["hi", "ask", "give-up"])
def test_an_end_is_on_disk_before_it_is_told(make_service, text):
    service = make_service(edges=1, workers=1).start()
    rest = service.rest()
    rest.send("warm up")
    trace = service.folder / "trace"
    command = [
        "strace",
        "-f",
        "-y",
        "-s",
        "4000",
        "-e",
        f"trace={CALLS}",
        "-o",
        str(trace),
        "-p",
        str(service.pids("agents-0")[0]),
    ]
    with _running(command) as tracer:
        eventually(lambda: trace.exists() and tracer.stderr_file.read_text(), 10, "strace is attached")
        task = rest.send(text)
        time.sleep(0.2)
    told, stored = _positions(trace.read_text(errors="replace").splitlines(), task)
    assert stored["fsync"] < stored["rename"] < stored["folder"] < told, (stored, told)
    assert text != "hi" or answer(task) == "hi"


class _running:  # noqa: N801 - a context manager read as a phrase
    def __init__(self, command):
        self._command = command

    def __enter__(self):
        from pathlib import Path

        self.stderr_file = Path(self._command[self._command.index("-o") + 1] + ".err")
        with self.stderr_file.open("wb") as errors:
            self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=errors)
        return self

    def __exit__(self, *_exc):
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        self._process.wait(10)


def _positions(lines, task):
    """Return where the last state was told, and where its file and folder were made durable before."""
    state = task["status"]["state"]
    told = next(
        number
        for number, line in enumerate(lines)
        if re.search(r"\b(sendto|sendmsg|write|writev)\(\d+<socket", line) and state in line
    )
    target = f"{task['id']}.json"
    rename = max(n for n, line in enumerate(lines[:told]) if "rename" in line and target in line)
    fsync = max(
        n for n, line in enumerate(lines[:rename]) if re.search(r"\bf(data)?sync\(\d+<[^>]*/tasks/[^>]+>", line)
    )
    folder = next(n for n, line in enumerate(lines) if n > rename and re.search(r"\bfsync\(\d+<[^>]*/tasks>\)", line))
    return told, {"fsync": fsync, "rename": rename, "folder": folder}
