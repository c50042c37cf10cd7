from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from tests.protocol.strategies import JSON
from volcanic.protocol import hops


def metadata(spelled):
    return Raw(f'{{"other":1,"volcanic.hops":{spelled}}}'.encode())


@pytest.mark.parametrize(
    ("spelled", "count"),
    [
        ("0", 0),
        ("3", 3),
        ("3.0", 3),
        ("2.1", 3),
        ("1e0", 1),
        ("-4", 0),
        ("-0.0", 0),
        ("1e999", hops.HOPS_MAX),
        ("-1e999", 0),
        ("9" * 400, hops.HOPS_MAX),
        ("2147483648", hops.HOPS_MAX),
        ('"7"', 7),
        ('" 7 "', 7),
        ('"inf"', hops.HOPS_MAX),
        ('"\\u0037"', 7),
    ],
)
def test_a_number_counts_however_it_is_spelled(spelled, count):
    assert hops.read(metadata(spelled), UNSET) == count
    assert hops.read(UNSET, metadata(spelled)) == count


@pytest.mark.parametrize("spelled", ["null", "true", "[]", "{}", '""', '"many"', '"nan"', "[3]"])
def test_what_is_no_number_is_passed_over(spelled):
    assert hops.read(metadata(spelled), UNSET) == 0
    assert hops.read(metadata(spelled), metadata("5")) == 5


def test_the_requests_own_metadata_comes_first():
    assert hops.read(metadata("1"), metadata("5")) == 1
    assert hops.read(metadata("0"), metadata("5")) == 0
    assert hops.read(Raw(b'{"a":1}'), metadata("5")) == 5
    assert hops.read(UNSET, UNSET) == 0


def test_an_escaped_name_is_the_same_name():
    assert hops.read(Raw(b'{"volcanic\\u002ehops":9}'), UNSET) == 9


@pytest.mark.parametrize("text", [b"[]", b"5", b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b"{"])
def test_metadata_that_cannot_be_read_holds_no_count(text):
    assert hops.read(Raw(text), metadata("5")) == 5


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])) | st.just(hops.KEY), JSON))
def test_any_metadata_gives_a_count_in_range(value):
    assert 0 <= hops.read(Raw(json.dumps(value).encode()), UNSET) <= hops.HOPS_MAX
