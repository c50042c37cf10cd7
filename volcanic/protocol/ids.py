"""The grammars of names and ids, and how ids carry their shard (a2a.md#files, #sessions; design: "Ownership").

Randomness is an argument: the same bytes always make the same id.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

SHARDS: Final = 256
RANDOM_BYTES: Final = 16

_CALLER: Final = re.compile(r"[a-z0-9-]{1,40}")
_CONTEXT: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_TASK: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def is_caller_name(text: str) -> bool:
    """Tell whether `text` may name a caller."""
    return _CALLER.fullmatch(text) is not None


def is_context_id(text: str) -> bool:
    """Tell whether a client may choose `text` as its contextId."""
    return _CONTEXT.fullmatch(text) is not None


def is_task_id(text: str) -> bool:
    """Tell whether `text` has the form of the ids minted here: only such an id is ever looked up as a file."""
    return _TASK.fullmatch(text) is not None


def shard_of(caller: str, context_id: str) -> int:
    """Return the shard (0..255) that owns a context; the same in every process and on every machine.

    The workspace is left out: its folder may be moved, and the ids of its waiting tasks keep their shard.
    """
    key = f"{caller}\0{context_id}".encode("utf-8", "surrogateescape")
    return blake2b(key, digest_size=1).digest()[0]


def mint_task_id(shard: int, random16: bytes) -> str:
    """Make a task id whose first byte is its shard; the other bytes are `random16` (its first byte is dropped)."""
    if not 0 <= shard < SHARDS:
        raise ValueError(f"no such shard: {shard}")
    return _uuid_form(bytes((shard,)) + random16[1:])


def mint_context_id(random16: bytes) -> str:
    """Make the contextId of a message that came without one (a random UUID)."""
    return _uuid_form(random16)


def shard_of_task_id(task_id: str) -> int | None:
    """Return the shard a task id carries, or None when it was not minted here."""
    return int(task_id[:2], 16) if _TASK.fullmatch(task_id) is not None else None


def scope(prefix: str, caller: str, context_id: str) -> str:
    """Return the session scope of a context.

    Caller names hold no `_`, so that no two (caller, contextId) pairs of one prefix share a scope.
    """
    return f"{prefix}-a2a-{caller}_{context_id}"


def _uuid_form(value: bytes) -> str:
    if len(value) != RANDOM_BYTES:
        raise ValueError(f"an id is made of {RANDOM_BYTES} bytes, got {len(value)}")
    marked = bytearray(value)
    marked[6] = (marked[6] & 0x0F) | 0x40
    marked[8] = (marked[8] & 0x3F) | 0x80
    digits = marked.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
