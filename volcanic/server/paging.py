"""Page tokens of ListTasks: the sort key of a page's last task, opaque to callers; what is none of ours is refused."""

from __future__ import annotations

import base64
import binascii

import msgspec
from msgspec import Raw

from volcanic.protocol import ids, timestamps
from volcanic.protocol.errors import A2AError, invalid_params

_TOKEN_CHARACTERS = 128


class Page(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """The answer to ListTasks; every member is always present (spec §3.1.4)."""

    tasks: list[Raw]
    next_page_token: str
    page_size: int
    total_size: int


def encode(timestamp: str, task_id: str) -> str:
    """Return the token that continues after the task with this status timestamp and id."""
    return base64.urlsafe_b64encode(f"{timestamp} {task_id}".encode("ascii")).rstrip(b"=").decode("ascii")


def decode(token: str) -> tuple[str, str]:
    """Return the (timestamp, task id) that a token holds.

    Raises:
        A2AError: INVALID_PARAMS for anything that `encode` did not make.
    """
    if len(token) > _TOKEN_CHARACTERS or not token.isascii():
        raise _bad_token()
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode("ascii")
        timestamp, _, task_id = text.partition(" ")
        known = timestamps.parse(timestamp) == timestamp and ids.is_task_id(task_id)
    except (binascii.Error, ValueError):
        raise _bad_token() from None
    if not known or encode(timestamp, task_id) != token:
        raise _bad_token()
    return timestamp, task_id


def _bad_token() -> A2AError:
    return invalid_params("pageToken", "pageToken is not a token of this service")
