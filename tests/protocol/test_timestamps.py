from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanic.protocol import timestamps


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1796117400.123, "2026-12-01T09:30:00.123Z"),
        (1796117400.9999, "2026-12-01T09:30:00.999Z"),
        (-0.001, "1969-12-31T23:59:59.999Z"),
        (253402300799.999, "9999-12-31T23:59:59.999Z"),
        (-62135596800, "0001-01-01T00:00:00.000Z"),
    ],
)
def test_an_instant_is_shown_in_milliseconds(seconds, shown):
    assert timestamps.format_ms(seconds) == shown


@pytest.mark.parametrize("seconds", [253402300800, -62135596801, 1e300, float("inf"), float("-inf"), float("nan")])
def test_an_instant_outside_the_calendar_is_refused(seconds):
    with pytest.raises(ValueError):  # noqa: PT011 - the class is the contract
        timestamps.format_ms(seconds)


@given(st.floats(0, 2**35), st.floats(0, 2**35))
def test_text_order_is_time_order(one, other):
    early, late = sorted((one, other))
    assert timestamps.format_ms(early) <= timestamps.format_ms(late)


@given(st.floats(0, 2**35))
def test_what_is_shown_is_read_back_unchanged(seconds):
    shown = timestamps.format_ms(seconds)
    assert timestamps.parse(shown) == timestamps.parse(shown, round_up=True) == shown


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)), st.integers(-14 * 60, 14 * 60))  # noqa: DTZ001
def test_another_offset_is_the_same_instant(moment, minutes):
    local = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    expected = local.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    assert timestamps.parse(local.isoformat()) == expected


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2023-10-27T10:00:00Z", "2023-10-27T10:00:00.000Z"),
        ("2023-10-27t10:00:00z", "2023-10-27T10:00:00.000Z"),
        ("2023-10-27T10:00:00.1Z", "2023-10-27T10:00:00.100Z"),
        ("2023-10-27T10:00:00.1239999999999Z", "2023-10-27T10:00:00.123Z"),
        ("2023-10-27T10:00:00+02:00", "2023-10-27T08:00:00.000Z"),
        ("2023-10-27T10:00:00-00:30", "2023-10-27T10:30:00.000Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z"),
        ("2016-12-31T23:59:60.5Z", "2017-01-01T00:00:00.500Z"),
        ("9999-12-31T23:59:59.9999Z", "9999-12-31T23:59:59.999Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
    ],
)
def test_other_spellings_become_the_one_form(text, shown):
    assert timestamps.parse(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2023-10-27T10:00:00.1230000Z", "2023-10-27T10:00:00.123Z"),
        ("2023-10-27T10:00:00.1230001Z", "2023-10-27T10:00:00.124Z"),
        ("2023-12-31T23:59:59.9991Z", "2024-01-01T00:00:00.000Z"),
    ],
)
def test_a_lower_bound_is_rounded_up(text, shown):
    assert timestamps.parse(text, round_up=True) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2023-10-27",
        "2023-10-27T10:00:00",
        "2023-10-27 10:00:00Z",
        "2023-10-27T10:00:00Z\n",
        "2023-10-27T10:00Z",
        "20231027T100000Z",
        "2023-W43-5T10:00:00Z",
        "2023-02-29T00:00:00Z",
        "2023-13-01T00:00:00Z",
        "2023-10-27T24:00:00Z",
        "2023-10-27T10:60:00Z",
        "2023-10-27T10:00:61Z",
        "2023-10-27T10:00:00.Z",
        "2023-10-27T10:00:00,5Z",
        "2023-10-27T10:00:00+02",
        "2023-10-27T10:00:00+02:60",
        "2023-10-27T10:00:00." + "1" * 41 + "Z",
        "10000-01-01T00:00:00Z",
        "+10000-01-01T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:60Z",
        "9999-12-31T23:59:59-01:00",
        "0001-01-01T00:00:00+00:01",
        "٢٠٢٣-10-27T10:00:00Z",
        "1700000000",
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - the class is the contract
        timestamps.parse(text)


def test_a_lower_bound_beyond_the_calendar_is_refused():
    with pytest.raises(ValueError, match="years 1 to 9999"):
        timestamps.parse("9999-12-31T23:59:59.9999Z", round_up=True)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        timestamps.parse(text)
    except ValueError:
        return
