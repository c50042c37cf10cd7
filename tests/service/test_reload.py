"""SIGHUP replaces every worker, one after the other, and no caller is the wiser."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from tests.service.a2a import answer
from tests.service.harness import eventually, walk

WORKERS = ("edge-0", "edge-1", "agents-0", "agents-1")


def _pids(service):
    return {node["id"]: node["pid"] for node in walk(service.tree()) if node["id"] in WORKERS}


def test_a_rolling_restart_answers_every_call(make_service):
    service = make_service(edges=2, workers=2, environment={"VOLCANIC_SHUTDOWN_SECONDS": "5s"}).start()
    alice = service.rpc()
    before = _pids(service)
    running = alice.send("steady: through it", immediately=True)
    answers, failures, over = [], [], threading.Event()

    def call(number):
        while not over.is_set():
            try:
                answers.append(answer(alice.send(f"hi {number}")))
            except Exception as error:  # noqa: BLE001 - every kind of failure is what this test is about
                failures.append(repr(error))
            time.sleep(0.02)

    with ThreadPoolExecutor(5) as threads:
        blocked = threads.submit(alice.send, "brief: blocked meanwhile")
        for number in range(4):
            threads.submit(call, number)
        time.sleep(0.2)
        service.process.send_signal(signal.SIGHUP)
        try:
            eventually(lambda: not set(_pids(service).values()) & set(before.values()), 40, "every worker replaced")
            eventually(service.is_ready, 10, "ready")
            time.sleep(0.3)
        finally:
            over.set()
        assert answer(blocked.result(20)) == "done: brief: blocked meanwhile"
    assert failures == []
    assert len(answers) > 20
    assert answer(alice.get(running["id"])) == "done: steady: through it"
    service.stop()
