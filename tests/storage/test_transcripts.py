"""Transcripts: the format, what a crash or an editor may do to one, and what the model gets to see."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.storage.file_systems import Failing, names
from volcanic.storage.disk import open_disk
from volcanic.storage.transcripts import TranscriptFile


class Moment:
    def __init__(self):
        self.now = 1_796_117_400.5

    def wall(self):
        self.now += 1
        return self.now

    def monotonic(self):
        raise AssertionError

    async def sleep(self, _seconds):
        raise AssertionError


def _user(text):
    return json.dumps({"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}).encode()


def _only(folder):
    (path,) = Path(folder).iterdir()
    return path


def _lines(folder):
    return [json.loads(line) for line in _only(folder).read_bytes().splitlines()]


def _put(folder, *entries, name="2026-01-01_x.jsonl", end="\n"):
    header = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/ws"}
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    lines = [entry if isinstance(entry, str) else json.dumps(entry) for entry in (header, *entries)]
    Path(folder, name).write_text("\n".join(lines) + end)


def _message(entry_id, parent, text):
    return {
        "type": "message",
        "id": entry_id,
        "parentId": parent,
        "timestamp": "2026-01-01T00:00:01.000Z",
        "message": json.loads(_user(text)),
    }


def _texts(messages):
    return [json.loads(message)["content"][0]["text"] for message in messages]


async def _append(folder, *texts):
    file = TranscriptFile(folder, "/ws", Moment())
    loaded = file.load()
    async with open_disk() as disk:
        for text in texts:
            await disk.submit(*file.append_ops([_user(text)]))
    return _texts(loaded)


async def test_the_file_comes_with_the_first_message_and_has_the_format_of_version_3(tmp_path):
    folder = f"{tmp_path}/sessions/folder-a2a-x_c"
    file = TranscriptFile(folder, "/ws", Moment())
    assert file.load() == []
    assert file.append_ops([]) == ()
    async with open_disk() as disk:
        await disk.submit(*file.append_ops([_user("one"), _user("two")]))
        await disk.submit(*file.note_ops("model_change", {"provider": "faux", "modelId": "faux-1"}))
        await disk.submit(*file.note_ops("custom", {}))
        await disk.submit(*file.append_ops([_user("three")]))
    assert len(names(folder)) == 1
    assert re.fullmatch(r"2026-12-01T[0-9-]+Z_[0-9a-f-]{36}\.jsonl", names(folder)[0])
    header, *entries = _lines(folder)
    assert header["type"] == "session"
    assert header["version"] == 3
    assert header["cwd"] == "/ws"
    assert sorted(header) == ["cwd", "id", "timestamp", "type", "version"]
    assert [entry["type"] for entry in entries] == ["message", "message", "model_change", "custom", "message"]
    assert [entry["parentId"] for entry in entries] == [None, *(entry["id"] for entry in entries[:-1])]
    assert all(re.fullmatch("[0-9a-f]{8}", entry["id"]) for entry in entries)
    assert all(re.fullmatch(r"2026-12-01T\d\d:\d\d:\d\d\.\d{3}Z", entry["timestamp"]) for entry in entries)
    assert entries[0]["message"] == json.loads(_user("one"))
    assert entries[2]["modelId"] == "faux-1"
    assert _texts(TranscriptFile(folder).load()) == ["one", "two", "three"]
    assert (tmp_path / "sessions/folder-a2a-x_c").stat().st_mode & 0o777 == 0o700


async def test_a_session_resumes_where_it_was(tmp_path):
    folder = f"{tmp_path}/s"
    assert await _append(folder, "one", "two") == []
    assert await _append(folder, "three") == ["one", "two"]
    assert await _append(folder) == ["one", "two", "three"]
    assert len(names(folder)) == 1


async def test_the_newest_file_of_a_folder_is_the_session(tmp_path):
    _put(f"{tmp_path}/s", _message("a", None, "old"), name="2026-01-01_x.jsonl")
    _put(f"{tmp_path}/s", _message("a", None, "new"), name="2026-02-01_x.jsonl")
    assert await _append(f"{tmp_path}/s") == ["new"]


async def test_a_torn_last_line_is_lost_alone_and_reported_once(tmp_path):
    folder = f"{tmp_path}/s"
    await _append(folder, "one", "two", "three")
    path = _only(folder)
    os.truncate(path, path.stat().st_size - 20)
    with capture_logs() as logs:
        assert await _append(folder, "four") == ["one", "two"]
    assert [entry["event"] for entry in logs] == ["transcript_torn"]
    with capture_logs() as logs:
        assert await _append(folder, "five") == ["one", "two", "four"]
    assert logs == []
    assert await _append(folder) == ["one", "two", "four", "five"]


async def test_a_last_line_without_its_newline_is_kept_and_ended(tmp_path):
    folder = f"{tmp_path}/s"
    await _append(folder, "one", "two")
    path = _only(folder)
    os.truncate(path, path.stat().st_size - 1)
    with capture_logs() as logs:
        assert await _append(folder, "three") == ["one", "two"]
        assert await _append(folder) == ["one", "two", "three"]
    assert logs == []


@given(data=st.data())
async def test_any_cut_loses_at_most_the_torn_line(tmp_path_factory, data):
    folder = str(tmp_path_factory.mktemp("s"))
    texts = ["one", "two", "three"]
    await _append(folder, *texts)
    path = _only(folder)
    content = path.read_bytes()
    header = content.index(b"\n")
    cut = data.draw(st.integers(header, len(content)))
    os.truncate(path, cut)
    whole = max(content[:cut].count(b"\n") - 1, 0) + (
        cut < len(content) and content[cut : cut + 1] == b"\n" and cut > header
    )
    assert await _append(folder, "four") == texts[:whole]
    assert await _append(folder) == [*texts[:whole], "four"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b'{"type":"message","id":"a"}\n',
        b'{"type":"session","version":2,"id":"s","timestamp":"t","cwd":"/"}\n',
        b'{"type":"session","version":4,"id":"s","timestamp":"t","cwd":"/"}\n',
        b'{"type":"session","version":3,"id":"s"',
        b"\xff\xfe\x00",
        b"[" * 100_000,
    ],
)
async def test_a_file_without_a_header_is_left_alone_and_a_new_one_begun(tmp_path, content):
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "2026-01-01_odd.jsonl").write_bytes(content)
    with capture_logs() as logs:
        assert await _append(str(folder), "one") == []
    assert [entry["event"] for entry in logs] == ["transcript_refused"]
    assert (folder / "2026-01-01_odd.jsonl").read_bytes() == content
    assert await _append(str(folder)) == ["one"]


async def test_something_else_in_the_place_of_a_transcript_is_refused_at_once(tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    os.mkfifo(folder / "2026-01-01_fifo.jsonl")
    with capture_logs() as logs:
        assert await _append(str(folder), "one") == []
    assert [entry["event"] for entry in logs] == ["transcript_refused"]
    assert await _append(str(folder)) == ["one"]


async def test_malformed_lines_in_between_are_skipped_and_cost_no_more_than_themselves(tmp_path):
    _put(
        f"{tmp_path}/s",
        _message("a", None, "one"),
        "not json",
        '{"type":"message"}',
        _message("c", "lost", "two"),
        "",
        "5",
        _message("d", "c", "three"),
    )
    assert await _append(f"{tmp_path}/s") == ["one", "two", "three"]


async def test_the_way_from_the_root_to_the_leaf_is_the_conversation(tmp_path):
    _put(
        f"{tmp_path}/s",
        _message("a", None, "one"),
        _message("b", "a", "left behind"),
        _message("c", "a", "two"),
        {"type": "label", "id": "d", "parentId": "c", "timestamp": "", "label": "x", "targetId": "c"},
    )
    assert await _append(f"{tmp_path}/s", "three") == ["one", "two"]
    assert await _append(f"{tmp_path}/s") == ["one", "two", "three"]


async def test_entries_that_point_at_themselves_or_ahead_do_not_loop(tmp_path):
    _put(f"{tmp_path}/s", _message("a", "b", "one"), _message("b", "b", "two"), _message("a", "b", "same id"))
    assert await _append(f"{tmp_path}/s") == ["one", "two"]


def test_a_compaction_stands_for_what_it_summed_up(tmp_path):
    _put(
        f"{tmp_path}/s",
        _message("a", None, "one"),
        _message("b", "a", "two"),
        {
            "type": "compaction",
            "id": "c",
            "parentId": "b",
            "timestamp": "2026-01-01T00:00:02.000Z",
            "summary": "early",
            "firstKeptEntryId": "b",
            "tokensBefore": 9,
        },
        _message("d", "c", "three"),
    )
    summary, *rest = TranscriptFile(f"{tmp_path}/s").load()
    assert json.loads(summary)["role"] == "user"
    assert json.loads(summary)["timestamp"] == 1767225602000
    assert _texts([summary])[0].endswith("early")
    assert _texts(rest) == ["two", "three"]


def test_what_an_extension_says_to_the_model_is_a_users_message(tmp_path):
    custom = {"type": "custom_message", "parentId": None, "timestamp": "odd", "customType": "x"}
    _put(
        f"{tmp_path}/s",
        {**custom, "id": "a", "content": 'plain "text"'},
        {**custom, "id": "b", "parentId": "a", "content": [{"type": "text", "text": "block"}]},
        {"type": "branch_summary", "id": "c", "parentId": "b", "timestamp": "", "summary": "tried it"},
        {"type": "custom", "id": "d", "parentId": "c", "timestamp": "", "data": 1},
        {"type": "message", "id": "e", "parentId": "d", "timestamp": "", "message": 5},
    )
    first, second, third = _texts(TranscriptFile(f"{tmp_path}/s").load())
    assert (first, second) == ('plain "text"', "block")
    assert third.endswith("tried it")


async def test_after_a_write_that_failed_the_conversation_goes_on_from_what_is_there(tmp_path):
    folder = f"{tmp_path}/s"
    file = TranscriptFile(folder, "/ws", Moment())
    fs = Failing("write", 1, 28)
    async with open_disk(fs) as disk:
        with pytest.raises(OSError, match="No space"):
            await disk.submit(*file.append_ops([_user("lost, and the header with it")]))
        await disk.submit(*file.append_ops([_user("one")]))
        fs.nth = 1
        with pytest.raises(OSError, match="No space"):
            await disk.submit(*file.append_ops([_user("lost")]))
        await disk.submit(*file.append_ops([_user("two")]))
    assert fs.fired == 2
    assert _texts(TranscriptFile(folder).load()) == ["one", "two"]


async def test_operations_made_before_the_file_was_there_make_one_conversation(tmp_path):
    folder = f"{tmp_path}/s"
    file = TranscriptFile(folder, "/ws", Moment())
    ops = [*file.append_ops([_user("one")]), *file.append_ops([_user("two")])]
    async with open_disk() as disk:
        await disk.submit(*ops)
    assert len(names(folder)) == 1
    assert _texts(TranscriptFile(folder).load()) == ["one", "two"]


async def test_a_transcript_that_cannot_be_read_now_is_an_error_and_not_a_new_session(tmp_path, monkeypatch):
    folder = f"{tmp_path}/s"
    await _append(folder, "one")
    from volcanic.storage import transcripts
    from volcanic.storage.safe_read import Reason, Unreadable

    monkeypatch.setattr(transcripts, "read_file", lambda *_: Unreadable(Reason.FAILED, "Input/output error"))
    with pytest.raises(OSError, match="Input/output error"):
        TranscriptFile(folder).load()
