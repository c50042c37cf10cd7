"""Runs the real program, `python -m volcanic.supervisor`, in a folder of its own and looks at it from outside."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.service.script import SCRIPT
from tests.service.wire import Endpoint, JsonRpcCaller, RestCaller

ROOT = Path(__file__).resolve().parents[2]
SERVICE_MARK = "VOLCANIC_TEST_SERVICE"
READY = re.compile(r"volcanic ready (http://([^/\s]+):(\d+))")
START_SECONDS = 30.0
STOP_SECONDS = 20.0
CALLERS = ("alice", "bob")

Node = dict[str, Any]
T = TypeVar("T")


def free_port() -> int:
    """Return a TCP port of the loopback interface on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def eventually(check: Callable[[], T], seconds: float, what: str) -> T:
    """Return the first true value of `check`; fail when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (value := check()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)
    return value


class Service:
    """One service over its own folder: workspace, state, temporary files, script, output. `stop` checks what is left."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        workspaces: Sequence[str] = ("ws",),
        script: dict[str, Any] | None = SCRIPT,
        environment: dict[str, str] | None = None,
        edges: int = 1,
        workers: int = 2,
        callers: Sequence[str] = CALLERS,
    ):
        self.folder = folder
        self.state = folder / "s"
        self.scratch = folder / "t"
        self.out = folder / "out.txt"
        self.log = folder / "log.txt"
        self.mark = uuid.uuid4().hex
        self.port = free_port()
        self.keys: dict[str, str] = {}
        self.workspaces = [folder / name for name in workspaces]
        self.process: subprocess.Popen[bytes] | None = None
        self.scratch.mkdir(parents=True)
        self.arguments = [str(each) for place in self.workspaces for each in ("--workspace", place)]
        self.arguments += ["--port", str(self.port), "--edges", str(edges), "--workers", str(workers), *arguments]
        if script is not None:
            (folder / "script.json").write_text(json.dumps(script))
            self.arguments += ["--faux-script", str(folder / "script.json")]
        inherited = {name: value for name, value in os.environ.items() if not _configures(name)}
        self.environment = inherited | {
            "PYTHONPATH": str(ROOT),
            "VOLCANIC_STATE": str(self.state),
            "TMPDIR": str(self.scratch),
            "HOME": str(folder),
            SERVICE_MARK: self.mark,
            **(environment or {}),
        }
        for name in callers:
            self.admit(name)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exc: object) -> None:
        self.kill()

    @property
    def workspace(self) -> Path:
        """The first workspace."""
        return self.workspaces[0]

    @property
    def a2a(self) -> Path:
        """The first workspace's A2A folder."""
        return self.workspace / ".volcanic" / "a2a"

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens."""
        return Endpoint("127.0.0.1", self.port)

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}"

    def admit(self, name: str, key: str | None = None, workspace: Path | None = None) -> str:
        """Add a caller to a workspace's callers.json and return its key."""
        path = (workspace or self.workspace) / ".volcanic" / "a2a" / "callers.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        entries = json.loads(path.read_text()) if path.exists() else []
        self.keys[name] = key or f"k_{name}_{secrets.token_hex(16)}"
        path.write_text(json.dumps([*entries, {"name": name, "key": self.keys[name], "mode": "isolated"}]))
        return self.keys[name]

    def rpc(self, name: str = "alice") -> JsonRpcCaller:
        """Return a caller on the JSON-RPC binding."""
        return JsonRpcCaller(self.endpoint, self.keys[name])

    def rest(self, name: str = "alice") -> RestCaller:
        """Return a caller on the REST binding."""
        return RestCaller(self.endpoint, self.keys[name])

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the program without waiting for it."""
        assert self.process is None or self.process.poll() is not None, "already running"
        with self.out.open("wb") as out, self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "volcanic.supervisor", *self.arguments],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                start_new_session=True,
            )
        return self.process

    def start(self) -> Self:
        """Start the program and wait for its ready line."""
        process = self.launch()
        deadline = time.monotonic() + START_SECONDS
        while (ready := READY.search(self.out.read_text())) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                ended = f"exit status {process.poll()}"
                self.kill()
                raise AssertionError(f"not ready ({ended})\nstdout: {self.out.read_text()}\nstderr: {self.tail()}")
            time.sleep(0.01)
        assert ready[2] == "127.0.0.1", ready[0]
        self.port = int(ready[3])
        return self

    def run(self, seconds: float = START_SECONDS) -> tuple[int, str, str]:
        """Run a program that is expected to end by itself; return its status, stdout and stderr."""
        process = self.launch()
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {seconds} s\n{self.out.read_text()}\n{self.tail()}") from None
        return status, self.out.read_text(), self.log.read_text()

    def tail(self, lines: int = 30) -> str:
        """Return the end of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def stop(self, how: signal.Signals = signal.SIGTERM, seconds: float = STOP_SECONDS) -> None:
        """Stop it gracefully and check that it ended well and left nothing."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            running = self.census()
            self.kill()
            raise AssertionError(f"still running {seconds} s after {how.name}: {running}\n{self.tail()}") from None
        assert status == 0, f"exit status {status}\n{self.tail()}"
        self.assert_nothing_left()

    def kill(self) -> None:
        """End whatever of it is left, without a check."""
        deadline = time.monotonic() + 5
        while (left := self.census()) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self.process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(0.05)

    def census(self) -> dict[int, str]:
        """Return every process of this service, whoever its parent is, and every unreaped one beneath the launcher."""
        mark = f"{SERVICE_MARK}={self.mark}".encode()
        found, parents = {}, {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                name, state, parent = _stat(entry)
                parents[int(entry.name)] = int(parent)
                if state != "Z" and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = name
        own = set(found) - ({self.process.pid} if self.process and self.process.poll() is not None else set())
        zombies = {pid: "zombie" for pid, parent in parents.items() if parent in own and pid not in found}
        return found | zombies

    def assert_nothing_left(self, seconds: float = 1.0, *, orderly: bool = True) -> None:
        """Check that no process, port or temporary file of a stopped service is left; after an orderly stop no socket."""
        eventually(lambda: not self.census(), seconds, f"every process is gone: {self.census()}")
        assert self.port_is_free(), "the port is still taken"
        assert list(self.scratch.iterdir()) == [], "temporary files are left"
        sockets = [path for path in self.state.rglob("*") if path.is_socket()]
        assert not orderly or sockets == [], "sockets are left"
        odd = [path.name for path in self.task_files() if not re.fullmatch(r"[0-9a-f-]{36}(\.push)?\.json", path.name)]
        assert odd == [], "half-written task files are left"

    def port_is_free(self) -> bool:
        """Return whether the port can be bound again, as a new start would."""
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", self.port))
                return True
        return False

    def assert_no_key_shown(self) -> None:
        """Check that neither the output nor any command line has a key in it."""
        text = self.out.read_bytes() + self.log.read_bytes()
        for pid in self.census():
            with contextlib.suppress(OSError):
                text += Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/comm").read_bytes()
        shown = [name for name, key in self.keys.items() if key.encode() in text]
        assert shown == [], "keys are shown"

    def task_files(self) -> list[Path]:
        """Return the files of the first workspace's task folder."""
        folder = self.a2a / "tasks"
        return list(folder.iterdir()) if folder.is_dir() else []

    def record(self, task_id: str) -> Node:
        """Return what the task's file holds."""
        value: Node = json.loads((self.a2a / "tasks" / f"{task_id}.json").read_bytes())
        return value

    def transcript(self, caller: str, context: str) -> list[Node]:
        """Return the entries of a session's transcript, over all its files."""
        folder = self.workspace / ".volcanic" / "sessions" / f"folder-a2a-{caller}_{context}"
        return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]

    def admin(self, path: str) -> tuple[int, bytes]:
        """Ask the admin socket."""
        with contextlib.closing(_UnixConnection(self.state / "admin.sock")) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()

    def tree(self) -> Node:
        """Return the supervision tree."""
        status, body = self.admin("/admin/tree")
        assert status == http.HTTPStatus.OK, body
        value: Node = json.loads(body)
        return value

    def nodes(self, pattern: str) -> list[Node]:
        """Return the nodes of the tree whose whole id matches."""
        return [node for node in walk(self.tree()) if re.fullmatch(pattern, node["id"])]

    def pids(self, pattern: str) -> list[int]:
        """Return the process ids of the matching nodes, all of which must be processes."""
        found = [node["pid"] for node in self.nodes(pattern)]
        assert found, f"no {pattern} in the tree"
        assert all(isinstance(pid, int) and pid in self.census() for pid in found), found
        return found

    def is_ready(self) -> bool:
        """Return whether every slot serves."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.endpoint.request("GET", "/readyz").status == http.HTTPStatus.OK
        return False


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path):
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def walk(node: Node) -> Iterator[Node]:
    """Yield a node of the tree and all beneath it."""
    yield node
    for child in node.get("children") or []:
        yield from walk(child)


def _configures(name: str) -> bool:
    """Return whether an environment variable would configure the program or where it keeps things."""
    return name.upper().startswith(("A2A", "VOLCANIC_", "TELEGRAM", "XDG_", "PYTHON")) and name != "VOLCANIC_TEST_RUN"


def _stat(entry: Path) -> tuple[str, str, str]:
    """Return name, state and parent of a process."""
    before, _, after = (entry / "stat").read_text().rpartition(")")
    state, parent = after.split()[:2]
    return before.partition("(")[2], state, parent
