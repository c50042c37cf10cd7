"""The steps of the faux model's script, and the placeholders in their texts."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

import attrs
import msgspec

from volcanic.extension import VerdictState

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")

Names = Mapping[str, str]
"""What placeholders stand for."""


def fill(text: str, names: Names) -> str:
    """Return `text` with each known `{name}` replaced; what replaces it is not looked at again."""
    if "{" not in text:
        return text
    return _PLACEHOLDER.sub(lambda found: names.get(found[1], found[0]), text)


def fill_json(value: object, names: Names) -> object:
    """Return a copy of a JSON value with the placeholders of all its strings replaced, names of members excepted."""
    if isinstance(value, str):
        return fill(value, names)
    if isinstance(value, list):
        return [fill_json(item, names) for item in value]
    if isinstance(value, dict):
        return {key: fill_json(item, names) for key, item in value.items()}
    return value


@attrs.frozen
class Say:
    """Assistant text."""

    text: str


@attrs.frozen
class Think:
    """Reasoning text."""

    text: str


@attrs.frozen
class Delay:
    """Wait, in seconds on trio's clock."""

    seconds: float


@attrs.frozen
class Status:
    """A WORKING status update."""

    text: str


@attrs.frozen
class Artifact:
    """An artifact event: the members of an A2A Artifact; a part may have `rawText` (utf-8) in place of `raw`."""

    body: dict[str, object]
    append: bool
    last_chunk: bool

    def render(self, names: Names) -> msgspec.Raw:
        """Return the Artifact's JSON with placeholders replaced and `rawText` in base64; an id may turn out empty."""
        body = fill_json(self.body, names)
        assert isinstance(body, dict)
        if not body.get("artifactId"):
            body.pop("artifactId", None)
        body["parts"] = [_render_part(part) for part in body["parts"]]
        return msgspec.Raw(msgspec.json.encode(body))


def _render_part(part: dict[str, object]) -> dict[str, object]:
    if "rawText" not in part:
        return part
    text = part["rawText"]
    assert isinstance(text, str)
    rest = {key: value for key, value in part.items() if key != "rawText"}
    return {"raw": base64.b64encode(text.encode("utf-8", "surrogatepass")).decode(), **rest}


@attrs.frozen
class Call:
    """One tool call."""

    name: str
    arguments: dict[str, object]


@attrs.frozen
class Calls:
    """Tool calls of one turn."""

    calls: tuple[Call, ...]


@attrs.frozen
class Direct:
    """Answer with a plain Message instead of a task."""

    text: str


@attrs.frozen
class End:
    """End the run in a state."""

    state: VerdictState
    text: str


@attrs.frozen
class StopAtLength:
    """End as if the model hit its length limit."""


@attrs.frozen
class Fail:
    """A provider error."""

    text: str
    retryable: bool


@attrs.frozen
class Raise:
    """An unexpected exception inside the run."""

    text: str


@attrs.frozen
class Allocate:
    """Take memory, in MiB, and keep it as long as the model lives."""

    mebibytes: int


@attrs.frozen
class Spin:
    """Block the loop, in seconds."""

    seconds: float


@attrs.frozen
class Exit:
    """Kill the process with this exit code."""

    code: int


Step = (
    Say
    | Think
    | Delay
    | Status
    | Artifact
    | Calls
    | Direct
    | End
    | StopAtLength
    | Fail
    | Raise
    | Allocate
    | Spin
    | Exit
)
Steps = tuple[Step, ...]
