"""`callers.json`: who may call, and which key is whose (seed: a2a.md#files, #endpoints).

The file counts as it is at each request. It is read again unless its stat proves that it has not changed since: nothing
about it differs, and its last change was old enough when it was read that a later one must show. (A change through a
shared memory mapping may show late; no editor works so.) Keys are registered for redaction as soon as they are read.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import final

import attrs
import msgspec
import structlog

from volcanic.protocol.ids import is_caller_name
from volcanic.redact import KEYS
from volcanic.storage.layout import WorkspaceLayout
from volcanic.storage.safe_read import Reason, Stamp, Unreadable, read_stamped, stamp_of

ISOLATED = "isolated"

SETTLED_NS = 3_000_000_000
"""A file changed less than this before it was read may change again unseen: FAT keeps times to two seconds."""

_BOM = b"\xef\xbb\xbf"

_log = structlog.get_logger(__name__)


@final
@attrs.frozen(repr=False)
class CallerEntry:
    """One caller of a workspace. Its `repr` does not show the key."""

    name: str
    key: str
    note: str = ""

    def __repr__(self) -> str:
        return f"CallerEntry({self.name!r})"


@final
@attrs.frozen
class Callers:
    """A workspace's callers, and what was wrong with its file (no warning holds a key)."""

    entries: tuple[CallerEntry, ...] = ()
    warnings: tuple[str, ...] = ()


@final
@attrs.frozen
class Principal:
    """The one caller a key belongs to; `workspace` is the root of its `WorkspaceLayout`."""

    workspace: str
    caller: str


@final
@attrs.frozen
class NoMatch:
    """The key is nobody's."""


@final
@attrs.frozen
class Ambiguous:
    """The key is several callers', so it is nobody's; `owners` says whose, never what."""

    owners: tuple[str, ...]


Match = Principal | NoMatch | Ambiguous


def parse(data: bytes, path: str) -> Callers:
    """Return the callers in a file's content; entries that cannot be used are skipped with a warning."""
    try:
        listed = msgspec.json.decode(data.removeprefix(_BOM))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Callers(warnings=(f"{path} is not valid JSON: it has no callers",))
    if not isinstance(listed, list):
        return Callers(warnings=(f"{path} is not a list of callers: it has none",))
    # At once: registering is linear in all keys known, and a file may hold thousands.
    KEYS.register(item["key"] for item in listed if isinstance(item, dict) and isinstance(item.get("key"), str))
    entries: dict[str, CallerEntry] = {}
    warnings: list[str] = []
    for number, item in enumerate(listed, 1):
        entry = _entry(item, entries)
        if isinstance(entry, CallerEntry):
            entries[entry.name] = entry
        else:
            warnings.append(f"{path}: entry {number} {entry}: skipped")
    return Callers(tuple(entries.values()), tuple(warnings))


def _entry(item: object, before: dict[str, CallerEntry]) -> CallerEntry | str:
    """Return the caller, or what is wrong with it."""
    if not isinstance(item, dict):
        return "is no object"
    key = item.get("key")
    name, mode, note = item.get("name"), item.get("mode"), item.get("note")
    if not isinstance(name, str) or not is_caller_name(name):
        return "has no name of the form [a-z0-9-]{1,40}"
    if not isinstance(key, str) or not key:
        return f"({name}) has no key"
    if mode is not None and mode != ISOLATED:
        return f"({name}) has an unknown mode"
    if name in before:
        return f"({name}) has the name of an entry before it"
    return CallerEntry(name, key, note if isinstance(note, str) else "")


def load(layout: WorkspaceLayout) -> Callers:
    """Read a workspace's callers now. A missing file has none; an unreadable one none and a warning."""
    data, _ = read_stamped(layout.callers)
    return _callers_of(data, layout.callers)


def _callers_of(data: bytes | Unreadable, path: str) -> Callers:
    if isinstance(data, bytes):
        return parse(data, path)
    if data.reason is Reason.MISSING:
        return Callers()
    return Callers(warnings=(f"{path} {data}: it has no callers",))


@final
class _CallersFile:
    """One workspace's file, read again whenever it may have changed."""

    def __init__(self, layout: WorkspaceLayout, warn: Callable[[str], None]) -> None:
        self.layout = layout
        self._warn = warn
        self._proven: Stamp | Unreadable | None = None
        self._warned: tuple[object, ...] = ()
        self.callers = Callers()

    def refresh(self) -> bool:
        """Make `callers` what the file says now; return whether it was read."""
        path = self.layout.callers
        if self._proven is not None and stamp_of(path) == self._proven:
            return False
        now = time.time_ns()
        data, stamp = read_stamped(path)
        if isinstance(data, Unreadable) and data.reason is Reason.SHORT and self.callers.entries:
            # Out of descriptors or memory: that says nothing about who may call.
            self._warn(f"{path} {data}: its callers stay as they were")
            return False
        self.callers = _callers_of(data, path)
        self._proven = _proof(data, stamp, now)
        if self.callers.warnings:
            state = (stamp, *self.callers.warnings)
            if state != self._warned:
                self._warned = state
                for warning in self.callers.warnings:
                    self._warn(warning)
        else:
            self._warned = ()
        return True


def _proof(data: bytes | Unreadable, stamp: Stamp | None, now: int) -> Stamp | Unreadable | None:
    """Return what a later stat must give for the content read at `now` to be the file's still; None: nothing would."""
    if isinstance(data, Unreadable):
        return data if data.reason is Reason.MISSING else None
    if stamp is None or now - max(stamp.mtime_ns, stamp.ctime_ns) < SETTLED_NS:
        return None
    return stamp


def _log_warning(text: str) -> None:
    _log.warning("callers_file", problem=text)


@final
class CallerBook:
    """Whose a key is, over all workspaces; what each file is wrong about is warned of once per state of the file."""

    def __init__(self, workspaces: Sequence[WorkspaceLayout], warn: Callable[[str], None] = _log_warning) -> None:
        """Read nothing yet; `warn` gets one line a problem, without keys."""
        self._files = [_CallersFile(layout, warn) for layout in workspaces]
        self._secret = secrets.token_bytes(32)
        self._index: dict[bytes, list[tuple[bytes, Principal]]] = {}

    def match(self, key: str | bytes) -> Match:
        """Return whose key this is, by the files as they are now; blocks for a stat (at most a small read) each.

        Keys are found by a hash under a secret of this process, so that the time tells nothing about how much of a
        guess is right, however many callers there are.
        """
        self._refresh()
        presented = key if isinstance(key, bytes) else key.encode("utf-8", "surrogateescape")
        found = [owner for known, owner in self._index.get(self._digest(presented), ()) if _same(known, presented)]
        if not presented or not found:
            return NoMatch()
        if len(found) > 1:
            return Ambiguous(tuple(f"{owner.caller} in {owner.workspace}" for owner in found))
        return found[0]

    def callers(self, workspace: str) -> Callers:
        """Return a workspace's callers as its file has them now (for listings; a workspace not served has none)."""
        self._refresh()
        return next((file.callers for file in self._files if file.layout.root == workspace), Callers())

    def _refresh(self) -> None:
        read = [file.refresh() for file in self._files]
        if not any(read):
            return
        self._index = {}
        for file in self._files:
            for entry in file.callers.entries:
                known = entry.key.encode()
                owner = Principal(file.layout.root, entry.name)
                self._index.setdefault(self._digest(known), []).append((known, owner))

    def _digest(self, key: bytes) -> bytes:
        return blake2b(key, key=self._secret, digest_size=32).digest()


_same = hmac.compare_digest
