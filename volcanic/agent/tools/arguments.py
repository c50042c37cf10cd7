"""A tool's arguments as a struct: one definition gives the schema for the model and the check of what it sends."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from volcanic.extension import JsonObject, ToolCall

_T = TypeVar("_T", bound=msgspec.Struct)


class InvalidArgumentsError(ValueError):
    """Arguments that do not fit the tool; the text is for the model."""


def schema(arguments: type[msgspec.Struct]) -> JsonObject:
    """Return the JSON Schema of a tool's arguments."""
    (_,), components = msgspec.json.schema_components((arguments,), ref_template="#/$defs/{name}")
    found: dict[str, object] = components.pop(arguments.__name__)
    for about_the_code in ("title", "description"):
        found.pop(about_the_code, None)
    if components:
        found["$defs"] = components
    return found


def read(call: ToolCall, arguments: type[_T]) -> _T:
    """Return the call's arguments.

    Raises:
        InvalidArgumentsError: one is missing, unknown or of the wrong type.
    """
    try:
        return msgspec.convert(dict(call.arguments), arguments)
    except msgspec.ValidationError as error:
        raise InvalidArgumentsError(f"Invalid arguments for {call.name}: {error}") from error
