"""Timestamps as they are shown and stored: RFC 3339, UTC, milliseconds, `Z` (spec §5.6.1).

In this form text order is time order, which the task listing relies on.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_FORM: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}):([0-9]{2})(?:\.([0-9]{1,40}))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))",
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = "9999-12-31T23:59:59.999Z"
_LEAP_SECOND: Final = 60
_HOUR: Final = 60


def format_ms(unix_seconds: float) -> str:
    """Return the instant, rounded down to its millisecond.

    Raises:
        ValueError: The instant is not a number or outside the years 1 to 9999.
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=unix_seconds * 1000 // 1)
    except OverflowError as error:
        raise ValueError("outside the years 1 to 9999") from error
    return _shown(moment)


def parse(text: str, *, round_up: bool = False) -> str:
    """Return an RFC 3339 timestamp in the one form: other offsets are converted, finer digits dropped.

    A leap second counts as the second after it. `round_up` takes the next millisecond instead when finer digits would
    be dropped: a lower bound stays a lower bound.

    Raises:
        ValueError: Not an RFC 3339 timestamp, or outside the years 1 to 9999.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError("not an RFC 3339 timestamp")
    date, clock, second, fraction, sign, hours, minutes = match.groups(default="")
    leap = int(second) == _LEAP_SECOND
    moment = datetime.fromisoformat(f"{date}T{clock}:{'59' if leap else second}+00:00")
    digits = fraction.ljust(3, "0")
    shift = timedelta(seconds=leap, milliseconds=int(digits[:3]))
    if sign:
        shift += _offset(sign, int(hours), int(minutes))
    try:
        moment += shift
        if round_up and digits[3:].strip("0"):
            moment += timedelta(milliseconds=1)
    except OverflowError as error:
        raise ValueError("outside the years 1 to 9999") from error
    return _shown(moment)


def _offset(sign: str, hours: int, minutes: int) -> timedelta:
    if minutes >= _HOUR:
        raise ValueError("not an RFC 3339 timestamp")
    away = timedelta(hours=hours, minutes=minutes)
    return away if sign == "-" else -away


def _shown(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
