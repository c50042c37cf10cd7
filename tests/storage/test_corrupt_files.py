"""Files that a disk, an editor or an enemy has been at: no loader crashes or hangs, and each says what its seed says."""

from __future__ import annotations

import functools
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from volcanic.storage import callers
from volcanic.storage.card import WorkspaceCard, read_card
from volcanic.storage.index import TaskIndex, TaskQuery
from volcanic.storage.layout import WorkspaceLayout
from volcanic.storage.live import LiveLog, LiveRun
from volcanic.storage.tasks import TaskFiles, decode_record
from volcanic.storage.transcripts import TranscriptFile

TASK_ID = "0123abcd-0000-4000-8000-00000000abcd"
HANG_SECONDS = 1.0  # far over the 50 ms of the goal: this machine is shared

TASK = (
    b'{"caller":"travel-bot","op":"o","version":3,"run":{"boot":"b","slot":"agents-0","incarnation":1},"task":{"id":"'
    + TASK_ID.encode()
    + b'","contextId":"c","status":{"state":"TASK_STATE_WORKING","timestamp":"2026-12-01T09:30:00.000Z"},"history":'
    b'[{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"},{"data":{"n":1.5}}],"metadata":{"volcanic.hops":1}}]}}'
)
CALLERS = b'[{"name":"travel-bot","key":"k_3f9c2a","mode":"isolated","note":"x"},{"name":"b","key":"other"}]'
CARD = b'{"name":"A","description":"D","skills":[{"id":"s","name":"S","description":"d","tags":["t"]}]}'
LIVE = b'{"type":"start","taskId":"a","workspace":"/w","caller":"c","op":"o","boot":"b","incarnation":1}\n{"type":"end","taskId":"a"}\n'
TRANSCRIPT = (
    b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}\n'
    b'{"type":"message","id":"0000000a","parentId":null,"timestamp":"t","message":{"role":"user","content":[]}}\n'
    b'{"type":"compaction","id":"0000000b","parentId":"0000000a","timestamp":"t","summary":"s","firstKeptEntryId":"0000000a"}\n'
    b'{"type":"message","id":"0000000c","parentId":"0000000b","timestamp":"t","message":{"role":"user","content":[]}}\n'
)


def _flip(data, position, bit):
    flipped = bytearray(data)
    flipped[position % len(flipped)] ^= 1 << bit
    return bytes(flipped)


def _spliced(good):
    """Strategies that damage a good file in the ways disks, editors and enemies do."""
    at = st.integers(0, len(good))
    odd = st.sampled_from(
        [
            b"\0",
            b"\xef\xbb\xbf",
            b"\xff",
            b"\xed\xa0\x80",
            b'"\\ud800"',
            b"9" * 5000,
            b"-1e99999",
            b"1" + b"0" * 400 + b".5",
            b"NaN",
            b"null",
            b"[]",
            b"{}",
            b"true",
            b'"' + b"a" * 10_000 + b'"',
            b"[" * 10_000,
            b'{"a":' * 10_000,
            b'"version":4,',
            b'"name":"x",',
            b'"key":"",',
            b"\n",
            b"\r\n",
            b"\xe2\x80\xa8",
        ]
    )
    whole = st.binary(max_size=200) | odd
    return st.one_of(
        whole,
        st.builds(lambda cut: good[:cut], at),
        st.builds(lambda cut: good[cut:], at),
        st.builds(_flip, st.just(good), at, st.integers(0, 7)),
        st.builds(lambda cut, piece: good[:cut] + piece + good[cut:], at, odd),
        st.builds(lambda cut, length, piece: good[:cut] + piece + good[cut + length :], at, st.integers(1, 40), odd),
        st.builds(lambda first, second: good[:first] + good[min(first, second) :], at, at),
    )


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    made = WorkspaceLayout(str(tmp_path_factory.mktemp("corrupt")))
    made.create()
    return made


def _timed(call):
    started = time.perf_counter()
    with capture_logs():
        result = call()
    assert time.perf_counter() - started < HANG_SECONDS
    return result


FUZZ = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(data=_spliced(TASK))
def test_task_files(layout, data):
    path = Path(layout.task(TASK_ID))
    path.write_bytes(data)
    files = TaskFiles(layout)
    record = _timed(lambda: files.read(TASK_ID))
    head = _timed(lambda: files.read_head(TASK_ID))
    assert (record is None) == (head is None)
    if record is not None:
        assert record.task.id == TASK_ID == head.parsed.id
        assert (record.caller, record.version, record.run) == (head.caller, head.version, head.run)
        again = files.replace_op(record, durable=True)
        assert decode_record(again.data, TASK_ID) == record
    total, rows = _timed(lambda: TaskIndex(files).page(TaskQuery(caller="travel-bot", limit=5)))
    assert total == len(rows) == int(head is not None and head.caller == "travel-bot")
    path.unlink()


@FUZZ
@given(data=_spliced(CALLERS))
def test_callers(layout, data):
    Path(layout.callers).write_bytes(data)
    found = _timed(lambda: callers.load(layout))
    for entry in found.entries:
        assert entry.key
        assert entry.key.encode()
    assert len({entry.name for entry in found.entries}) == len(found.entries)
    assert all(layout.callers in warning for warning in found.warnings)
    assert not any("k_3f9c2a" in warning for warning in found.warnings)
    book = callers.CallerBook([layout], lambda _warning: None)
    for entry in found.entries:
        twins = [other for other in found.entries if other.key == entry.key]
        expected = callers.Principal(layout.root, entry.name) if len(twins) == 1 else None
        match = _timed(functools.partial(book.match, entry.key))
        assert match == expected or (expected is None and isinstance(match, callers.Ambiguous))


@FUZZ
@given(data=_spliced(CARD))
def test_cards(layout, data):
    Path(layout.card).write_bytes(data)
    card = _timed(lambda: read_card(layout))
    assert isinstance(card, WorkspaceCard)
    if card.warnings:
        assert card == WorkspaceCard(warnings=(card.warnings[0],))
        assert layout.card in card.warnings[0]


@FUZZ
@given(data=_spliced(LIVE))
def test_live_logs(layout, data):
    path = Path(layout.root, "live")
    path.write_bytes(data)
    runs = _timed(LiveLog(str(path)).unfinished)
    assert all(isinstance(run, LiveRun) for run in runs)
    assert len({run.task_id for run in runs}) == len(runs)


@FUZZ
@given(data=_spliced(TRANSCRIPT))
def test_transcripts(layout, data):
    folder = Path(layout.session("fuzz"))
    folder.mkdir(exist_ok=True)
    path = folder / "2026-01-01_x.jsonl"
    path.write_bytes(data)
    file = TranscriptFile(str(folder))
    messages = _timed(file.load)
    assert all(message.startswith(b"{") for message in messages)
    (op,) = file.append_ops([b'{"role":"user","content":"added"}'])
    if op.path == str(path):
        path.write_bytes(data + op.data)
        assert _timed(TranscriptFile(str(folder)).load) == [*messages, b'{"role":"user","content":"added"}']
