"""What each kind of setting accepts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanic.config import values


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("00:30:00", 1800),
        ("1.00:00:00", 86400),
        ("10.01:02:03.5", 10 * 86400 + 3723.5),
        ("0:0:1", 1),
        ("90s", 90),
        ("30m", 1800),
        ("1h", 3600),
        ("2d", 172800),
        ("250ms", 0.25),
        ("1.5h", 5400),
        ("60", 60),
        ("0.5", 0.5),
        (" 30m ", 1800),
        (5, 5),
        (2.5, 2.5),
        ("0", 0),
    ],
)
def test_durations(text, seconds):
    assert values.duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "", "abc", "-1", "-00:30:00", "1:2", "00:60:00", "24:00:00", "00:00:61", "1 h", "1h30m", "1e3", "nan", "inf", "\u0663\u0660s",
        "30M", "1..00:00:00", "99999d", "9999.00:00:00", True, None, -1, math.inf, math.nan, [30], 10**400,
    ],
)  # fmt: skip
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="duration"):
        values.duration(text)


def test_a_duration_above_zero():
    assert values.positive_duration("1ms") == 0.001
    with pytest.raises(ValueError, match="above zero"):
        values.positive_duration("0s")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, True) for text in ("true", "TRUE", "1", " yes ", "on", True)),
        *((text, False) for text in ("false", "0", "No", "off", False)),
    ],
)
def test_switches(text, value):
    assert values.switch(text) is value


@pytest.mark.parametrize("text", ["", "maybe", "2", 1, 0, None])
def test_what_is_no_switch(text):
    with pytest.raises(ValueError, match="true or false"):
        values.switch(text)


def test_whole_numbers():
    assert values.whole(0, 9, "5") == 5
    assert values.whole(0, 9, 9) == 9
    for odd in ("", "10", "-1", "1.0", "1_0", "\u0663", "0x1", 10, -1, 2.0, True, None, "9" * 5000):
        with pytest.raises(ValueError, match="a whole number from 0 to 9"):
            values.whole(0, 9, odd)


def test_text():
    assert values.text(" a b ") == "a b"
    for odd in ("", " ", "a\nb", "a\0", 5, None):
        with pytest.raises(ValueError, match="one line"):
            values.text(odd)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://a.example", "https://a.example"),
        ("https://a.example/base/", "https://a.example/base"),
        ("http://127.0.0.1:5099/", "http://127.0.0.1:5099"),
        ("https://[::1]:8443", "https://[::1]:8443"),
    ],
)
def test_base_urls(text, url):
    assert values.base_url(text) == url


@pytest.mark.parametrize(
    "text",
    [
        "", "a.example", "//a.example", "ftp://a.example", "https://", "https:///x", "https://u:p@a.example", "https://a.example?x",
        "https://a.example#f", "https://a.example:0", "https://a.example:99999", "https://a.example:x", "https://a b", "https://ä.example",
        "https://a.example\\@b", "https://[::1", 5, None,
    ],
)  # fmt: skip
def test_what_is_no_base_url(text):
    with pytest.raises(ValueError, match="an absolute http or https URL"):
        values.base_url(text)


def test_media_ranges():
    assert values.media_ranges("text/*, Application/PDF ,text/*") == ("text/*", "application/pdf")
    assert values.media_ranges(["*/*"]) == ("*/*",)
    for odd in ("", "text", "*/pdf", "text/", "text/plain;q=1", ",", [5], [], 5, {"a": 1}, "text/pl ain"):
        with pytest.raises(ValueError, match="media types"):
            values.media_ranges(odd)


def test_models():
    assert values.model("openai:gpt-5 ") == "openai:gpt-5"
    assert values.model("x:a/b:c") == "x:a/b:c"
    for odd in ("gpt", ":x", "x:", "a b:c", 5):
        with pytest.raises(ValueError, match="PROVIDER:NAME"):
            values.model(odd)


def test_time_zones():
    assert values.time_zone("Europe/Berlin") == "Europe/Berlin"
    for odd in ("", "Mars/Olympus", "../../etc/passwd", "/etc/passwd", "Europe", "a\0", 5):
        with pytest.raises(ValueError, match="time zone"):
            values.time_zone(odd)


def test_paths():
    assert values.paths("/a:b") == ("/a", "b")
    assert values.paths(["/a:b"]) == ("/a:b",)
    for odd in ("", ":", "a:", ["\0"], [5], [], 5):
        with pytest.raises(ValueError, match="folders"):
            values.paths(odd)


PARSERS = [
    values.duration, values.positive_duration, values.switch, values.text, values.base_url, values.media_ranges, values.model,
    values.time_zone, values.paths,
]  # fmt: skip


@given(
    value=st.text()
    | st.integers()
    | st.floats()
    | st.none()
    | st.lists(st.text())
    | st.dictionaries(st.text(), st.text())
)
@pytest.mark.parametrize("parser", PARSERS)
def test_anything_is_accepted_or_refused_in_words(parser, value):
    refusal = ""
    try:
        parser(value)
    except ValueError as error:
        refusal = str(error)
    assert "\n" not in refusal
