"""The steps that act on the process itself, in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROGRAM = """
import json, sys, trio
from volcanic.agent.bus import SessionBus
from volcanic.agent.models.faux import scripted_model
from volcanic.agent.session import AgentSession, Prompt

class Kept:
    def __init__(self): self.lines = []
    async def load(self): return self.lines
    async def append(self, messages, *, last): self.lines += messages

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

async def emit(event):
    pass

async def main():
    steps = json.loads(sys.argv[1])
    model = scripted_model(json.dumps({"rules": [{"textPrefix": "", "steps": steps}]}).encode())
    session = AgentSession(model, [], "", Kept(), SessionBus())
    before = resident()
    gap = 0.0
    async with trio.open_nursery() as nursery:
        @nursery.start_soon
        async def watch():
            nonlocal gap
            while True:
                start = trio.current_time()
                await trio.sleep(0.01)
                gap = max(gap, trio.current_time() - start)
        await trio.sleep(0.05)
        outcome = await session.run(Prompt("x"), emit)
        await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    print(json.dumps({"text": outcome.text, "grown": resident() - before, "gap": gap}), flush=True)

trio.run(main)
"""


def play(*steps: dict[str, object]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(steps)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_exit_ends_the_process_with_its_code() -> None:
    done = play({"text": "a"}, {"exit": 7})
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")


def test_allocate_takes_memory_and_keeps_it() -> None:
    done = play({"allocate": 40}, {"text": "big"})
    report = json.loads(done.stdout)
    assert report["text"] == "big"
    assert report["grown"] > 38 * 1024 * 1024


def test_spin_blocks_the_loop() -> None:
    start = time.monotonic()
    report = json.loads(play({"spin": 0.7}, {"text": "dizzy"}).stdout)
    assert report["gap"] >= 0.7
    assert time.monotonic() - start >= 0.7
