"""The admin socket and the tree it shows."""

from __future__ import annotations

import json
import os
import socket

from tests.service.a2a import answer
from tests.service.harness import walk

MEMBERS = {"id", "kind", "pid", "state", "restarts", "incarnation", "mailbox", "children"}


def test_the_tree_shows_every_process_and_every_live_context(make_service):
    service = make_service(edges=1, workers=2).start()
    alice = service.rpc()
    for number in range(9):
        alice.send("hi", context=f"context-{number}")
    running = alice.send("long: in the tree", context="context-9", immediately=True)
    tree = service.tree()
    nodes = list(walk(tree))
    assert all(set(node) >= MEMBERS for node in nodes)
    assert tree["id"] == "root"
    processes = {node["id"]: node["pid"] for node in nodes if node["pid"]}
    assert set(processes) >= {"root", "edge-0", "agents-0", "agents-1"}
    assert len(set(processes.values())) == len(processes)
    assert set(processes.values()) <= set(service.census())
    contexts = [node for node in nodes if node["id"] == "contexts"]
    assert len(contexts) == 2
    sessions = [session for node in contexts for session in node["children"]]
    assert len(sessions) == 10
    assert len({session["id"] for session in sessions}) == 10
    for number in range(10):
        assert any(f"context-{number}" in session["id"] for session in sessions)
    idle = [session for session in sessions if not session["children"]]
    assert len(idle) == 9
    assert all(node["state"] == "running" for node in nodes if node not in idle), json.dumps(tree, indent=1)
    live = next(session for session in sessions if "context-9" in session["id"])
    assert any(running["id"] in node["id"] for node in walk(live)), "a session's run is its child"
    service.assert_no_key_shown()
    assert not any(key in json.dumps(tree) for key in service.keys.values())
    print(json.dumps(tree, indent=1))
    alice.call("CancelTask", {"id": running["id"]})


def test_the_admin_socket_is_its_owners_alone(service):
    path = service.state / "admin.sock"
    assert path.is_socket()
    assert path.stat().st_mode & 0o077 == 0
    assert service.state.stat().st_mode & 0o077 == 0
    assert path.stat().st_uid == os.getuid()


def test_the_admin_socket_answers_what_it_knows_and_survives_nonsense(service, rpc):
    assert service.admin("/healthz")[0] == 200
    assert service.admin("/readyz")[0] == 200
    assert service.admin("/nothing")[0] == 404
    before = service.pids("root")
    for noise in (b"\xff\xfe\r\n\r\n", b"GET", b"GET /admin/tree HTTP/9.9\r\n\r\n", b"A" * 100_000):
        with socket.socket(socket.AF_UNIX) as raw:
            raw.settimeout(10)
            raw.connect(str(service.state / "admin.sock"))
            try:
                raw.sendall(noise)
                raw.shutdown(1)
                raw.recv(65536)
            except OSError:
                continue
    assert service.pids("root") == before
    assert answer(rpc.send("still up")) == "still up"


def test_health_says_that_it_is_up_and_ready(service):
    for path in ("/healthz", "/readyz"):
        reply = service.endpoint.request("GET", path)
        assert reply.status == 200
        assert b"<" not in reply.body
