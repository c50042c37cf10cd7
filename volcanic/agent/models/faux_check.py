"""Checks on the JSON of a faux script: each returns the value as its type or raises a `ScriptError` that says where."""

from __future__ import annotations

import math
from collections.abc import Collection


class ScriptError(ValueError):
    """A script that cannot be played: one line that names the rule, the step and the key."""


def require(holds: bool, where: str, what: str) -> None:  # noqa: FBT001
    """Raise unless `holds`."""
    if not holds:
        raise ScriptError(f"{where}: {what}")


def members(value: object, where: str, known: Collection[str] | None) -> dict[str, object]:
    """Return an object's members; one that is not `known` is an error (None: all are)."""
    if not isinstance(value, dict):
        raise ScriptError(f"{where}: must be an object")
    for key in value:
        require(known is None or key in known, where, f'unknown key "{key}"')
    return value


def sequence(value: object, where: str) -> list[object]:
    """Return a list."""
    if not isinstance(value, list):
        raise ScriptError(f"{where}: must be a list")
    return value


def text(value: object, where: str) -> str:
    """Return a string."""
    if not isinstance(value, str):
        raise ScriptError(f"{where}: must be a string")
    return value


def boolean(value: object, where: str) -> bool:
    """Return a boolean."""
    if not isinstance(value, bool):
        raise ScriptError(f"{where}: must be true or false")
    return value


def number(value: object, where: str, *, least: float = -math.inf, above: float = -math.inf) -> float:
    """Return a number that is at least `least` and above `above`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ScriptError(f"{where}: must be a number")
    require(value >= least, where, f"must be at least {least:g}")
    require(value > above, where, f"must be above {above:g}")
    try:
        return float(value)
    except OverflowError as error:
        raise ScriptError(f"{where}: is too large") from error


def whole(value: object, where: str, *, least: int, most: int = 2**31 - 1) -> int:
    """Return a whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ScriptError(f"{where}: must be a whole number")
    require(least <= value <= most, where, f"must be from {least} to {most}")
    return value
