from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.agent.kit import answer_tool
from volcanic.agent.context_files import CONTEXT_FILE_BYTES, ContextFile, file_states, load_context
from volcanic.agent.system_prompt import PromptSource, system_prompt


def test_an_empty_workspace_has_none(tmp_path: Path) -> None:
    context = load_context(str(tmp_path))
    assert (context.instructions, context.persona, context.memory, context.warnings) == (None, None, None, ())


def test_one_file_of_instructions_is_read(tmp_path: Path) -> None:
    for name in ("CLAUDE.md", "AGENTS.md", "AGENTS.override.md"):
        (tmp_path / name).write_text(f"from {name}")
        assert load_context(str(tmp_path)).instructions == ContextFile(name, f"from {name}")


def test_nothing_above_the_workspace_is_read(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("above")
    (tmp_path / "ws").mkdir()
    assert load_context(str(tmp_path / "ws")).instructions is None


def test_persona_and_memory_are_read_with_odd_bytes_made_visible(tmp_path: Path) -> None:
    (tmp_path / "PERSONA.md").write_bytes(b"\xef\xbb\xbfEve\xff")
    (tmp_path / "MEMORY.md").write_text("likes tea")
    context = load_context(str(tmp_path))
    assert context.persona == ContextFile("PERSONA.md", "Eve\ufffd")
    assert context.memory == ContextFile("MEMORY.md", "likes tea")


@pytest.mark.parametrize("kind", ["fifo", "folder", "loop", "device"])
def test_an_odd_file_is_refused_at_once_and_the_next_name_is_taken(tmp_path: Path, kind: str) -> None:
    odd = tmp_path / "AGENTS.md"
    if kind == "fifo":
        os.mkfifo(odd)
    elif kind == "folder":
        odd.mkdir()
    elif kind == "loop":
        odd.symlink_to(odd)
    else:
        odd.symlink_to("/dev/zero")
    (tmp_path / "CLAUDE.md").write_text("fallback")
    context = load_context(str(tmp_path))
    assert context.instructions == ContextFile("CLAUDE.md", "fallback")
    (warning,) = context.warnings
    assert warning.startswith("AGENTS.md ")


def test_a_long_file_is_cut_and_the_prompt_says_so(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("a" * (CONTEXT_FILE_BYTES + 1))
    memory = load_context(str(tmp_path)).memory
    assert memory is not None
    assert memory.text.startswith("a" * CONTEXT_FILE_BYTES + "\n[MEMORY.md is longer")


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "MEMORY.md").open("wb") as file:
        file.truncate(10**9)
    context = load_context(str(tmp_path))
    assert context.memory is None
    assert "too large" in context.warnings[0]


def test_a_symlink_to_a_file_works(tmp_path: Path) -> None:
    (tmp_path / "real.md").write_text("linked")
    (tmp_path / "AGENTS.md").symlink_to("real.md")
    assert load_context(str(tmp_path)).instructions == ContextFile("AGENTS.md", "linked")


def test_the_prompt_has_its_sections_in_order(tmp_path: Path) -> None:
    (tmp_path / "PERSONA.md").write_text("You are Eve.\n")
    (tmp_path / "AGENTS.md").write_text("Be brief.")
    (tmp_path / "MEMORY.md").write_text("Likes tea.")
    prompt = system_prompt(load_context(str(tmp_path)), [answer_tool("look", "")], "/ws", ["Be kind."])
    order = ["You are Eve.", "- look: For tests.", "- Be kind.", "(AGENTS.md)\nBe brief.", "Likes tea.", "folder: /ws"]
    places = [prompt.index(text) for text in order]
    assert places == sorted(places)


def test_an_empty_context_gives_a_prompt_without_empty_sections(tmp_path: Path) -> None:
    assert "#" not in system_prompt(load_context(str(tmp_path)), [], "/ws")


class LaterClock:
    """Seconds pass at once: what was just written counts as settled."""

    def wall(self) -> float:
        return time.time() + 3600

    def monotonic(self) -> float:
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("clock", [None, LaterClock()])
def test_every_edit_shows_in_the_next_prompt(tmp_path: Path, clock: LaterClock | None) -> None:
    source = PromptSource(str(tmp_path), [], clock=clock) if clock else PromptSource(str(tmp_path), [])
    for number in range(50):
        (tmp_path / "MEMORY.md").write_text(f"fact {number:02}")
        assert f"fact {number:02}" in source.current()
    (tmp_path / "AGENTS.md").write_text("new file")
    assert "new file" in source.current()
    (tmp_path / "MEMORY.md").unlink()
    assert "fact" not in source.current()


def test_settled_files_are_read_once_and_sessions_share_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "MEMORY.md").write_text("old")
    source = PromptSource(str(tmp_path), [], clock=LaterClock())
    first = source.current()
    reads = 0

    def counted(workspace: str) -> object:
        nonlocal reads
        reads += 1
        return load_context(workspace)

    monkeypatch.setattr("volcanic.agent.system_prompt.load_context", counted)
    assert source.current() is first
    assert reads == 0
    (tmp_path / "MEMORY.md").write_text("newer")
    assert "newer" in source.current()
    assert reads == 1


def test_a_file_just_written_is_not_trusted_by_its_stamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = tmp_path / "MEMORY.md"
    memory.write_text("one")
    source = PromptSource(str(tmp_path), [])
    assert "one" in source.current()
    states = file_states(str(tmp_path))
    memory.write_text("two")
    monkeypatch.setattr("volcanic.agent.system_prompt.file_states", lambda _workspace: states)
    assert "two" in source.current()


def test_an_odd_file_is_logged_once_for_each_state(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "MEMORY.md")
    source = PromptSource(str(tmp_path), [])
    with capture_logs() as logs:
        source.current()
        source.current()
    assert [line["problem"] for line in logs] == ["MEMORY.md is not a regular file"]
