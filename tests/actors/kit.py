"""A slot in this process, the edge's end of its Owner API, and a wire between them that can be cut anywhere."""

from __future__ import annotations

import itertools
import json
import random
import secrets
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

from actors.asking import Ground, OwnerSettings, Workspace
from actors.contexts import Contexts
from actors.messages import CancelTask, End, Event, GetTask, Hello, ListTasks, Send, Subscribe
from actors.owner import SlotOwners
from actors.owner_server import serve_owner
from actors.slot_link import SlotLink
from supervisors.dynamic import DynamicSupervisor
from supervisors.listener import open_unix_listener
from volcanic.agent.models.faux import echo_model, scripted_model
from volcanic.clock import SYSTEM
from volcanic.hosts.folder import FolderAssistant
from volcanic.protocol.errors import A2AError, ErrorKind
from volcanic.protocol.ids import mint_context_id, mint_task_id, shard_of
from volcanic.protocol.types import Message, Part, Role
from volcanic.storage.disk import Disk, FileSystem, open_disk
from volcanic.storage.layout import WorkspaceLayout
from volcanic.storage.live import LiveLog
from volcanic.storage.tasks import RunStamp, TaskFiles

CALLER = "alice"
_numbers = itertools.count(1)


async def until(check: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait until `check` holds."""
    with trio.fail_after(seconds):
        while not check():  # noqa: ASYNC110 - what is waited for has no event of its own
            await trio.sleep(0.005)


class Slot:
    """One slot's folder and socket, through several incarnations."""

    def __init__(self, folder: Path, script: dict[str, Any] | None = None, **settings: Any) -> None:
        self.layout = WorkspaceLayout(str(folder / "ws"))
        folder.mkdir(exist_ok=True)
        self.layout.create()
        self.path = str(folder / f"s{next(_numbers)}.sock")
        self.live_path = str(folder / "live")
        self.listener = open_unix_listener(self.path)
        self.listener.setblocking(False)
        self.files = TaskFiles(self.layout)
        self.incarnation = 0
        self.contexts: Contexts
        self.disk: Disk
        self.fs: FileSystem | None = None
        """What the next incarnation writes to, when not to the real file system."""
        self.before_stop: Callable[[], None] = lambda: None
        """Lets go of whatever would hold up a stop, above all when a test fails."""
        self.also: Slot | None = None
        """Another slot whose workspace this one serves as well."""
        self.owns: Callable[[str], bool] = lambda _task_id: True
        self._script = script
        self._settings = OwnerSettings(**settings)

    @asynccontextmanager
    async def alive(self) -> AsyncIterator[Contexts]:
        """One incarnation; leaving it stops it as a slot is stopped without patience."""
        self.incarnation += 1
        async with open_disk(self.fs) as disk, trio.open_nursery() as nursery:
            self.disk = disk
            model = echo_model() if self._script is None else scripted_model(json.dumps(self._script).encode())
            ground = Ground(
                stamp=RunStamp(boot="boot", slot="agents-0", incarnation=self.incarnation),
                disk=disk,
                live=LiveLog(self.live_path),
                clock=SYSTEM,
                settings=self._settings,
                workspaces={
                    slot.layout.root: Workspace(
                        path=slot.layout.root,
                        tasks=slot.files,
                        assistant=FolderAssistant(slot.layout, model, disk, SYSTEM, "UTC"),
                    )
                    for slot in (self, self.also)
                    if slot is not None
                },
            )
            sessions = DynamicSupervisor("contexts")
            self.contexts = Contexts(ground, sessions.start_child, self.owns)
            await nursery.start(sessions.run)
            await self.contexts.settle_predecessor()
            hello = Hello(slot="agents-0", boot="boot", incarnation=self.incarnation)
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(self.listener.dup()))
            await nursery.start(
                serve_owner, listener, self.contexts, hello, ground.settings.stream_buffer_bytes, lambda _label: None
            )
            try:
                yield self.contexts
            finally:
                self.before_stop()
            nursery.cancel_scope.cancel()

    def snapshot(self) -> dict[Path, bytes]:
        """Return what a process that was killed now would leave."""
        files = [Path(self.live_path), *Path(self.layout.tasks).iterdir()]
        return {path: path.read_bytes() for path in files}

    def admit(self, name: str, key: str) -> None:
        """Write the workspace's callers.json with one caller."""
        Path(self.layout.callers).write_text(json.dumps([{"name": name, "key": key}]))

    def record(self, task_id: str) -> dict[str, Any]:
        """Return a task file."""
        return json.loads(Path(self.layout.task(task_id)).read_text())


@asynccontextmanager
async def edge(*paths: str, files: TaskFiles | None = None, stopping: bool = False) -> AsyncIterator[SlotOwners]:
    """The edge's end: linked to the slots (or wires) at these paths."""
    links = [SlotLink(f"agents-{number}", path) for number, path in enumerate(paths)]
    async with trio.open_nursery() as nursery:
        for link in links:
            link.stopping = stopping

            await nursery.start(link.run)
        yield SlotOwners(links, {} if files is None else {files.layout.root: files})
        nursery.cancel_scope.cancel()


def send(slot: Slot, text: str, *, context_id: str = "", task_id: str = "", **more: Any) -> Send:
    """Return a send as an edge makes it."""
    new = not task_id
    if new:
        context_id = context_id or mint_context_id(secrets.token_bytes(16))
        task_id = mint_task_id(shard_of(CALLER, context_id), secrets.token_bytes(16))
    more.setdefault("caller", CALLER)
    message = Message(message_id=more.pop("message_id", "m"), role=Role.USER, parts=[Part(text=text)])
    return Send(
        op=uuid.uuid4().hex,
        workspace=slot.layout.root,
        new=new,
        task_id=task_id,
        context_id=context_id,
        message=message,
        **more,
    )


def get(slot: Slot, task_id: str, caller: str = CALLER) -> GetTask:
    """Return a read of a task."""
    return GetTask(workspace=slot.layout.root, caller=caller, task_id=task_id)


def cancel(slot: Slot, task_id: str, caller: str = CALLER) -> CancelTask:
    """Return a cancel."""
    return CancelTask(workspace=slot.layout.root, caller=caller, task_id=task_id)


def subscribe(slot: Slot, task_id: str, caller: str = CALLER) -> Subscribe:
    """Return a subscription."""
    return Subscribe(workspace=slot.layout.root, caller=caller, task_id=task_id)


def listing(slot: Slot, limit: int = 50, **more: Any) -> ListTasks:
    """Return a listing."""
    return ListTasks(workspace=slot.layout.root, caller=more.pop("caller", CALLER), limit=limit, **more)


def decoded(raw: msgspec.Raw) -> dict[str, Any]:
    """Return an answer as plain JSON."""
    return json.loads(bytes(raw))


def state(raw: msgspec.Raw) -> str:
    """Return the state in an answer, of a task or of a result that holds one."""
    answer = decoded(raw)
    return str(answer.get("task", answer)["status"]["state"]).removeprefix("TASK_STATE_")


class Later:
    """What a call came to: its answer, or its refusal."""

    def __init__(self, nursery: trio.Nursery, call: Callable[..., Awaitable[Any]], *args: Any) -> None:
        self.answer: Any = None
        self.error: A2AError | None = None
        self.scope = trio.CancelScope()
        self._done = trio.Event()
        nursery.start_soon(self._run, call, args)

    async def _run(self, call: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
        try:
            with self.scope:
                self.answer = await call(*args)
        except A2AError as error:
            self.error = error
        finally:
            self._done.set()

    @property
    def done(self) -> bool:
        """Whether it has come to anything."""
        return self._done.is_set()

    async def outcome(self, seconds: float = 5.0) -> Any:
        """Wait for the answer, or raise the refusal."""
        with trio.fail_after(seconds):
            await self._done.wait()
        if self.error is not None:
            raise self.error
        return self.answer


class Pace:
    """How long a run takes at present, on however busy a machine, so that a race with its end is one."""

    def __init__(self, first: float) -> None:
        self._mean = first

    def note(self, seconds: float) -> None:
        """Take the length of a run."""
        self._mean += (seconds - self._mean) / 4

    def moment(self, chance: random.Random) -> float:
        """Return a moment before, at or after the end of a run that begins now."""
        return chance.uniform(0.0, 1.5 * self._mean)


async def refused(call: Awaitable[Any]) -> ErrorKind:
    """Return why a call is refused; one that is answered fails the test."""
    try:
        with trio.fail_after(4):  # less than the calls' own deadlines: those would refuse what nobody answered
            answer = await call
    except A2AError as error:
        return error.kind
    raise AssertionError(f"answered: {answer}")


async def drained(stream: Any) -> tuple[list[dict[str, Any]], str]:
    """Return every event of a stream and the reason of its end."""
    events = []
    while isinstance(frame := await stream.receive(), Event):
        events.append({"version": frame.version} | json.loads(bytes(frame.payload)))
    assert isinstance(frame, End)
    return events, frame.reason


class Wire:
    """A Unix socket in front of a slot's that passes bytes on and can be cut after any number of them."""

    def __init__(self, folder: Path, target: str) -> None:
        self.path = str(folder / f"w{next(_numbers)}.sock")
        self._target = target
        self.cut_up: int | None = None
        """Cut the first connection after this many bytes from the edge to the slot."""
        self.cut_down: int | None = None
        """Cut it after this many bytes from the slot to the edge."""
        self.up = 0
        self.down = 0
        self.cuts = 0
        self.listener = open_unix_listener(self.path)
        self.listener.setblocking(False)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Pass bytes on for ever."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self.listener.dup()))
        task_status.started()
        await trio.serve_listeners(self._pass, [listener])

    async def _pass(self, near: trio.SocketStream) -> None:
        far = await trio.open_unix_socket(self._target)
        async with far:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._pump, near, far, "up", nursery)
                    nursery.start_soon(self._pump, far, near, "down", nursery)
            except* (trio.BrokenResourceError, trio.ClosedResourceError):
                pass

    async def _pump(
        self, source: trio.SocketStream, target: trio.SocketStream, way: str, nursery: trio.Nursery
    ) -> None:
        while data := await source.receive_some(65536):
            limit = getattr(self, f"cut_{way}")
            passed = getattr(self, way)
            if limit is not None and not self.cuts and passed + len(data) > limit:
                data = data[: limit - passed]
                self.cuts += 1
                if data:
                    await target.send_all(data)
                nursery.cancel_scope.cancel()
                return
            setattr(self, way, passed + len(data))
            await target.send_all(data)
        nursery.cancel_scope.cancel()
