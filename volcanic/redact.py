"""Keep keys out of whatever a person, a model or a log may see.

Readers of files that hold keys register them here (`KEYS.register`); the log processor and the exception helpers then
replace them wherever they turn up. A key of fewer than eight characters is replaced only where it stands alone: a key
`k` must not turn every word with a `k` into noise.
"""

from __future__ import annotations

import contextlib
import json
import re
import traceback
from collections.abc import Iterable, MutableMapping
from typing import Any, final
from urllib.parse import quote, quote_plus

MASK = "[redacted]"
_FULL_MATCH_BELOW = 8
_LAST_FOUR_FROM = 12
_REMEMBERED = 10_000


def last_four(key: str) -> str:
    """Return the last four characters of a key, or nothing for a key under 12 characters (seed: a2a.md#security)."""
    return key[-4:] if len(key) >= _LAST_FOUR_FROM else ""


def _spellings(key: str) -> list[str]:
    """Return the forms in which a key may turn up: plain, JSON-escaped, Python-escaped, percent-encoded."""
    forms = {key, json.dumps(key)[1:-1], repr(key)[1:-1]}
    with contextlib.suppress(UnicodeEncodeError):  # a lone surrogate has no percent-encoded form
        forms.update((quote(key, safe=""), quote_plus(key, safe="")))
    return sorted(forms, key=len, reverse=True)


def _alone(form: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(form)}(?!\w)")


def scrub(text: str, keys: Iterable[str]) -> str:
    """Return `text` with every one of `keys` replaced, longest first; empty keys are ignored."""
    forms = {form for key in keys if key for form in _spellings(key)}
    for form in sorted(forms, key=len, reverse=True):
        if form in text:
            text = text.replace(form, MASK) if len(form) >= _FULL_MATCH_BELOW else _alone(form).sub(MASK, text)
    return text


@final
class Keyring:
    """The keys this process has read, so that none of them leaves it by accident.

    Holds at most 10,000; the longest unseen goes first. A key that was replaced in its file stays known: a request that
    still carries it may be logged.
    """

    def __init__(self) -> None:
        """Start with no keys."""
        self._keys: dict[str, None] = {}
        self._long: list[str] = []
        self._short: list[re.Pattern[str]] = []

    def register(self, keys: Iterable[str]) -> None:
        """Remember these keys; costs next to nothing when all are known."""
        new = [key for key in keys if key and key not in self._keys]
        if not new:
            return
        for key in new:
            self._keys[key] = None
        for key in list(self._keys)[: max(0, len(self._keys) - _REMEMBERED)]:
            del self._keys[key]
        forms = sorted({form for key in self._keys for form in _spellings(key)}, key=len, reverse=True)
        self._long = [form for form in forms if len(form) >= _FULL_MATCH_BELOW]
        self._short = [_alone(form) for form in forms if len(form) < _FULL_MATCH_BELOW]

    def scrub(self, text: str) -> str:
        """Return `text` without any registered key."""
        for form in self._long:
            if form in text:
                text = text.replace(form, MASK)
        for pattern in self._short:
            text = pattern.sub(MASK, text)
        return text


KEYS = Keyring()
"""The process's own keyring; every reader of a file with keys registers them here."""


def scrub_exception(error: BaseException, keys: Iterable[str] = ()) -> str:
    """Return `TypeName: text` of an exception on one line, without registered keys nor the given ones."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    return KEYS.scrub(scrub(f"{name}: {text}" if text else name, keys))


def scrub_traceback(error: BaseException, keys: Iterable[str] = ()) -> str:
    """Return the whole traceback of an exception, causes included, without registered keys nor the given ones."""
    return KEYS.scrub(scrub("".join(traceback.format_exception(error)), keys))


def _clean(value: object) -> object:
    if isinstance(value, str):
        return KEYS.scrub(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, dict):
        return {_clean(name): _clean(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(member) for member in value]
    shown = repr(value)
    cleaned = KEYS.scrub(shown)
    return value if cleaned == shown else cleaned


def scrub_event(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Structlog processor: scrub every value of an event.

    It goes last before the renderer, after the processors that format exceptions. An object whose `repr` holds a key
    is replaced by its scrubbed `repr`.
    """
    for name, value in event.items():
        event[name] = _clean(value)
    return event
