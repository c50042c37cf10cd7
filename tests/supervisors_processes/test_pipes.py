"""Frames and channels, without processes: any split of the bytes, any garbage, any moment of cancellation."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from supervisors.channel import (
    Ask,
    ChannelClosedError,
    ChannelError,
    Ready,
    Refused,
    Reply,
    Stop,
    root_end,
    worker_end,
)
from supervisors.fork_pipe import ForkPipe
from supervisors.fork_protocol import Descriptors, Exited, Forked, FromLauncher
from supervisors.frames import FRAME_LIMIT, FrameBuffer, FrameError, encode_frame


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


@given(bodies=st.lists(st.binary(max_size=40)), cuts=st.lists(st.integers(0, 200)))
def test_frames_come_out_whole_however_they_were_split(bodies, cuts):
    stream = b"".join(encode_frame(body) for body in bodies)
    buffer = FrameBuffer()
    found = []
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    for start, end in itertools.pairwise(edges):
        buffer.feed(stream[start:end])
        while (body := buffer.next()) is not None:
            found.append(body)
    assert found == bodies
    assert buffer.cut() == ""


def test_frame_limit_holds_on_both_sides():
    assert FrameBuffer().next() is None
    buffer = FrameBuffer()
    buffer.feed(encode_frame(b"x" * FRAME_LIMIT))
    body = buffer.next()
    assert body is not None
    assert len(body) == FRAME_LIMIT
    with pytest.raises(FrameError, match="over the limit"):
        encode_frame(b"x" * (FRAME_LIMIT + 1))
    buffer.feed((FRAME_LIMIT + 1).to_bytes(4, "big"))
    with pytest.raises(FrameError, match="over the limit"):
        buffer.next()


async def test_messages_go_both_ways_in_order(pair):
    root, worker = root_end(pair[0]), worker_end(pair[1])
    await root.send(Ask(id=1, payload=b"what"))
    await root.send(Stop())
    assert await worker.receive() == Ask(id=1, payload=b"what")
    assert await worker.receive() == Stop()
    for message in (Ready(), Reply(id=1, payload=b"that"), Refused(id=2, reason="no")):
        await worker.send(message)
        assert await root.receive() == message


async def test_end_of_the_stream_is_told_apart_from_garbage(pair):
    root = root_end(pair[0])
    pair[1].sendall(encode_frame(msgspec.msgpack.encode(Ready()))[:3])
    pair[1].close()
    with pytest.raises(ChannelClosedError, match="closed the channel, 3 bytes into a frame"):
        await root.receive()


async def test_send_to_a_peer_that_is_gone(pair):
    root = root_end(pair[0])
    pair[1].close()
    with pytest.raises(ChannelClosedError):
        await root.send(Stop())


async def test_closed_end_neither_sends_nor_receives(pair):
    root = root_end(pair[0])
    root.close()
    with pytest.raises(ChannelClosedError):
        await root.send(Stop())
    with pytest.raises(ChannelClosedError):
        await root.receive()


@given(data=st.binary(max_size=200))
async def test_any_bytes_are_messages_or_a_channel_error(data):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        root = root_end(ours)
        theirs.sendall(data)
        theirs.close()
        with pytest.raises(ChannelError):
            await receive_all(root)


async def receive_all(root) -> None:
    while True:
        assert isinstance(await root.receive(), Ready | Reply | Refused)


@given(
    body=st.recursive(
        st.none() | st.integers(-9, 9) | st.text(max_size=3), lambda x: st.dictionaries(st.text(max_size=3), x)
    )
)
async def test_any_well_formed_value_is_a_message_or_a_channel_error(body):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        root = root_end(ours)
        theirs.sendall(encode_frame(msgspec.msgpack.encode(body)))
        with pytest.raises(ChannelError, match="no message"):
            await root.receive()


async def test_deeply_nested_garbage_is_a_channel_error(pair):
    root = root_end(pair[0])
    pair[1].sendall(encode_frame(b"\x91" * 200_000))
    with pytest.raises(ChannelError, match="no message"):
        await root.receive()


async def test_oversized_message_is_refused_before_a_byte_is_sent(pair):
    root, worker = root_end(pair[0]), worker_end(pair[1])
    with pytest.raises(ChannelError, match="over the limit"):
        await root.send(Ask(id=1, payload=b"x" * FRAME_LIMIT))
    await root.send(Stop())
    assert await worker.receive() == Stop()


async def test_cancelled_receive_loses_nothing(pair):
    root = root_end(pair[0])
    frame = encode_frame(msgspec.msgpack.encode(Reply(id=7, payload=b"x")))
    for byte in frame[:-1]:
        pair[1].sendall(bytes([byte]))
        with trio.move_on_after(0.001):
            await root.receive()
    pair[1].sendall(frame[-1:])
    assert await root.receive() == Reply(id=7, payload=b"x")


async def test_send_cancelled_before_its_first_byte_does_no_harm(pair):
    root, worker = root_end(pair[0]), worker_end(pair[1])
    with trio.CancelScope() as scope:
        scope.cancel()
        await root.send(Stop())
    await root.send(Ask(id=1, payload=b""))
    assert await worker.receive() == Ask(id=1, payload=b"")


async def test_send_cancelled_while_it_waits_for_room_does_no_harm(pair):
    root = root_end(pair[0])
    filled = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            filled += pair[0].send(b"x" * 65536)
    with trio.move_on_after(0.1) as scope:
        await root.send(Ask(id=1, payload=b"lost"))
    assert scope.cancelled_caught
    while filled:
        filled -= len(pair[1].recv(filled))
    await root.send(Stop())
    assert await worker_end(pair[1]).receive() == Stop()


async def test_send_cancelled_halfway_ends_the_use_of_the_channel(pair):
    root = root_end(pair[0])
    with trio.move_on_after(0.1) as scope:
        await root.send(Ask(id=1, payload=b"x" * 900_000))
    assert scope.cancelled_caught
    with pytest.raises(ChannelError, match="an earlier message was cut"):
        await root.send(Stop())


async def test_senders_take_turns(pair):
    root, worker = root_end(pair[0]), worker_end(pair[1])
    async with trio.open_nursery() as nursery:
        for number in range(1, 21):
            nursery.start_soon(root.send, Ask(id=number, payload=bytes([number]) * 100_000))
        found = []
        for _ in range(20):
            message = await worker.receive()
            assert isinstance(message, Ask)
            assert message.payload == bytes([message.id]) * 100_000
            found.append(message.id)
    assert sorted(found) == list(range(1, 21))


def test_launcher_never_waits_for_root_and_loses_nothing(pair):
    pipe = ForkPipe(pair[0])
    pidfds = 0
    for number in range(3000):
        with_pidfd = number % 100 == 0
        pidfds += with_pidfd
        pipe.tell(Forked(id=number, pid=number, has_pidfd=with_pidfd), os.dup(0) if with_pidfd else None)
    assert pipe.queued > 0
    buffer, descriptors = FrameBuffer(), Descriptors()
    found: list[int] = []
    while len(found) < 3000:
        data, ancillary, flags, _ = pair[1].recvmsg(65536, Descriptors.SPACE)
        descriptors.feed(ancillary, flags)
        buffer.feed(data)
        while (body := buffer.next()) is not None:
            message: FromLauncher = msgspec.msgpack.decode(body, type=FromLauncher)
            assert isinstance(message, Forked)
            for fd in descriptors.take(int(message.has_pidfd)) or ():
                os.close(fd)
                pidfds -= 1
            found.append(message.id)
        pipe.flush()
    assert found == list(range(3000))
    assert pidfds == 0
    assert pipe.receive() == []
    pipe.close()


def test_launcher_drops_what_a_root_that_is_gone_cannot_read(pair):
    pipe = ForkPipe(pair[0])
    pair[1].close()
    reader, writer = os.pipe()
    pipe.tell(Forked(id=1, pid=1, has_pidfd=True), writer)
    pipe.tell(Exited(id=1, status=0))
    assert pipe.queued == 0
    assert os.read(reader, 1) == b""
    os.close(reader)
    assert pipe.receive() is None
    pipe.close()


def test_closing_the_fork_pipe_closes_what_waits_in_it(pair):
    pipe = ForkPipe(pair[0])
    while not pipe.queued:
        pipe.tell(Exited(id=1, status=0))
    reader, writer = os.pipe()
    pipe.tell(Forked(id=1, pid=1, has_pidfd=True), writer)
    pipe.close()
    assert os.read(reader, 1) == b""
    os.close(reader)
