from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from volcanic.protocol import sse
from volcanic.protocol.sse import Decoder, Event, StreamError


def read(chunks, limit=sse.EVENT_BYTES):
    decoder = Decoder(limit)
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    decoder.close()
    return events


def bytewise(stream):
    return [stream[at : at + 1] for at in range(len(stream))]


LF_STREAM = (
    ":hi\n\n"
    'id: 7\nevent: task\ndata: {"a":\ndata:\u2028"é"}\n\n'
    "data\n\n"
    ": ping\n\n"
    "data:  two blanks\nunknown: x\nretry: 1500\n\n"
    "id\ndata: c\n\n"
    "event: none\n\n"
).encode()
EVENTS = [
    Event('{"a":\n\u2028"é"}'.encode(), "task", "7"),
    Event(b"", "message", "7"),
    Event(b" two blanks", "message", "7"),
    Event(b"c", "message", ""),
]


@given(st.data())
@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_any_split_of_any_line_ending_gives_the_same_events(end, bom, data):
    stream = bom + LF_STREAM.replace(b"\n", end)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))))
    chunks = [stream[begin:stop] for begin, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(chunks) == EVENTS
    assert read(bytewise(stream)) == EVENTS


def test_mixed_line_endings_are_told_apart():
    assert read([b"data: a\r", b"\ndata: b\r", b"\r\n", b"data: c\n\r\n"]) == [Event(b"a\nb"), Event(b"c")]
    assert read([b"data: a\r", b"", b"\n", b"\n"]) == [Event(b"a")]


def test_an_event_comes_as_soon_as_its_blank_line_does():
    decoder = Decoder()
    assert decoder.feed(b"data: a\r") == []
    assert decoder.feed(b"\r") == [Event(b"a")]
    assert decoder.feed(b"\n") == []
    decoder.close()


def test_a_byte_order_mark_counts_only_at_the_start():
    assert read([b"data: a\n\n\xef\xbb\xbfdata: b\n\n"]) == [Event(b"a")]


@pytest.mark.parametrize(
    "cut",
    [b"data: a", b"data: a\n", b"da", b"id: 5\n", b"event: x\n", b"data: a\n\ndata: b\r", b"\xef\xbb"],
)
def test_a_stream_that_ends_inside_an_event_says_so(cut):
    with pytest.raises(StreamError, match="inside an event"):
        read([cut])


@pytest.mark.parametrize("whole", [b"", b"\n", b": pi", b":\n", b"data: a\n\n", b"data: a\r\r", b"retry: 5\n"])
def test_a_stream_that_ends_between_events_is_whole(whole):
    read([whole])


def test_the_last_id_outlives_its_event_and_an_unfinished_event_does_not_move_it():
    decoder = Decoder()
    decoder.feed(b"id: 1\ndata: a\n\nid: 2\n\nid: 3\ndata: b\n")
    assert decoder.last_event_id == "2"
    decoder.feed(b"id: 4\0\n\n")
    assert decoder.last_event_id == "3"


@pytest.mark.parametrize(
    ("text", "retry"), [("1500", 1500), ("", None), ("-1", None), ("1.5", None), ("9" * 5000, None)]
)
def test_the_retry_delay_is_digits_only(text, retry):
    decoder = Decoder()
    decoder.feed(f"retry: {text}\n".encode())
    assert decoder.retry == retry


def test_text_that_is_no_utf8_does_not_end_the_stream():
    assert read([b"event: \xff\nid: \xff\ndata: \xff\n\n"]) == [Event(b"\xff", "\ufffd", "\ufffd")]


def test_an_event_over_the_limit_is_refused_in_any_form():
    for stream in (b"data: " + b"x" * 100, b"data: x\n" * 20, b"x" * 101, b":" * 101, b"event: " + b"x" * 100 + b"\n"):
        with pytest.raises(StreamError, match="longer than 100 bytes"):
            read([stream], limit=100)
        with pytest.raises(StreamError, match="longer than 100 bytes"):
            read(bytewise(stream), limit=100)


def test_an_event_at_the_limit_is_taken():
    assert read([b"data: " + b"x" * 94 + b"\n\n"], limit=100) == [Event(b"x" * 94)]
    assert sse.EVENT_BYTES == 64 << 20


def test_the_limit_is_for_one_event_not_for_the_stream():
    stream = (b": comment\nunknown: x\n" + b"data: " + b"x" * 50 + b"\n\n") * 100
    assert len(read([stream], limit=100)) == 100
    assert read([b": ping\n" * 1000], limit=100) == []


@given(
    st.lists(
        st.tuples(
            st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)),
            st.none() | st.integers(0, 2**31).map(str),
        ),
        max_size=5,
    ),
    st.sampled_from([None, 1]),
    st.integers(1, 7),
)
@example([("\u2028\u2029\x85", "1")], 1, 1)
def test_what_is_encoded_is_decoded(sent, indent, size):
    documents = [json.dumps(value, indent=indent, ensure_ascii=False).encode("utf-8", "replace") for value, _ in sent]
    stream = b"".join(
        sse.KEEPALIVE + sse.encode_event(document, event_id)
        for document, (_, event_id) in zip(documents, sent, strict=True)
    )
    events = read([stream[at : at + size] for at in range(0, len(stream), size)])
    assert [json.loads(event.data) for event in events] == [json.loads(document) for document in documents]
    last = ""
    for event, (_, event_id) in zip(events, sent, strict=True):
        last = event_id or last
        assert event.id == last


def test_an_event_is_one_data_line_whatever_white_space_its_json_has():
    assert sse.encode_event(b'{\r\n"a":\n1}') == b'data: {  "a": 1}\n\n'
    assert sse.encode_event(b"{}", "12") == b"id: 12\ndata: {}\n\n"


def test_a_keepalive_is_no_event():
    assert read([sse.KEEPALIVE * 3]) == []


@given(st.lists(st.binary(max_size=20), max_size=10))
def test_any_bytes_are_read(chunks):
    decoder = Decoder()
    whole = Decoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    assert events == whole.feed(b"".join(chunks))
