"""A small service on the real launcher, for tests to drive: `python -m tests.supervisors_processes.service CONTROL_FD`.

Root reads commands, one JSON list a line, from the control socket and answers each with one JSON line; what happens by
itself is told as lines `{"event": ...}`. Workers do what an ask tells them to.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import trio

from supervisors import launcher
from supervisors.fork_client import ForkClient, ForkError
from supervisors.forked_child import exit_now
from supervisors.heartbeat import HeartbeatMonitor
from supervisors.intensity import Intensity
from supervisors.process_child import ProcessChild, WorkerUnavailableError
from supervisors.signals import rolling_restart, run_until_signal
from supervisors.strategy import Strategy
from supervisors.supervisor import Supervisor
from supervisors.worker_process import run_worker

WORKERS = 2


def open_files() -> dict[str, str]:
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the listing's own
            found[entry.name] = str(entry.readlink())
    return found


def block(seconds: float) -> None:
    time.sleep(seconds)


def spawn() -> None:
    subprocess.Popen(["sleep", "60"], start_new_session=True, close_fds=False)


class Worker:
    def __init__(self, context):
        self.context = context
        self.ignores_stop = False
        self.crash = trio.Event()
        context.answer = self.answer

    async def answer(self, payload: bytes) -> bytes:
        word, _, rest = payload.decode().partition(" ")
        self.context.label(f"took up {word}")
        if word == "block":
            block(float(rest))
        elif word == "sleep":
            await trio.sleep(float(rest))
        elif word == "exit":
            os._exit(int(rest))
        elif word == "crash":
            self.crash.set()
        elif word == "ignore_stop":
            self.ignores_stop = True
        elif word == "garbage":
            os.write(CHANNEL[0], bytes.fromhex(rest))
        elif word == "cut":
            os.write(CHANNEL[0], bytes.fromhex(rest))
            os._exit(5)
        elif word == "close":
            os.close(CHANNEL[0])
            block(60)
        elif word == "fail":
            raise ValueError(rest)
        elif word == "spawn":
            spawn()
        elif word == "thread":
            threading.Thread(target=time.sleep, args=(30,)).start()
        return json.dumps(self.facts()).encode()

    def facts(self) -> dict:
        return {
            "pid": os.getpid(),
            "parent": os.getppid(),
            "session": os.getsid(0),
            "incarnation": self.context.incarnation,
            "payload": self.context.payload.decode(),
            "descriptors": self.context.descriptors,
            "files": open_files(),
            "channel": CHANNEL[0],
            "random": random.random(),
            "sigterm_ignored": signal.getsignal(signal.SIGTERM) == signal.SIG_IGN,
            "comm": Path("/proc/self/comm").read_text().strip(),
        }

    async def run(self) -> None:
        self.context.ready()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.crash_when_told)
            await self.context.stopping.wait()
            if self.ignores_stop:
                await trio.sleep_forever()
            nursery.cancel_scope.cancel()

    async def crash_when_told(self) -> None:
        await self.crash.wait()
        raise RuntimeError("told to crash")


async def serve(context) -> None:
    await Worker(context).run()


CHANNEL: list[int] = []
"""Where this worker's channel is, for those that write nonsense into it."""


def worker(boot) -> int:
    CHANNEL.append(boot.descriptors[0])
    return run_worker(boot, serve)


def broken(boot) -> int:
    raise ImportError("this role cannot start")


async def never_ready(context) -> None:
    await context.stopping.wait()


class Root:
    def __init__(self, boot, control: socket.socket, options: dict) -> None:
        self.options = options
        self.control = trio.SocketStream(trio.socket.from_stdlib_socket(control))
        self.forks = ForkClient(boot.forks)
        self.monitor = HeartbeatMonitor(silence_seconds=options.get("silence", 10.0))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.children = [self.child(f"w-{number}") for number in range(WORKERS)]
        self.events_in, self.events_out = trio.open_memory_channel(1000)

    def child(self, name: str) -> ProcessChild:
        return ProcessChild(
            self.forks,
            self.monitor,
            role=self.options.get("role", "worker"),
            name=name,
            payload=f"for {name}".encode(),
            descriptors=[self.listener.fileno()],
            start_seconds=self.options.get("start", 10.0),
            drain_seconds=self.options.get("drain", 5.0),
            on_state=lambda child: self.event(child.name, state=child.state.name, pid=child.pid),
        )

    def event(self, event: str, **more) -> None:
        self.events_in.send_nowait({"event": event, **more})

    def on_event(self, event) -> None:
        if event.exit is not None:
            self.event("exit", child=event.child, text=str(event.exit))

    async def run(self) -> int:
        supervisor = Supervisor(
            "root",
            [child.spec() for child in self.children],
            Strategy.ONE_FOR_ONE,
            Intensity(5, 60.0),
            on_event=self.on_event,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(self.forks.run)
            await nursery.start(self.monitor.run)
            nursery.start_soon(self.tell_events)
            nursery.start_soon(self.obey)
            self.event("root", pid=os.getpid(), launcher=os.getppid(), port=self.listener.getsockname()[1])
            status = await run_until_signal(
                supervisor.run,
                drain_seconds=self.options.get("root_drain", 30.0),
                on_stop=lambda name: self.event("stopping", signal=name),
                on_reload=self.reload,
            )
            nursery.cancel_scope.cancel()
        return self.options.get("status", status)

    async def reload(self) -> None:
        trouble = await rolling_restart(self.children, 10.0)
        self.event("reloaded", trouble=trouble)

    async def tell_events(self) -> None:
        async for event in self.events_out:
            await self.control.send_all(json.dumps(event).encode() + b"\n")

    async def obey(self) -> None:
        buffer = b""
        async with trio.open_nursery() as nursery:
            async for data in self.control:
                *lines, buffer = (buffer + data).split(b"\n")
                for line in lines:
                    nursery.start_soon(self.do, *json.loads(line))
        exit_now(99)  # the test is gone

    async def do(self, number: int, command: str, *args) -> None:
        try:
            result = await getattr(self, f"do_{command}")(*args)
        except (WorkerUnavailableError, ForkError) as error:
            result = {"error": str(error)}
        self.events_in.send_nowait({"answer": number, "result": result})

    async def do_ask(self, index: int, payload: str, seconds: float = 5.0):
        return json.loads(await self.children[index].ask(payload.encode(), seconds))

    async def do_pids(self):
        return [child.pid for child in self.children]

    async def do_fork(self, role: str, payload: str, descriptors: int = 0):
        child = await self.forks.fork(role, "extra", payload.encode(), [self.listener.fileno()] * descriptors)
        has_pidfd = child.pidfd is not None
        child.kill()
        status = await child.wait()
        return {"pid": child.pid, "status": status.status, "text": str(status), "pidfd": has_pidfd}

    async def do_fork_many(self, count: int, size: int):
        done = 0

        async def one() -> None:
            nonlocal done
            await self.do_fork("hold", "x" * size, 1)
            done += 1

        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(one)
        return done

    async def do_hold_many(self, count: int):
        for _ in range(count):
            await self.forks.fork("hold", "extra", b"")

    async def do_fork_cancelled(self, seconds: float):
        with trio.move_on_after(seconds) as scope:
            await self.forks.fork("hold", "unwanted", b"")
        return scope.cancelled_caught

    async def do_files(self):
        return open_files()

    async def do_block(self, seconds: float):
        block(seconds)

    async def do_garbage_to_launcher(self, data: str):
        os.write(self.forks._socket.fileno(), bytes.fromhex(data))

    async def do_close_forks(self):
        os.close(self.forks._socket.fileno())
        block(60)


def hold(boot) -> int:
    signal.pause()
    return 0


ROLES = {
    "worker": worker,
    "broken": broken,
    "never_ready": lambda boot: run_worker(boot, never_ready),
    "hold": hold,
    "ends": lambda _boot: sys.exit("gone"),
    "ends_well": lambda _boot: sys.exit(),
}


def fail_forks(names: list[str]) -> None:
    """Have the kernel, as far as the launcher can tell, run out of processes for these children."""
    fork = vars(launcher)["fork_child"]

    def fail(birth) -> int:
        if birth.name in names:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return fork(birth)

    vars(launcher)["fork_child"] = fail


def main() -> int:
    control, options = socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2])
    if options.get("no_pidfd"):
        vars(launcher)["open_pidfd"] = lambda _pid: None
    if options.get("forks_fail"):
        fail_forks(options["forks_fail"])
    if options.get("root_ends") is not None:
        return launcher.launch(lambda _boot: options["root_ends"], ROLES)
    if options.get("root_raises"):
        return launcher.launch(broken, ROLES)
    return launcher.launch(
        lambda boot: trio.run(Root(boot, control, options).run), ROLES, preload=["json"], keep=[control.fileno()]
    )


if __name__ == "__main__":
    sys.exit(main())
