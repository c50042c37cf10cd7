"""callers.json: which entries count, how fresh it is, and that no key shows."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import attrs
import pytest
from structlog.testing import capture_logs

from volcanic.redact import KEYS, MASK
from volcanic.storage import callers as module
from volcanic.storage import safe_read
from volcanic.storage.callers import Ambiguous, CallerBook, CallerEntry, NoMatch, Principal, load, parse
from volcanic.storage.layout import WorkspaceLayout


def _write(layout, value):
    Path(layout.callers).write_text(value if isinstance(value, str) else json.dumps(value))


def _names(layout):
    return [entry.name for entry in load(layout).entries]


def test_the_seeds_example(layout):
    _write(layout, [{"name": "travel-bot", "key": "k_3f9c2a...", "mode": "isolated", "note": "Alice's trip planner"}])
    found = load(layout)
    assert found.entries == (CallerEntry("travel-bot", "k_3f9c2a...", "Alice's trip planner"),)
    assert found.warnings == ()


def test_a_missing_file_has_no_callers_and_no_warning(layout):
    assert load(layout) == module.Callers()


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "Big", "key": "secret-aaaa"},
        {"name": "under_score", "key": "secret-aaaa"},
        {"name": "", "key": "secret-aaaa"},
        {"name": "a" * 41, "key": "secret-aaaa"},
        {"name": "newline\n", "key": "secret-aaaa"},
        {"name": 3, "key": "secret-aaaa"},
        {"key": "secret-aaaa"},
        {"name": "x"},
        {"name": "x", "key": ""},
        {"name": "x", "key": 5},
        {"name": "x", "key": None},
        {"name": "x", "key": "secret-aaaa", "mode": "shared"},
        {"name": "x", "key": "secret-aaaa", "mode": 1},
        {"name": "good", "key": "secret-aaaa"},
        "text",
        [],
        None,
    ],
)
def test_an_entry_that_cannot_be_used_is_skipped_with_a_warning_and_the_rest_is_read(layout, entry):
    _write(layout, [{"name": "good", "key": "k1"}, entry, {"name": "after", "key": "k2", "mode": None, "other": {}}])
    found = load(layout)
    assert [entry.name for entry in found.entries] == ["good", "after"]
    assert len(found.warnings) == 1
    assert layout.callers in found.warnings[0]
    assert "secret-aaaa" not in found.warnings[0]
    assert found.entries[0].key == "k1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"name": "a", "key": "secret-aaaa"}',
        "null",
        '[{"name": "a", "key": "secret-aaaa"}',
        "[" * 100_000,
        "7" * 10_000,
    ],
)
def test_a_malformed_file_has_no_callers_and_one_warning_that_names_it(layout, text):
    _write(layout, text)
    found = load(layout)
    assert found.entries == ()
    assert len(found.warnings) == 1
    assert layout.callers in found.warnings[0]
    assert "secret-aaaa" not in found.warnings[0]


def test_a_byte_order_mark_is_no_fault():
    assert [entry.name for entry in parse(b'\xef\xbb\xbf[{"name":"a","key":"k"}]', "f").entries] == ["a"]


def test_bytes_that_are_not_utf_8_are_malformed():
    assert parse(b'[{"name":"a","key":"\xff"}]', "f").entries == ()


def test_a_key_that_is_no_text_makes_the_file_malformed():
    found = parse(b'[{"name":"a","key":"\\ud800"}]', "f")
    assert found.entries == ()
    assert len(found.warnings) == 1


@pytest.mark.parametrize("kind", ["folder", "fifo", "loop"])
def test_what_is_no_file_is_refused_at_once(layout, kind):
    if kind == "folder":
        Path(layout.callers).mkdir()
    elif kind == "fifo":
        os.mkfifo(layout.callers)
    else:
        Path(layout.callers).symlink_to(layout.callers)
    started = time.monotonic()
    found = load(layout)
    assert time.monotonic() - started < 1
    assert found.entries == ()
    assert len(found.warnings) == 1


def test_a_link_to_a_file_elsewhere_is_followed(layout, tmp_path):
    (tmp_path / "shared.json").write_text('[{"name":"a","key":"k"}]')
    Path(layout.callers).symlink_to(tmp_path / "shared.json")
    assert _names(layout) == ["a"]


def test_a_key_finds_its_caller(layout):
    _write(layout, [{"name": "a", "key": "key-a"}, {"name": "b", "key": "schlüssel"}])
    book = CallerBook([layout])
    assert book.match("key-a") == Principal(layout.root, "a")
    assert book.match(b"key-a") == Principal(layout.root, "a")
    assert book.match("schlüssel".encode()) == Principal(layout.root, "b")
    for wrong in ("key-", "key-aa", "KEY-A", "", b"\xff\xfe", "\udcff", "key-a "):
        assert book.match(wrong) == NoMatch()


def test_a_key_of_several_callers_is_nobodys_and_the_owners_are_named(layout, tmp_path):
    other = WorkspaceLayout(str(tmp_path / "other"))
    other.create()
    _write(
        layout,
        [
            {"name": "a", "key": "same-key-1"},
            {"name": "twin", "key": "twice-key"},
            {"name": "twin2", "key": "twice-key"},
        ],
    )
    _write(other, [{"name": "b", "key": "same-key-1"}, {"name": "only", "key": "its-own"}])
    book = CallerBook([layout, other])
    across = book.match("same-key-1")
    assert isinstance(across, Ambiguous)
    assert across.owners == (f"a in {layout.root}", f"b in {other.root}")
    within = book.match("twice-key")
    assert isinstance(within, Ambiguous)
    assert "twice-key" not in repr(within)
    assert book.match("its-own") == Principal(other.root, "only")
    assert [entry.name for entry in book.callers(other.root).entries] == ["b", "only"]
    assert book.callers("/nowhere").entries == ()


def test_an_edit_counts_for_the_very_next_request(layout):
    book = CallerBook([layout])
    for number in range(300):
        _write(layout, [{"name": "a", "key": f"key-{number % 7}"}])  # same size, perhaps the same tick of the clock
        assert book.match(f"key-{number % 7}") == Principal(layout.root, "a"), number
        assert book.match(f"key-{(number + 1) % 7}") == NoMatch()


@pytest.mark.parametrize("backdated", [False, True])
def test_an_edit_within_one_step_of_a_coarse_file_system_counts(layout, monkeypatch, backdated):
    step = 2_000_000_000

    def coarse(stamp):
        times = {"mtime_ns": stamp.mtime_ns // step * step, "ctime_ns": stamp.ctime_ns // step * step}
        return attrs.evolve(stamp, **times)

    real_read, real_stamp = safe_read.read_stamped, safe_read.stamp_of

    def read(path):
        data, stamp = real_read(path)
        return data, coarse(stamp)

    monkeypatch.setattr(module, "read_stamped", read)
    monkeypatch.setattr(module, "stamp_of", lambda path: coarse(real_stamp(path)))
    book = CallerBook([layout])
    for number in range(100):
        _write(layout, [{"name": "a", "key": f"key-{number % 7}"}])
        if backdated:
            os.utime(layout.callers, ns=(0, 0))
        assert book.match(f"key-{number % 7}") == Principal(layout.root, "a"), number
        time.sleep(0.002)


@pytest.mark.parametrize("how", ["in place", "by rename", "removed", "added", "replaced by a folder", "touched back"])
def test_an_edit_of_a_file_long_unchanged_counts_at_once(layout, monkeypatch, how):
    monkeypatch.setattr(module, "SETTLED_NS", 20_000_000)
    if how != "added":
        _write(layout, [{"name": "a", "key": "old-key"}])
    time.sleep(0.05)
    book = CallerBook([layout])
    assert book.match("old-key") == (NoMatch() if how == "added" else Principal(layout.root, "a"))
    reads = _count_reads(monkeypatch)
    for _ in range(5):
        book.match("old-key")
    assert reads == []
    old = Path(layout.callers).stat() if how != "added" else None
    new = json.dumps([{"name": "a", "key": "new-key"}])
    if how in {"in place", "added", "touched back"}:
        _write(layout, new)
    elif how == "by rename":
        edited = Path(f"{layout.callers}.new")
        edited.write_text(new)
        edited.rename(layout.callers)
    else:
        Path(layout.callers).unlink()
        if how == "replaced by a folder":
            Path(layout.callers).mkdir()
    if how == "touched back":
        os.utime(layout.callers, ns=(old.st_atime_ns, old.st_mtime_ns))
    expected = NoMatch() if how in {"removed", "replaced by a folder"} else Principal(layout.root, "a")
    assert book.match("new-key") == expected
    assert book.match("old-key") == NoMatch()


def _count_reads(monkeypatch):
    reads = []
    real = safe_read.read_stamped
    monkeypatch.setattr(module, "read_stamped", lambda path: (reads.append(path), real(path))[1])
    return reads


def test_a_file_from_the_future_is_read_each_time(layout, monkeypatch):
    _write(layout, [{"name": "a", "key": "key-a"}])
    ahead = time.time_ns() + 3_600_000_000_000
    os.utime(layout.callers, ns=(ahead, ahead))
    book = CallerBook([layout])
    book.match("key-a")
    reads = _count_reads(monkeypatch)
    book.match("key-a")
    assert len(reads) == 1


def test_a_fault_is_warned_of_once_per_state_of_the_file(layout):
    with capture_logs() as logs:
        book = CallerBook([layout])
        _write(layout, "{")
        for _ in range(5):
            book.match("any")
        assert len(logs) == 1
        _write(layout, [{"name": "BAD", "key": "a-secret-key"}, {"name": "good", "key": "k"}])
        for _ in range(5):
            book.match("any")
        assert len(logs) == 2
        _write(layout, [{"name": "good", "key": "k"}])
        book.match("any")
        _write(layout, "{")
        book.match("any")
        assert len(logs) == 3
    assert all(layout.callers in str(entry) for entry in logs)
    assert "a-secret-key" not in str(logs)


def test_every_key_that_was_read_is_scrubbed_from_then_on(layout):
    _write(layout, [{"name": "a", "key": "canary-key-one"}, {"name": "BAD", "key": "canary-key-two"}])
    load(layout)
    assert KEYS.scrub("got canary-key-one and canary-key-two") == f"got {MASK} and {MASK}"
    assert "canary-key-one" not in repr(load(layout))


def test_a_file_written_byte_by_byte_shows_old_new_or_nothing(layout):
    old = json.dumps([{"name": "a", "key": "old-key-1234"}])
    new = json.dumps([{"name": "b", "key": "new-key-1234"}, {"name": "c", "key": "third-key-12"}])
    warned = []
    book = CallerBook([layout], warned.append)
    seen = set()
    with Path(layout.callers).open("w+", buffering=1) as file:
        file.write(old)
        file.flush()
        assert book.match("old-key-1234") == Principal(layout.root, "a")
        for position in range(len(new) + 1):
            file.seek(0)
            file.truncate(0)
            file.write(new[:position])
            file.flush()
            seen.add(tuple(entry.name for entry in book.callers(layout.root).entries))
        assert book.match("new-key-1234") == Principal(layout.root, "b")
        for position in range(len(old) + 1):  # over the longer text, without cutting it first
            file.seek(0)
            file.write(old[:position])
            file.flush()
            seen.add(tuple(entry.name for entry in book.callers(layout.root).entries))
    assert {(), ("b", "c")} <= seen
    assert len(seen) <= 4
    assert warned
    assert not any("key-1234" in warning for warning in warned)
