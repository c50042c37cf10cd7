"""The README's commands, run as they stand there in a copy of the tree that has no environment yet."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from typing import Any

import pytest

from tests.architecture.project import ROOT, tracked_files
from tests.service.a2a import answer, state_of
from tests.service.harness import READY, eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(280),
    pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl (Debian package curl)"),
]


def _blocks():
    """Return the commands of the shell blocks of the README: a list a block, continued lines joined, comments dropped."""
    found = []
    for block in re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE):
        lines = block.replace("\\\n", " ").splitlines()
        found.append([line for line in lines if line.strip() and not line.startswith("#")])
    return found


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clone")
    for path in tracked_files():
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    yield folder
    shutil.rmtree(folder)


def test_the_service_starts_as_the_readme_says_and_every_call_is_answered(make_service, clone):
    (start,) = [command for block in _blocks() for command in block if "--demo" in command]
    (calls,) = [block for block in _blocks() if any(command.startswith("curl") for command in block)]
    assert not (clone / ".venv").exists()
    service = make_service(callers=())
    environment = {name: value for name, value in service.environment.items() if name not in {"PYTHONPATH", "HOME"}}
    environment |= {"VOLCANIC_PORT": str(service.port)} | ({"HOME": os.environ["HOME"]} if "HOME" in os.environ else {})
    with service.out.open("wb") as out, service.log.open("wb") as log:
        service.process = subprocess.Popen(
            ["bash", "-c", start],
            cwd=clone,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=log,
            start_new_session=True,
        )
    eventually(lambda: READY.search(service.out.read_text()), 150, "the ready line")

    def run(command):
        command = command.replace("5099", str(service.port))
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=clone,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout

    printed = next(line for line in service.out.read_text().splitlines() if line.startswith("curl "))
    pasted = json.loads(run(printed))["result"]["task"]
    assert (state_of(pasted), answer(pasted)) == ("COMPLETED", "hi")
    key = next(command for command in calls if command.startswith("KEY="))
    outputs: dict[str, Any] = {}
    for command in calls:
        if command != key:
            task = outputs.get("SendMessage", {}).get("id", "")
            text = run(f"{key}\n{command.replace('<taskId>', task)}")
            name = re.search(r"SendMessage|GetTask|message:stream|agent-card|tree", command)
            assert name, command
            outputs[name[0]] = json.loads(text)["result"]["task"] if name[0] == "SendMessage" else text
    assert (state_of(outputs["SendMessage"]), answer(outputs["SendMessage"])) == ("COMPLETED", "hi")
    assert json.loads(outputs["GetTask"])["result"] == outputs["SendMessage"]
    assert json.loads(outputs["agent-card"])["name"] == "Volcanic assistant"
    assert "TASK_STATE_COMPLETED" in outputs["message:stream"].splitlines()[-2]
    assert "agents-0" in outputs["tree"]
    os.killpg(service.process.pid, signal.SIGINT)
    service.process.wait(20)
    service.assert_nothing_left()
