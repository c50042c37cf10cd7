"""The files of a workspace that every session there knows: instructions, persona, memory (seed: a2a.md#sessions).

Only the workspace's own folder is looked at, never one above it.
"""

from __future__ import annotations

import os.path

import attrs

from volcanic.storage.safe_read import Reason, Unreadable, read_file

INSTRUCTIONS = ("AGENTS.override.md", "AGENTS.md", "CLAUDE.md")
"""Of these one is read: the first that can be."""

PERSONA = "PERSONA.md"
MEMORY = "MEMORY.md"

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
    data = read_file(os.path.join(workspace, name))  # noqa: PTH118 - paths are text on this layer
    if isinstance(data, Unreadable):
        if data.reason is not Reason.MISSING:
            warnings.append(f"{name} {data}")
        return None
    text = data[:CONTEXT_FILE_BYTES].decode("utf-8-sig", "replace")
    if len(data) > CONTEXT_FILE_BYTES:
        text += f"\n[{name} is longer; only its first {CONTEXT_FILE_BYTES} bytes are shown.]"
    return ContextFile(name, text)
