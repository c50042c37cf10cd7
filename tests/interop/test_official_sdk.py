"""The official SDK's client, in a process of its own, against the running service on both bindings."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.service.harness import Service

CLIENT = Path(__file__).with_name("sdk_client.py")
BINDINGS = ("JSONRPC", "HTTP+JSON")
SCENARIOS = (
    "card", "extended_card", "send_blocking", "send_immediate", "direct_reply", "stream", "subscribe", "subscribe_to_finished",
    "get", "list_paging", "cancel", "continuation", "artifacts", "parts_in", "wrong_media_type", "push_is_not_supported",
    "wrong_key", "strict_schema",
)  # fmt: skip

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("a2a") is None,
        reason="needs the official SDK: pip install 'a2a-sdk[http-server]==1.3.0' (part of the test extra)",
    ),
    pytest.mark.timeout(150),
]


@pytest.fixture(scope="module")
def outcomes():
    """Run every scenario once on each binding; return failures by (binding, scenario)."""
    with tempfile.TemporaryDirectory(prefix="sdk-") as folder, Service(Path(folder) / "svc") as service:
        found = {}
        for binding in BINDINGS:
            run = subprocess.run(
                [sys.executable, str(CLIENT), service.url, service.keys["alice"], binding, *SCENARIOS],
                capture_output=True,
                text=True,
                check=False,
                timeout=50,
            )
            for line in run.stdout.splitlines():
                value = json.loads(line)
                found[binding, value["scenario"]] = value["failure"]
            found[binding, ""] = run.stderr
        service.stop()
    return found


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_official_client_is_served(outcomes, binding, scenario):
    assert (binding, scenario) in outcomes, outcomes[binding, ""]
    failure = outcomes[binding, scenario]
    assert failure is None, failure
