"""Reading what people put in a file's place, and the paths of a workspace."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from volcanic.storage.layout import StateLayout, WorkspaceLayout, sync_folder
from volcanic.storage.safe_read import Reason, Stamp, Unreadable, read_file, read_stamped, stamp_of


def test_a_file_is_read_whole(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    data, stamp = read_stamped(str(tmp_path / "a"))
    assert data == b"x" * 100_000
    assert stamp == Stamp.of((tmp_path / "a").stat())
    assert stamp_of(str(tmp_path / "a")) == stamp
    (tmp_path / "empty").write_bytes(b"")
    assert read_file(str(tmp_path / "empty")) == b""


def test_links_are_followed(tmp_path):
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "link").symlink_to("a")
    assert read_file(str(tmp_path / "link")) == b"x"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("missing", Reason.MISSING),
        ("dangling", Reason.MISSING),
        ("below a file", Reason.MISSING),
        ("nul", Reason.MISSING),
        ("folder", Reason.NOT_A_FILE),
        ("fifo", Reason.NOT_A_FILE),
        ("socket", Reason.NOT_A_FILE),
        ("device", Reason.NOT_A_FILE),
        ("loop", Reason.FAILED),
        ("long name", Reason.FAILED),
    ],
)
def test_what_is_no_file_is_refused_at_once_with_its_reason(tmp_path, kind, reason):
    path = str(tmp_path / "x")
    listener = socket.socket(socket.AF_UNIX)
    if kind == "dangling":
        Path(path).symlink_to("nowhere")
    elif kind == "below a file":
        Path(path).write_bytes(b"")
        path += "/y"
    elif kind == "nul":
        path += "\0"
    elif kind == "folder":
        Path(path).mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        listener.bind(path)
    elif kind == "device":
        path = "/dev/zero"
    elif kind == "loop":
        Path(path).symlink_to(path)
    elif kind == "long name":
        path += "y" * 300
    started = time.monotonic()
    found = read_file(path)
    assert time.monotonic() - started < 0.5
    listener.close()
    assert isinstance(found, Unreadable)
    assert found.reason is reason
    assert str(found).startswith(reason.value)
    if kind not in {"folder", "fifo", "socket", "device"}:
        assert stamp_of(path) == found


def test_a_file_over_the_limit_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 11)
    found = read_file(str(tmp_path / "a"), 10)
    assert isinstance(found, Unreadable)
    assert found.reason is Reason.TOO_LARGE
    assert read_file(str(tmp_path / "a"), 11) == b"x" * 11


def test_a_file_that_grows_while_it_is_read_stays_within_the_limit(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"x" * 10)
    real = os.read

    def growing(handle, size):
        with path.open("ab") as file:
            file.write(b"y" * 10)
        return real(handle, size)

    monkeypatch.setattr(os, "read", growing)
    found = read_file(str(path), 100)
    assert isinstance(found, Unreadable)
    assert found.reason is Reason.TOO_LARGE


def test_a_read_that_fails_says_so(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"x")

    def failing(_handle, _size):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "read", failing)
    assert str(read_file(str(tmp_path / "a"))) == "cannot be read now: Input/output error"


def test_no_handle_stays_open(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 11)
    os.mkfifo(tmp_path / "fifo")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(20):
        read_file(str(tmp_path / "a"), 10)
        read_file(str(tmp_path / "fifo"))
        read_file(str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_the_files_of_a_workspace_lie_where_the_documents_say(tmp_path):
    layout = WorkspaceLayout(f"{tmp_path}/x/../ws/")
    root = f"{tmp_path}/ws"
    assert layout.root == root
    assert layout.callers == f"{root}/.volcanic/a2a/callers.json"
    assert layout.card == f"{root}/.volcanic/a2a/card.json"
    assert layout.agents == f"{root}/.volcanic/a2a/agents.json"
    assert layout.pending == f"{root}/.volcanic/a2a/pending.json"
    assert layout.task("T") == f"{root}/.volcanic/a2a/tasks/T.json"
    assert layout.push("T") == f"{root}/.volcanic/a2a/tasks/T.push.json"
    assert layout.index_of("agents-0") == f"{root}/.volcanic/a2a/index/agents-0"
    assert layout.session("folder-a2a-x_c") == f"{root}/.volcanic/sessions/folder-a2a-x_c"
    assert layout.owner_inbox == f"{root}/.volcanic/owner-inbox.jsonl"
    assert layout.jobs == f"{root}/.volcanic/scheduler/jobs.json"
    assert layout.persona == f"{root}/PERSONA.md"
    assert layout.received("T") == f"{root}/inbox/a2a/T"
    assert layout.lock == f"{root}/.volcanic/lock"


def test_folders_with_keys_are_the_users_alone(tmp_path):
    layout = WorkspaceLayout(f"{tmp_path}/new/ws")
    layout.create()
    layout.create()
    for folder in (layout.volcanic, layout.a2a, layout.tasks, layout.index, layout.sessions):
        assert Path(folder).stat().st_mode & 0o777 == 0o700
    state = StateLayout(f"{tmp_path}/state")
    Path(state.root).mkdir(mode=0o755)
    state.create()
    for folder in (state.root, state.live_folder):
        assert Path(folder).stat().st_mode & 0o777 == 0o700
    assert state.live("agents-0") == f"{tmp_path}/state/live/agents-0"
    assert state.slot_socket("agents-0") == f"{tmp_path}/state/agents-0.sock"
    assert state.admin_socket == f"{tmp_path}/state/admin.sock"


def test_a_workspace_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        WorkspaceLayout(f"{tmp_path}/file/ws").create()
    with pytest.raises(FileNotFoundError):
        sync_folder(f"{tmp_path}/none")
