import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanic.config import DEFAULT_INPUT_MODES
from volcanic.protocol import ids, timestamps
from volcanic.protocol.errors import A2AError, ErrorKind
from volcanic.server import paging
from volcanic.server.media_types import MediaTypes


@given(st.floats(0, 4e9), st.integers(0, 255), st.binary(min_size=16, max_size=16))
def test_a_token_holds_its_key(when, shard, random):
    key = timestamps.format_ms(when), ids.mint_task_id(shard, random)
    token = paging.encode(*key)
    assert paging.decode(token) == key
    assert token.isascii()
    assert "=" not in token


@given(st.one_of(st.text(max_size=200), st.text("ABCDEFabcdef0123456789-_=", max_size=200)))
def test_anything_else_is_refused_cleanly(token):
    with pytest.raises(A2AError) as refusal:
        paging.decode(token)
    assert (refusal.value.kind, refusal.value.field) == (ErrorKind.INVALID_PARAMS, "pageToken")


@pytest.mark.parametrize(
    "change", [lambda t: t[:-1], lambda t: t + "A", lambda t: t + "=", lambda t: t.swapcase(), lambda t: " " + t]
)
def test_a_token_that_was_changed_is_refused(change):
    token = paging.encode("2026-12-01T09:30:00.000Z", ids.mint_task_id(1, bytes(16)))
    with pytest.raises(A2AError):
        paging.decode(change(token))


@pytest.mark.parametrize("timestamp", ["2026-12-01T09:30:00Z", "2026-12-01T10:30:00.000+01:00", "", "2026", "z"])
def test_a_key_in_another_form_is_refused(timestamp):
    with pytest.raises(A2AError):
        paging.decode(paging.encode(timestamp, ids.mint_task_id(1, bytes(16))))


@given(st.text(max_size=60))
def test_no_text_breaks_the_matching(text):
    assert MediaTypes(DEFAULT_INPUT_MODES).accept(text) in (True, False)


def test_no_modes_take_nothing():
    assert not MediaTypes(()).accept("text/plain")
    assert MediaTypes(("text/*",)).accept("TEXT/x; a=b")
    assert not MediaTypes(("text/*",)).accept("textual/x")
    assert not MediaTypes(("text/plain",)).accept("text/*x")
