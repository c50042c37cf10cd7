"""Explicit nulls: ProtoJSON reads a `null` member as an absent one, and many clients write every unset member so.

Only what failed to decode comes here. Free-form values keep their nulls and their bytes.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

ITEMS: Final = 1000
"""The longest list that is read this way: its items are read one by one."""

_NULL: Final = b"null"
_Cleaner = Callable[[Raw], Raw]
_RAW: Final = msgspec.json.Decoder(Raw)
_RAWS: Final = msgspec.json.Decoder(list[Raw])


def without(raw: bytes, request: type[msgspec.Struct]) -> bytes:
    """Return the JSON of a request without the null members that its structs know; `null` itself is `{}`.

    Raises:
        msgspec.ValidationError: Not of this shape.
        msgspec.DecodeError: Not JSON.
        RecursionError: Nested beyond the decoder's limit.
    """
    whole = _RAW.decode(raw)
    return b"{}" if bytes(whole) == _NULL else bytes(_struct(request)(whole))


def _struct(model: type[msgspec.Struct]) -> _Cleaner:
    known = _CLEANERS.get(model)
    if known is None:
        known = _CLEANERS[model] = _build(model)
    return known


def _build(model: type[msgspec.Struct]) -> _Cleaner:
    hints = typing.get_type_hints(model)
    fields = msgspec.structs.fields(model)
    names = {field.name: field.encode_name for field in fields}
    loose = msgspec.defstruct(
        f"Loose{model.__name__}",
        [(name, Raw | UnsetType, UNSET) for name in names],
        rename=names,
        kw_only=True,
    )
    decoder = msgspec.json.Decoder(loose)
    inner = {name: cleaner for name in names if (cleaner := _inner(hints[name])) is not None}

    def clean(raw: Raw) -> Raw:
        value = decoder.decode(raw)
        for name in names:
            member = getattr(value, name)
            if member is UNSET:
                continue
            if bytes(member) == _NULL and name != "data":
                setattr(value, name, UNSET)
            elif name in inner:
                setattr(value, name, inner[name](member))
        return Raw(msgspec.json.encode(value))

    return clean


def _inner(hint: object) -> _Cleaner | None:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for option in options:
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            return _struct(option)
        (item,) = typing.get_args(option) if typing.get_origin(option) is list else (None,)
        if isinstance(item, type) and issubclass(item, msgspec.Struct):
            clean = _struct(item)
            return lambda raw: _each(clean, raw)
    return None


def _each(clean: _Cleaner, raw: Raw) -> Raw:
    items = _RAWS.decode(raw)
    return raw if len(items) > ITEMS else Raw(msgspec.json.encode([clean(item) for item in items]))


_CLEANERS: Final[dict[type[msgspec.Struct], _Cleaner]] = {}
