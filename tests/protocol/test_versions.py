from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanic.protocol import versions
from volcanic.protocol.errors import A2AError, ErrorKind


@pytest.mark.parametrize(
    ("header", "query"),
    [
        (None, None),
        ("", ""),
        (" ", None),
        ("1.0", None),
        (" 1.0 ", None),
        ("1.0.7", None),
        ("1.0.0", "9.9"),
        (None, "1.0"),
        ("", "1.0.1"),
    ],
)
def test_no_version_and_the_served_one_are_accepted(header, query):
    versions.check(header, query)


@pytest.mark.parametrize(
    ("header", "query"),
    [
        ("99.0", None),
        ("9.9", "1.0"),
        ("0.3", None),
        ("1", None),
        ("1.1", None),
        ("2.0", None),
        ("1.0.x", None),
        ("1.0.", None),
        ("01.0", None),
        ("1.0.7.1", None),
        ("1.0, 1.0", None),
        ("v1.0", None),
        ("1.0\n2", None),
        ("\u0661.\u0660", None),
        (None, "99.0"),
        ("", "0.5"),
        ("9" * 5000, None),
    ],
)
def test_another_version_is_refused(header, query):
    with pytest.raises(A2AError) as caught:
        versions.check(header, query)
    assert caught.value.kind is ErrorKind.VERSION_NOT_SUPPORTED
    assert caught.value.message == "The A2A version is not supported; supported: 1.0"


@given(st.text())
def test_any_header_is_accepted_or_refused(header):
    try:
        versions.check(header, None)
    except A2AError as error:
        assert error.kind is ErrorKind.VERSION_NOT_SUPPORTED  # noqa: PT017 - acceptance is an outcome too
