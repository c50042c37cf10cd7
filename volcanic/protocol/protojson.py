"""What ProtoJSON readers take beside the plain form: `null` for an absent member, and the names of the proto file.

Many clients write every unset member as `null`, some write `history_length` for `historyLength`. Only what needs it
comes here. Free-form values keep their nulls, their names and their bytes.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

ITEMS: Final = 1000
"""The longest list that is read this way: its items are read one by one."""

_NULL: Final = b"null"
_PROTO_NAME: Final = re.compile(rb'"[a-z]+_[a-z_]+"[ \t\r\n]*:')
_Cleaner = Callable[[Raw], Raw]
_RAW: Final = msgspec.json.Decoder(Raw)
_RAWS: Final = msgspec.json.Decoder(list[Raw])


def has_proto_names(raw: bytes) -> bool:
    """Tell whether some member anywhere in `raw` is named as in the proto file (`history_length`)."""
    return _PROTO_NAME.search(raw) is not None


def plain(raw: bytes, request: type[msgspec.Struct]) -> bytes:
    """Return the JSON of a request in the plain form: without null members, with camelCase names; `null` is `{}`.

    Of a member that is there under both names the camelCase one counts.

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
    twice = {f"{name}_in_proto": name for name, shown in names.items() if name != shown}
    loose = msgspec.defstruct(
        f"Loose{model.__name__}",
        [(name, Raw | UnsetType, UNSET) for name in (*names, *twice)],
        rename=names | twice,
        kw_only=True,
    )
    decoder = msgspec.json.Decoder(loose)
    inner = {name: cleaner for name in names if (cleaner := _inner(hints[name])) is not None}

    def clean(raw: Raw) -> Raw:
        value = decoder.decode(raw)
        for other, name in twice.items():
            if getattr(value, name) is UNSET:
                setattr(value, name, getattr(value, other))
            setattr(value, other, UNSET)
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
