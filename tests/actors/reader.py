"""A reader of one stream: what it knows of a task after each event, and what no stream may ever do to it."""

from __future__ import annotations

import json
from typing import Any


class Reader:
    """Follows append and replace as any client would, and checks the order of what it gets."""

    def __init__(self) -> None:
        self.version = 0
        self.events: list[dict[str, Any]] = []
        self.artifacts: dict[str, str] = {}
        self.states: list[str] = []
        self.ends: list[str] = []

    def event(self, version: int, payload: bytes) -> None:
        """Take one StreamResponse."""
        event = json.loads(bytes(payload))
        assert not self.ends, f"after the end: {event}"
        assert len(event) == 1
        assert ("task" in event) is (not self.events), f"one snapshot, and first: {[*self.events, event]}"
        if version:
            assert version > self.version, f"version {version} after {self.version}: {[*self.events, event]}"
            self.version = version
        self.events.append(event)
        if "task" in event:
            task = event["task"]
            self.artifacts = {found["artifactId"]: _text(found) for found in task.get("artifacts", [])}
            self.states.append(task["status"]["state"])
        elif "artifactUpdate" in event:
            update = event["artifactUpdate"]
            artifact_id = update["artifact"]["artifactId"]
            before = self.artifacts.get(artifact_id, "") if update.get("append") else ""
            self.artifacts[artifact_id] = before + _text(update["artifact"])
        else:
            self.states.append(event["statusUpdate"]["status"]["state"])

    def end(self, reason: str) -> None:
        """Take the end."""
        self.ends.append(reason)


def texts_of(task: dict[str, Any]) -> dict[str, str]:
    """Return the artifacts of a task by id, each as its text."""
    return {found["artifactId"]: _text(found) for found in task.get("artifacts", [])}


def _text(artifact: dict[str, Any]) -> str:
    return "".join(part["text"] for part in artifact["parts"])
