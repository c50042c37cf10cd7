"""Transcripts: `sessions/<scope>/*.jsonl`, a session a file, version 3 of the format (agent-core facts, section 3).

Line 1 is the header, every other line an entry with an id and its parent's; the last entry is the leaf, and the way
from the root to it is the conversation. The file comes into being with its first message and then only grows.
"""

from __future__ import annotations

import datetime as dt
import os
import secrets
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import final

import msgspec
import structlog
from msgspec import Raw

from volcanic.clock import SYSTEM, Clock
from volcanic.protocol.timestamps import format_ms
from volcanic.storage.operations import Append
from volcanic.storage.safe_read import Reason, Unreadable, read_file

VERSION = 3
TRANSCRIPT_BYTES = 256 * 1024 * 1024
"""The longest transcript that is read; beyond it a session starts anew."""

_HEADER_ROOM = 64 * 1024
_SUMMARY = "The conversation before this point was compacted into this summary:\n\n"
_BRANCH = "The conversation came back here from a branch with this summary:\n\n"

_log = structlog.get_logger(__name__)


class _Header(msgspec.Struct, rename="camel", tag="session", omit_defaults=True, gc=False):
    version: int
    id: str
    timestamp: str
    cwd: str
    parent_session: str | None = None


class _Entry(msgspec.Struct, rename="camel", gc=False, kw_only=True):
    """Any entry; the members after `timestamp` belong to single types."""

    type: str
    id: str
    parent_id: str | None = None
    timestamp: str = ""
    message: Raw = Raw(b"")
    content: Raw = Raw(b"")
    summary: str = ""
    first_kept_entry_id: str = ""


class _New(msgspec.Struct, rename="camel", gc=False):
    type: str
    id: str
    parent_id: str | None
    timestamp: str


_decode_header = msgspec.json.Decoder(_Header).decode
_decode_entry = msgspec.json.Decoder(_Entry).decode
_encode = msgspec.json.Encoder().encode
_MALFORMED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@final
class Transcript:
    """The content of a transcript file: its entries in their order, the leaf, and what was wrong."""

    def __init__(self, data: bytes) -> None:
        """Decode; malformed lines are skipped.

        `unended` tells that the last line has no newline, `torn` that it is no entry either.

        Raises:
            ValueError: there is no header of this version.
        """
        first, *lines = data.split(b"\n")
        try:
            header = _decode_header(first)
        except _MALFORMED:
            raise ValueError("it has no header") from None
        if header.version != VERSION:
            raise ValueError(f"it is of version {header.version}, not {VERSION}")
        self.unended = bool(lines and lines[-1]) or not lines
        self.torn = False
        self.leaf: str | None = None
        self._entries: dict[str, _Entry] = {}
        self._parents: dict[str, str | None] = {}
        for line in lines:
            whole = self._take(line)
            self.torn = bool(line.strip()) and not whole

    def _take(self, line: bytes) -> bool:
        """Take an entry in; return whether the line was one."""
        try:
            line.decode()
            entry = _decode_entry(line)
        except _MALFORMED:
            return False
        if entry.type == "session" or entry.id in self._entries:
            return True
        # An entry whose parent's line is lost hangs on the entry before it: one bad line costs no more than itself.
        known = entry.parent_id is None or entry.parent_id in self._entries
        self._parents[entry.id] = entry.parent_id if known else self.leaf
        self._entries[entry.id] = entry
        self.leaf = entry.id
        return True

    def ids(self) -> Iterable[str]:
        """Return the ids that are taken."""
        return self._entries

    def messages(self) -> list[bytes]:
        """Return what the model is to see, oldest first, each as the JSON of a message."""
        path: list[_Entry] = []
        at = self.leaf
        while at is not None:  # parents stand before their children, so this ends
            path.append(self._entries[at])
            at = self._parents[at]
        path.reverse()
        return [shown for entry in _compacted(path) if (shown := _shown(entry))]


def _compacted(path: list[_Entry]) -> list[_Entry]:
    """Return the way without what its last compaction summed up."""
    last = max((number for number, entry in enumerate(path) if entry.type == "compaction"), default=-1)
    if last < 0:
        return path
    kept = next((number for number, entry in enumerate(path) if entry.id == path[last].first_kept_entry_id), last)
    return [path[last], *path[min(kept, last) : last], *path[last + 1 :]]


def _shown(entry: _Entry) -> bytes:
    """Return an entry as a message for the model; empty when it is not for the model."""
    if entry.type == "message":
        message = bytes(entry.message)
        return message if message.startswith(b"{") else b""
    if entry.type == "custom_message" and entry.content:
        content = bytes(entry.content)
    elif entry.type == "compaction":
        content = _encode([{"type": "text", "text": _SUMMARY + entry.summary}])
    elif entry.type == "branch_summary":
        content = _encode([{"type": "text", "text": _BRANCH + entry.summary}])
    else:
        return b""
    if content[:1] == b'"':
        content = b'[{"type":"text","text":' + content + b"}]"
    return b'{"role":"user","content":' + content + b',"timestamp":%d}' % _milliseconds(entry.timestamp)


def _milliseconds(timestamp: str) -> int:
    try:
        return int(dt.datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0


@final
class TranscriptFile:
    """The transcript of one session: the newest file of its folder, or the one that its first message makes.

    One writer: the session. The operations it returns must be submitted in the order they were made.
    """

    def __init__(self, folder: str, cwd: str = "", clock: Clock = SYSTEM) -> None:
        """Read and write below `folder`; `cwd` is the session's working folder, for the header. Nothing is read yet."""
        self._folder = folder
        self._cwd = cwd
        self._clock = clock
        self._path = ""
        self._begun = False
        self._unended = False
        self._leaf: str | None = None
        self._ids: set[str] = set()

    def load(self) -> list[bytes]:
        """Return the messages for the model, oldest first; a session without a file has none. Blocks for one read.

        A torn last line is lost and reported once (the next entry starts on a line of its own); a file that is no
        transcript is left alone, reported, and a new one begun.

        Raises:
            OSError: there is a transcript, but it cannot be read now.
        """
        self._leaf, self._begun, self._unended = None, False, False
        self._ids.clear()
        self._path = self._newest()
        data = read_file(self._path, TRANSCRIPT_BYTES) if self._path else Unreadable(Reason.MISSING)
        if isinstance(data, Unreadable):
            if data.reason in {Reason.FAILED, Reason.DENIED, Reason.SHORT}:
                raise OSError(f"{self._path} {data}")
            if data.reason is not Reason.MISSING:
                _log.warning("transcript_refused", path=self._path, problem=str(data))
            self._path = ""
            return []
        try:
            transcript = Transcript(data)
        except ValueError as error:
            _log.warning("transcript_refused", path=self._path, problem=str(error))
            self._path = ""
            return []
        if transcript.torn:
            _log.warning("transcript_torn", path=self._path, lost="the last line, which was not whole")
        self._begun, self._unended, self._leaf = True, transcript.unended, transcript.leaf
        self._ids.update(transcript.ids())
        return transcript.messages()

    def append_ops(self, messages: Sequence[bytes]) -> tuple[Append, ...]:
        """Return the operation that adds messages (each the JSON of one); none for no messages.

        After it failed, the entries count as absent; the next ones hang on what is there.
        """
        entries = [(b"message", b',"message":' + message) for message in messages]
        return self._append(entries)

    def note_ops(self, kind: str, members: Mapping[str, object]) -> tuple[Append, ...]:
        """Return the operation that adds another entry, such as `model_change`, `custom` or `compaction`."""
        body = _encode(dict(members))[1:-1]
        return self._append([(kind.encode(), b"," + body if body else b"")])

    def _append(self, entries: Sequence[tuple[bytes, bytes]]) -> tuple[Append, ...]:
        if not entries:
            return ()
        now = format_ms(self._clock.wall())
        lines: list[bytes] = []
        if not self._is_begun():
            lines.append(self._header(now))
        elif self._unended:
            lines.append(b"")
        self._unended = False
        for kind, body in entries:
            entry_id = self._new_id()
            head = _encode(_New(kind.decode(), entry_id, self._leaf, now))
            lines.append(head[:-1] + body + b"}")
            self._leaf = entry_id
        return (Append(self._path, b"\n".join(lines) + b"\n", folders=True),)

    def _is_begun(self) -> bool:
        """Tell whether the file has its header: the operation that was to write it may have failed."""
        if not self._begun and self._path:
            try:
                self._begun = os.stat(self._path).st_size > 0  # noqa: PTH116
            except OSError:
                self._begun = False
        return self._begun

    def _header(self, now: str) -> bytes:
        session_id = str(uuid.uuid4())
        if not self._path:
            self._path = f"{self._folder}/{now.replace(':', '-').replace('.', '-')}_{session_id}.jsonl"
        return _encode(_Header(VERSION, session_id, now, self._cwd))

    def _new_id(self) -> str:
        while (entry_id := secrets.token_hex(4)) in self._ids:
            pass
        self._ids.add(entry_id)
        return entry_id

    def _newest(self) -> str:
        """Return the newest transcript of the folder by its name, which begins with its time; empty for none."""
        try:
            names = [name for name in os.listdir(self._folder) if name.endswith(".jsonl")]  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            return ""
        return f"{self._folder}/{max(names)}" if names else ""
