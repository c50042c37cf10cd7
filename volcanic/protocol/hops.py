"""The recursion guard's counter (a2a.md#configuration `MaxHops`, a2a.md#hops).

It must be readable however a client's JSON library wrote it, and no spelling of it may get round the limit.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

KEY: Final = "volcanic.hops"
HOPS_MAX: Final = 2**31 - 1
"""What anything larger counts as."""


class _Metadata(msgspec.Struct, gc=False):
    hops: Raw | UnsetType = msgspec.field(default=UNSET, name=KEY)


_METADATA: Final = msgspec.json.Decoder(_Metadata)
_TEXT: Final = msgspec.json.Decoder(str)


def read(request_metadata: Raw | UnsetType, message_metadata: Raw | UnsetType) -> int:
    """Return the hop count of a request: its own metadata, else the message's, else 0.

    A number counts rounded up, at least 0 and at most `HOPS_MAX`; a string that holds a number counts as that number.
    What is none of these (null, a list, "many") is no count and is passed over.
    """
    for metadata in (request_metadata, message_metadata):
        if metadata is not UNSET:
            hops = _count(metadata)
            if hops is not None:
                return hops
    return 0


def _count(metadata: Raw) -> int | None:
    try:
        value = _METADATA.decode(metadata).hops
        if value is UNSET:
            return None
        text = bytes(value).decode()
        number = float(_TEXT.decode(value) if text.startswith('"') else text)
    except (ValueError, RecursionError):
        return None
    if math.isnan(number):
        return None
    return math.ceil(min(max(number, 0.0), HOPS_MAX))
