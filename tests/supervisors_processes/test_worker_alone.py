"""A worker without a root of ours: what it does when the other end of its channel misbehaves."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import msgspec
import pytest
import trio

from supervisors.channel import Ask, Ready, Refused, Reply, RootEnd, Stop, root_end
from supervisors.frames import encode_frame
from supervisors.heartbeat import HeartbeatMemory
from supervisors.process_child import Envelope
from tests.supervisors_processes.conftest import ROOM

PROGRAM = """
import sys, trio
from supervisors.worker_process import WorkerBoot, run_worker

async def main(context):
    async def answer(payload):
        await trio.sleep(float(payload))
        return str(context.incarnation).encode() + context.payload
    if context.payload != b"deaf":
        context.answer = answer
    context.ready()
    context.ready()
    await context.stopping.wait()
    if context.payload == b"slow":
        await trio.sleep(60)
    if context.payload == b"at once":
        context.exit_now(9)
    if context.payload == b"group":
        raise ExceptionGroup("two", [ValueError(1), KeyError(2)])

sys.exit(run_worker(WorkerBoot("role", "lone", bytes.fromhex(sys.argv[1]), tuple(map(int, sys.argv[2:]))), main))
"""


class Lone:
    def __init__(self, payload: bytes) -> None:
        self.socket, theirs = socket.socketpair()
        self.memory = HeartbeatMemory("lone")
        descriptors = [theirs.fileno(), self.memory.fd]
        envelope = msgspec.msgpack.encode(Envelope(3, payload)).hex()
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, envelope, *map(str, descriptors)],
            cwd=ROOM,
            pass_fds=descriptors,
            stderr=subprocess.PIPE,
            text=True,
        )
        theirs.close()
        self.channel: RootEnd = root_end(self.socket)

    def end(self) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=10)
        return self.process.returncode, errors

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.channel.close()
        self.memory.close()


@pytest.fixture
async def lone(request):
    worker = Lone(getattr(request, "param", b"!"))
    yield worker
    worker.close()


async def ended(worker: Lone) -> tuple[int, str]:
    return await trio.to_thread.run_sync(worker.end)


async def test_ready_is_said_once_asks_are_answered_and_stop_ends_it(lone):
    with trio.fail_after(10):
        assert await lone.channel.receive() == Ready()
        await lone.channel.send(Ask(id=1, payload=b"0"))
        assert await lone.channel.receive() == Reply(id=1, payload=b"3!")
        await lone.channel.send(Stop())
        assert await ended(lone) == (0, "")
    assert lone.memory.count() > 0


@pytest.mark.parametrize("lone", [b"slow"], indirect=True)
async def test_second_stop_ends_it_at_once(lone):
    with trio.fail_after(10):
        await lone.channel.receive()
        await lone.channel.send(Stop())
        await trio.sleep(0.3)
        assert lone.process.poll() is None
        await lone.channel.send(Stop())
        assert await ended(lone) == (1, "")


@pytest.mark.parametrize("garbage", ["", "ffffffff", encode_frame(msgspec.msgpack.encode(Ready())).hex()])
async def test_without_root_or_with_one_that_talks_nonsense_it_leaves_at_once(lone, garbage):
    with trio.fail_after(10):
        await lone.channel.receive()
        if garbage:
            os.write(lone.socket.fileno(), bytes.fromhex(garbage))
        else:
            lone.socket.shutdown(socket.SHUT_RDWR)
        assert await ended(lone) == (75, "")


async def test_answer_to_a_root_that_is_gone_ends_it(lone):
    with trio.fail_after(10):
        await lone.channel.receive()
        await lone.channel.send(Ask(id=1, payload=b"0.2"))
        lone.socket.shutdown(socket.SHUT_RD)
        assert await ended(lone) == (75, "")


async def test_asks_beyond_its_bound_are_refused_at_once(lone):
    with trio.fail_after(10):
        await lone.channel.receive()
        for number in range(1, 31):
            await lone.channel.send(Ask(id=number, payload=b"0.01"))
        found = [await lone.channel.receive() for _ in range(30)]
    refused = [message for message in found if message == Refused(id=getattr(message, "id", 0), reason="busy")]
    assert 30 - 17 <= len(refused) < 30
    assert len([message for message in found if isinstance(message, Reply)]) == 30 - len(refused)


@pytest.mark.parametrize("lone", [b"deaf"], indirect=True)
async def test_without_an_answerer_every_ask_is_refused(lone):
    with trio.fail_after(10):
        await lone.channel.receive()
        await lone.channel.send(Ask(id=1, payload=b"0"))
        assert await lone.channel.receive() == Refused(id=1, reason="this worker answers nothing")


@pytest.mark.parametrize("lone", [b"group"], indirect=True)
async def test_main_that_raises_a_group_is_told_whole(lone):
    with trio.fail_after(10):
        await lone.channel.receive()
        await lone.channel.send(Stop())
        status, errors = await ended(lone)
    assert status == 1
    assert errors.startswith("launcher: lone ended by an exception\n")
    assert "ValueError: 1" in errors
    assert "KeyError: 2" in errors


@pytest.mark.parametrize("lone", [b"at once"], indirect=True)
async def test_main_may_end_the_process_at_once(lone):
    with trio.fail_after(10):
        await lone.channel.receive()
        await lone.channel.send(Stop())
        assert await ended(lone) == (9, "")
