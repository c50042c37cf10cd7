"""How the text of a setting becomes its value: durations, switches, numbers, URLs, media ranges.

Each parser takes what a flag, an environment variable or a TOML file gives and raises `ValueError` with the words that
say what is accepted; `volcanic.config.sources` adds the setting's name and where the value came from.
"""

from __future__ import annotations

import os
import re
import zoneinfo
from typing import Final
from urllib.parse import urlsplit

_LONGEST_SECONDS: Final = 10 * 365 * 86400.0
_CLOCK: Final = re.compile(r"(?:(\d{1,4})\.)?(\d{1,2}):([0-5]?\d):([0-5]?\d(?:\.\d{1,7})?)", re.ASCII)
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SHORT: Final = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(ms|s|m|h|d)?", re.ASCII)
_WHOLE: Final = re.compile(r"\d{1,15}", re.ASCII)
_MEDIA: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]*/(?:\*|[a-z0-9][a-z0-9!#$&^_.+-]*)|\*/\*", re.ASCII)
_MODEL: Final = re.compile(r"[A-Za-z0-9_-]+:\S+", re.ASCII)
_SWITCHES: Final = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}
_LAST_HOUR: Final = 23


def duration(value: object) -> float:
    """Return seconds from `00:30:00`, `1.00:00:00`, `90s`, `30m`, `1h`, `1d`, `250ms`, or a number of seconds."""
    seconds = _seconds(value)
    if seconds is None or not 0 <= seconds <= _LONGEST_SECONDS:
        raise ValueError("a duration such as 90s, 30m, 00:30:00 or 1.00:00:00, or a number of seconds")
    return seconds


def _seconds(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if abs(value) <= _LONGEST_SECONDS else None
    if not isinstance(value, str):
        return None
    text = value.strip()
    if short := _SHORT.fullmatch(text):
        return float(short[1]) * _UNITS[short[2] or "s"]
    if clock := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = clock.groups()
        if int(hours) <= _LAST_HOUR:
            return int(days or 0) * 86400.0 + int(hours) * 3600.0 + int(minutes) * 60.0 + float(seconds)
    return None


def positive_duration(value: object) -> float:
    """Return a `duration` above zero."""
    seconds = duration(value)
    if seconds <= 0:
        raise ValueError("a duration above zero such as 90s, 30m, 00:30:00 or 1.00:00:00")
    return seconds


def switch(value: object) -> bool:
    """Return a truth value from true/false, yes/no, on/off, 1/0."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and (known := _SWITCHES.get(value.strip().lower())) is not None:
        return known
    raise ValueError("true or false")


def whole(low: int, high: int, value: object) -> int:
    """Return a whole number within these bounds."""
    number = value if isinstance(value, int) and not isinstance(value, bool) else None
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        number = int(value)
    if number is None or not low <= number <= high:
        raise ValueError(f"a whole number from {low} to {high}")
    return number


def text(value: object) -> str:
    """Return a line of text that is not blank."""
    if not isinstance(value, str) or not value.strip() or "\0" in value or "\n" in value:
        raise ValueError("one line of text, not blank")
    return value.strip()


def base_url(value: object) -> str:
    """Return an absolute http or https URL without user, query or fragment, and without a slash at its end."""
    accepted = "an absolute http or https URL without user, query and fragment"
    if not isinstance(value, str) or any(ord(letter) <= ord(" ") or ord(letter) > ord("~") for letter in value.strip()):
        raise ValueError(accepted)
    try:
        parts = urlsplit(value.strip())
        port = parts.port
    except ValueError:
        raise ValueError(accepted) from None
    plain = not (parts.query or parts.fragment or "@" in parts.netloc or "\\" in value or "?" in value or "#" in value)
    if parts.scheme not in {"http", "https"} or not parts.hostname or not plain or port == 0:
        raise ValueError(accepted)
    return value.strip().rstrip("/")


def media_ranges(value: object) -> tuple[str, ...]:
    """Return media types and ranges (`text/*`, `*/*`) from a list or a text with commas, in lower case."""
    accepted = "media types or ranges, separated by commas, such as text/*, application/pdf"
    items = value.split(",") if isinstance(value, str) else value
    listed = items if isinstance(items, list | tuple) else ()
    ranges = tuple(item.strip().lower() if isinstance(item, str) else "" for item in listed)
    if not ranges or not all(_MEDIA.fullmatch(item) for item in ranges):
        raise ValueError(accepted)
    return tuple(dict.fromkeys(ranges))


def paths(value: object) -> tuple[str, ...]:
    """Return paths from a list, or from a text with the system's path separator (`:`) between them."""
    items = value.split(os.pathsep) if isinstance(value, str) else value
    listed = tuple(items) if isinstance(items, list | tuple) else ()
    if not listed or not all(isinstance(item, str) and item.strip() and "\0" not in item for item in listed):
        raise ValueError("one or several folders")
    return tuple(item.strip() for item in listed)


def model(value: object) -> str:
    """Return a model as PROVIDER:NAME."""
    if not isinstance(value, str) or not _MODEL.fullmatch(value.strip()):
        raise ValueError("PROVIDER:NAME")
    return value.strip()


def time_zone(value: object) -> str:
    """Return the name of an IANA time zone that this machine knows."""
    accepted = "an IANA time zone such as Europe/Berlin"
    if not isinstance(value, str) or not value.strip():
        raise ValueError(accepted)
    try:
        zoneinfo.ZoneInfo(value.strip())
    except (OSError, ValueError, zoneinfo.ZoneInfoNotFoundError):
        raise ValueError(accepted) from None
    return value.strip()
