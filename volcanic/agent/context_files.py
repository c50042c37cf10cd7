"""The files of a workspace that every session there knows: instructions, persona, memory (seed: a2a.md#sessions).

Only the workspace's own folder is looked at, never one above it.
"""

from __future__ import annotations

import attrs

from volcanic.storage.safe_read import Reason, Stamp, Unreadable, read_file, stamp_of

INSTRUCTIONS = ("AGENTS.override.md", "AGENTS.md", "CLAUDE.md")
"""Of these one is read: the first that can be."""

PERSONA = "PERSONA.md"
MEMORY = "MEMORY.md"

SETTLE_SECONDS = 0.1
"""How long a file must have been as it is for its time stamp to be trusted: clock ticks of file systems are coarse."""

_ALL = (*INSTRUCTIONS, PERSONA, MEMORY)

CONTEXT_FILE_BYTES = 128 * 1024
"""How much of one file goes into a prompt, in bytes; the rest is cut off, and the prompt says so."""


@attrs.frozen
class ContextFile:
    """A context file as a prompt shows it."""

    name: str
    text: str


@attrs.frozen
class ContextFiles:
    """What a workspace has. `warnings` are log lines about files that are there and were not read."""

    instructions: ContextFile | None
    persona: ContextFile | None
    memory: ContextFile | None
    warnings: tuple[str, ...]


@attrs.frozen
class FileStates:
    """Which states the context files of a workspace were in, without their content."""

    stamps: tuple[Stamp | Unreadable, ...]

    def settled(self, now: float) -> bool:
        """Whether equal states at a later time mean equal content.

        A file that changed within `SETTLE_SECONDS` before `now` may change again without its time stamp showing it.
        """
        newest = max((max(s.mtime_ns, s.ctime_ns) for s in self.stamps if isinstance(s, Stamp)), default=0)
        return newest < (now - SETTLE_SECONDS) * 1e9


def file_states(workspace: str) -> FileStates:
    """Look at the workspace's context files without reading them."""
    return FileStates(tuple(stamp_of(f"{workspace}/{name}") for name in _ALL))


def load_context(workspace: str) -> ContextFiles:
    """Read a workspace's context files. A missing one is none; an odd one (FIFO, device, too large) is refused at once.

    Bytes that are no UTF-8 are shown as replacement characters.
    """
    warnings: list[str] = []
    instructions = None
    for name in INSTRUCTIONS:
        instructions = _read(workspace, name, warnings)
        if instructions is not None:
            break
    persona, memory = _read(workspace, PERSONA, warnings), _read(workspace, MEMORY, warnings)
    return ContextFiles(instructions, persona, memory, tuple(warnings))


def _read(workspace: str, name: str, warnings: list[str]) -> ContextFile | None:
    data = read_file(f"{workspace}/{name}")
    if isinstance(data, Unreadable):
        if data.reason is not Reason.MISSING:
            warnings.append(f"{name} {data}")
        return None
    text = data[:CONTEXT_FILE_BYTES].decode("utf-8-sig", "replace")
    if len(data) > CONTEXT_FILE_BYTES:
        text += f"\n[{name} is longer; only its first {CONTEXT_FILE_BYTES} bytes are shown.]"
    return ContextFile(name, text)
