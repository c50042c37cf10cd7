"""Sessions on real transcript files: resumed whole, cut off at any byte, and after an abort."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

from tests.agent.kit import KeepingModel, answer_tool, assert_fit, faux, shape
from volcanic.agent.bus import SessionBus
from volcanic.agent.events import Outcome
from volcanic.agent.messages import UserMessage
from volcanic.agent.session import AgentSession, Prompt
from volcanic.storage.disk import Disk, open_disk
from volcanic.storage.transcripts import TranscriptFile

STEPS = [
    {"text": "one"},
    {"tools": [{"tool": "slow"}, {"tool": "quick"}]},
    {"text": "two {result}"},
    {"delay": 0.02},
    {"text": "three"},
]
TOOLS = [answer_tool("slow", "S", 0.01), answer_tool("quick", "Q")]


@attrs.frozen
class OnDisk:
    """The port on a transcript file, each append a trip of its own."""

    file: TranscriptFile
    disk: Disk

    async def load(self) -> Sequence[bytes]:
        return self.file.load()

    async def append(self, messages: Sequence[bytes], *, last: bool) -> None:
        assert not (last and not messages)
        await self.disk.submit(*self.file.append_ops(messages))


async def say(folder: Path, disk: Disk, model: KeepingModel, text: str) -> Outcome:
    """Open the folder's session anew and say something."""
    session = AgentSession(model, TOOLS, "", OnDisk(TranscriptFile(str(folder)), disk), SessionBus())

    async def emit(event: object) -> None:
        await trio.lowlevel.checkpoint()

    return await session.run(Prompt(text), emit)


def only_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def scripted() -> KeepingModel:
    return KeepingModel(faux({"rules": [{"textPrefix": "go", "steps": STEPS}]}))


async def test_a_session_resumes_from_its_file_with_results_in_call_order(tmp_path: Path) -> None:
    model = scripted()
    async with open_disk() as disk:
        assert (await say(tmp_path, disk, model, "go")).text == "two S\nQthree"
        assert (await say(tmp_path, disk, model, "and?")).text == "and?"
    assert shape(model.asked[-1]) == [
        "user go",
        "assistant one|slow quick|toolUse",
        "slow S",
        "quick Q",
        "assistant two S\nQthree||stop",
        "user and?",
    ]
    file = only_file(tmp_path)
    lines = file.read_bytes().splitlines()
    assert b'"type":"session"' in lines[0]
    assert [b'"quick"' in line for line in lines[3:5]] == [True, False]


async def test_a_file_cut_at_any_byte_resumes(tmp_path: Path) -> None:
    async with open_disk() as disk:
        await say(tmp_path / "whole", disk, scripted(), "go")
        file = only_file(tmp_path / "whole")
        data = file.read_bytes()
        for cut in range(0, len(data), 7):
            folder = tmp_path / f"cut-{cut}"
            folder.mkdir()
            (folder / file.name).write_bytes(data[:cut])
            model = scripted()
            for text in ("on", "and on"):
                assert (await say(folder, disk, model, text)).text == text
                assert_fit(model.asked[-1])
            users = [m.sender_text() for m in model.asked[-1] if isinstance(m, UserMessage)]
            assert users[-2:] == ["on", "and on"]


async def test_an_abort_after_any_time_resumes(tmp_path: Path) -> None:
    aborted = 0
    async with open_disk() as disk:
        for at in range(40):
            folder, model = tmp_path / str(at), scripted()
            with trio.move_on_after(at / 1000) as scope:
                await say(folder, disk, model, "go")
            aborted += scope.cancelled_caught
            assert (await say(folder, disk, model, "on")).text == "on"
            assert_fit(model.asked[-1])
    assert aborted > 10
