"""Frames on a stream: any split gives the same frames, what is none ends the connection, and both ways are bounded."""

from __future__ import annotations

import contextlib
import itertools

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from actors import frames
from actors.frames import FrameError, FrameReader, FrameTooLong, Outbox, OutboxFull
from actors.messages import (
    Answer,
    Ask,
    CancelTask,
    Credit,
    End,
    Event,
    FromEdge,
    FromSlot,
    GetTask,
    Hello,
    Leave,
    Refusal,
    Subscribe,
)

_from_edge = msgspec.json.Decoder(FromEdge)
_from_slot = msgspec.json.Decoder(FromSlot)
_encode = msgspec.json.encode

text = st.text(max_size=30)
number = st.integers(0, 2**53)
json_value = st.recursive(
    st.none() | st.booleans() | number | text, lambda inner: st.lists(inner, max_size=3), max_leaves=5
)
edge_frames = st.one_of(
    st.builds(
        Ask,
        id=number,
        seconds=st.floats(0, 1e6),
        call=st.one_of(
            st.builds(GetTask, workspace=text, caller=text, task_id=text, history_length=st.none() | number),
            st.builds(CancelTask, workspace=text, caller=text, task_id=text),
            st.builds(Subscribe, workspace=text, caller=text, task_id=text, last_event_id=st.none() | number),
        ),
    ),
    st.builds(Leave, id=number),
    st.builds(Credit, id=number, bytes=number),
)
raw = json_value.map(_encode).map(Raw)
slot_frames = st.one_of(
    st.builds(Hello, slot=text, boot=text, incarnation=number),
    st.builds(Answer, id=number, result=raw),
    st.builds(Refusal, id=number, kind=text, message=text, field=text),
    st.builds(Event, id=number, version=number, payload=raw),
    st.builds(End, id=number, reason=text),
)


class Pieces(trio.abc.ReceiveStream):
    """A stream that gives these pieces, then its end."""

    def __init__(self, pieces):
        self._pieces = [piece for piece in pieces if piece]

    async def receive_some(self, max_bytes=None):  # noqa: ARG002
        await trio.lowlevel.checkpoint()
        return self._pieces.pop(0) if self._pieces else b""

    async def aclose(self):
        await trio.lowlevel.checkpoint()


def framed(*bodies):
    return b"".join(len(body).to_bytes(4) + body for body in bodies)


def cut(data, cuts):
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


async def read_all(pieces, decoder=_from_edge):
    reader = FrameReader(Pieces(pieces), decoder)
    got = []
    while batch := await reader.receive():
        got += batch
    return got


@given(st.lists(edge_frames, max_size=6), st.lists(st.integers(0, 4000), max_size=12))
async def test_any_split_of_the_bytes_gives_the_same_frames_from_an_edge(sent, cuts):
    data = framed(*map(_encode, sent))
    assert await read_all(cut(data, cuts)) == sent


@given(st.lists(slot_frames, max_size=6), st.lists(st.integers(0, 4000), max_size=12))
async def test_any_split_of_the_bytes_gives_the_same_frames_from_a_slot(sent, cuts):
    data = framed(*map(_encode, sent))
    got = await read_all(cut(data, cuts), _from_slot)
    assert [_encode(frame) for frame in got] == [_encode(frame) for frame in sent]


async def test_one_byte_at_a_time_is_as_good_as_all_at_once():
    sent = [Leave(id=7), Credit(id=8, bytes=9)]
    data = framed(*map(_encode, sent))
    assert await read_all([data[at : at + 1] for at in range(len(data))]) == sent


@given(st.lists(edge_frames, min_size=1, max_size=3), st.data())
async def test_an_end_inside_a_frame_is_an_error_and_no_shorter_stream(sent, data):
    whole = framed(*map(_encode, sent))
    last = len(whole) - len(_encode(sent[-1])) - 4
    end = data.draw(st.integers(last + 1, len(whole) - 1))
    with pytest.raises(FrameError):
        await read_all([whole[:end]])


@given(st.binary(max_size=80))
async def test_garbage_is_a_frame_error_or_waits_for_more_and_nothing_else(garbage):
    with contextlib.suppress(FrameError):
        await read_all([garbage])
    with pytest.raises(FrameError):
        await read_all([framed(b"\xff" + garbage)])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"t":"leave"}',
        b'{"t":"nothing","id":1}',
        b'{"t":"leave","id":"x"}',
        b'{"t":"leave","id":1}x',
        b'{"t":"ask","id":1,"seconds":1,"call":{"t":"get","workspace":"\xff","caller":"","taskId":""}}',
        b'{"t":"ask","id":1,"seconds":1,"call":{"t":"get","workspace":"\xed\xa0\x80","caller":"","taskId":""}}',
        b'{"t":"leave","id":1,"more":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
async def test_a_frame_that_is_none_ends_the_connection_cleanly(body):
    with pytest.raises(FrameError):
        await read_all([framed(body)])


async def test_an_oversized_frame_is_refused_by_its_length_before_it_is_read(monkeypatch):
    monkeypatch.setattr(frames, "FRAME_LIMIT", 100)
    with pytest.raises(FrameError, match="101"):
        await read_all([(101).to_bytes(4)])
    padded = _encode(Leave(id=1)).ljust(100)
    assert await read_all([framed(padded)]) == [Leave(id=1)]


# -- outbox


async def test_what_is_put_comes_out_in_order_however_it_is_batched():
    outbox = Outbox()
    near, far = trio.testing.memory_stream_pair()
    sent = [Leave(id=number) for number in range(50)]
    reader = FrameReader(far, _from_edge)
    got = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.run, near)
        for frame in sent:
            outbox.put(frame)
            if frame.id % 7 == 0:
                await trio.lowlevel.checkpoint()
        while len(got) < len(sent):
            got += await reader.receive()
        nursery.cancel_scope.cancel()
    assert got == sent


async def test_a_frame_that_the_peer_would_refuse_is_refused_here_and_costs_nothing_else(monkeypatch):
    outbox = Outbox()
    monkeypatch.setattr(frames, "FRAME_LIMIT", 60)
    outbox.put(Leave(id=1))
    with pytest.raises(FrameTooLong):
        outbox.put(Hello(slot="x" * 60, boot="", incarnation=1))
    outbox.put(Leave(id=2))
    near, far = trio.testing.memory_stream_pair()
    await outbox.flush(near, 1)
    await near.aclose()
    reader = FrameReader(far, _from_edge)
    assert await reader.receive() == [Leave(id=1), Leave(id=2)]


async def test_an_outbox_over_its_bound_ends_its_connection_although_the_peer_never_reads(monkeypatch):
    monkeypatch.setattr(frames, "OUTBOX_LIMIT", 1000)
    outbox = Outbox()
    near, _far = trio.testing.lockstep_stream_pair()  # sending waits for the reader
    with trio.fail_after(5), pytest.RaisesGroup(OutboxFull):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.run, near)
            outbox.put(Leave(id=0))
            await trio.testing.wait_all_tasks_blocked()
            for number in range(200):
                outbox.put(Leave(id=number))
            assert outbox._size < 2000
            await trio.sleep_forever()


async def test_an_outbox_within_its_bound_goes_on_when_the_peer_reads_again(monkeypatch):
    monkeypatch.setattr(frames, "OUTBOX_LIMIT", 1000)
    outbox = Outbox()
    near, far = trio.testing.lockstep_stream_pair()
    reader = FrameReader(far, _from_edge)
    got = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.run, near)
        for number in range(30):
            outbox.put(Leave(id=number))
        await trio.testing.wait_all_tasks_blocked()
        while len(got) < 30:
            got += await reader.receive()
        nursery.cancel_scope.cancel()
    assert [frame.id for frame in got] == list(range(30))


async def test_last_words_go_out_through_a_cancellation_but_not_for_ever(autojump_clock):
    outbox = Outbox()
    outbox.put(Leave(id=1))
    near, far = trio.testing.memory_stream_pair()
    with trio.CancelScope() as scope:
        scope.cancel()
        await outbox.flush(near, 2)
    assert await FrameReader(far, _from_edge).receive() == [Leave(id=1)]
    deaf, _ = trio.testing.lockstep_stream_pair()
    outbox.put(Leave(id=2))
    began = trio.current_time()
    await outbox.flush(deaf, 2)
    assert trio.current_time() - began == pytest.approx(2)


async def test_last_words_do_not_follow_half_a_frame():
    outbox = Outbox()
    near, far = trio.testing.lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.run, near)
        outbox.put(Hello(slot="x" * 100, boot="", incarnation=1))
        await trio.testing.wait_all_tasks_blocked()
        await far.receive_some(20)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    outbox.put(Leave(id=1))
    await outbox.flush(near, 1)
    await near.aclose()
    assert b"leave" not in await far.receive_some()
