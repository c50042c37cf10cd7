"""The order of the system calls themselves, as the kernel saw them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from tests.architecture.project import ROOT

PROGRAM = """
import sys, trio
from volcanic.storage.disk import Replace, open_disk

async def main():
    async with open_disk() as disk:
        await disk.submit(Replace(sys.argv[1] + "/task.json", b"the task", durable=True))
        sys.stdout.write("the reply")
        sys.stdout.flush()

trio.run(main)
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_reply_comes_after_the_file_and_its_name_are_on_disk(tmp_path):
    trace, folder = tmp_path / "trace", tmp_path / "tasks"
    folder.mkdir()
    strace = ["strace", "-f", "-y", "-qq", "-s", "40", "-o", str(trace), "-e", "trace=write,fsync,rename"]
    run = subprocess.run(
        [*strace, sys.executable, "-c", PROGRAM, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if "PTRACE" in run.stderr or "ptrace" in run.stderr:
        pytest.skip(f"strace may not trace here: {run.stderr.strip()}")
    assert run.stdout == "the reply", run.stderr
    temp = rf"{re.escape(str(folder))}/\.tmp-[0-9a-f-]+"
    order = [
        ("the content", rf'write\(\d+<{temp}>, "the task"'),
        ("its sync", rf"fsync\(\d+<{temp}>"),
        ("its name", rf'rename\("{temp}", "{re.escape(str(folder))}/task\.json"'),
        ("the folder's sync", rf"fsync\(\d+<{re.escape(str(folder))}>"),
        ("the reply", r'write\(1<.*>, "the reply"'),
    ]
    lines = [line for line in trace.read_text().splitlines() if not line.endswith("resumed>")]
    seen = [name for line in lines for name, pattern in order if re.search(pattern, line)]
    assert seen == [name for name, _ in order]
    for name, pattern in order[:4]:
        assert not any(re.search(pattern, line) and "= -1" in line for line in lines), name
