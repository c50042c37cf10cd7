"""No key leaves by way of a log, an exception or a text."""

from __future__ import annotations

import io
import json
import logging
from urllib.parse import quote, quote_plus

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from volcanic import redact
from volcanic.redact import KEYS, MASK, Keyring, last_four, scrub, scrub_event, scrub_exception, scrub_traceback


def test_last_four_only_of_long_keys():
    assert last_four("k_3f9c2a1234") == "1234"
    assert last_four("k_3f9c2a123") == ""
    assert last_four("") == ""


def test_a_key_is_replaced_wherever_it_stands():
    assert scrub("key=abcdefgh1 and xabcdefgh1x", ["abcdefgh1"]) == f"key={MASK} and x{MASK}x"


def test_a_short_key_is_replaced_only_where_it_stands_alone():
    assert scrub("k kk 'k' key=k walk", ["k"]) == f"{MASK} kk '{MASK}' key={MASK} walk"


def test_the_longer_of_two_keys_goes_first():
    assert scrub("longer-key-123", ["longer-key", "longer-key-123"]) == MASK


def test_empty_keys_are_ignored():
    assert scrub("text", ["", "x" * 20]) == "text"


@pytest.mark.parametrize(
    "key", ['with "quotes" in', "back\\slash-key", "line\nbreak-key", "schlüssel-grün", "sp ace+plus/key="]
)
def test_a_key_is_found_in_the_forms_that_other_texts_give_it(key):
    for text in (
        key,
        json.dumps({"a": key}),
        repr([key]),
        f"https://x/?k={quote(key, safe='')}",
        quote_plus(key),
    ):
        assert MASK in scrub(text, [key])


@given(key=st.text(min_size=8, max_size=30), before=st.text(max_size=10), after=st.text(max_size=10))
def test_no_key_survives(key, before, after):
    cleaned = scrub(before + key + after, [key])
    assert key not in cleaned.replace(MASK, "\0") or key in MASK


def test_a_keyring_scrubs_what_it_knows_and_forgets_the_oldest(monkeypatch):
    monkeypatch.setattr(redact, "_REMEMBERED", 3)
    ring = Keyring()
    ring.register(["first-key-1", "", "k"])
    assert ring.scrub("first-key-1 k walk") == f"{MASK} {MASK} walk"
    ring.register(["second-key-2", "third-key-3"])
    assert ring.scrub("first-key-1 second-key-2 third-key-3 k") == f"first-key-1 {MASK} {MASK} {MASK}"
    ring.register(["k"])
    assert ring.scrub("k") == MASK


def _fail(text):
    raise ValueError(text)


def _failure():
    try:
        try:
            _fail("canary-registered")
        except ValueError as inner:
            raise KeyError("canary-given") from inner
    except KeyError as error:
        return error


def test_exceptions_are_shown_without_keys():
    KEYS.register(["canary-registered"])
    error = ValueError("bad canary-registered\nand canary-given")
    assert scrub_exception(error, ["canary-given"]) == f"ValueError: bad {MASK} and {MASK}"
    assert scrub_exception(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_a_traceback_is_scrubbed_with_its_causes():
    KEYS.register(["canary-registered"])
    text = scrub_traceback(_failure(), ["canary-given"])
    assert "Traceback" in text
    assert "KeyError" in text
    assert "raise KeyError" in text
    assert text.count("canary-registered") == text.count("canary-given") == 0


class _Holder:
    def __repr__(self):
        return "Holder(canary-registered)"


def test_every_value_of_an_event_is_scrubbed():
    KEYS.register(["canary-registered"])
    event = {
        "event": "a canary-registered",
        "nested": {"canary-registered": ["canary-registered", ("x", 1, None, True)]},
        "object": _Holder(),
        "error": ValueError("canary-registered"),
        "plain": 5,
        "bytes": b"canary-registered",
    }
    cleaned = scrub_event(None, "info", event)
    assert "canary-registered" not in str(cleaned)
    assert cleaned["event"] == f"a {MASK}"
    assert cleaned["nested"] == {MASK: [MASK, ["x", 1, None, True]]}
    assert cleaned["plain"] == 5
    kept = object()
    assert scrub_event(None, "info", {"object": kept})["object"] is kept


def test_a_log_line_with_an_exception_has_no_key():
    KEYS.register(["canary-registered"])
    out = io.StringIO()
    log = structlog.wrap_logger(
        structlog.PrintLogger(out),
        processors=[structlog.processors.format_exc_info, scrub_event, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    try:
        _fail("canary-registered")
    except ValueError:
        log.exception("failed", key="canary-registered", request={"headers": [("x-api-key", "canary-registered")]})
    assert "ValueError" in out.getvalue()
    assert "canary-registered" not in out.getvalue()
