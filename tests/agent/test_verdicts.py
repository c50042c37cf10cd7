from __future__ import annotations

import pytest

from tests.agent.kit import Stage, shape
from volcanic.agent.tools.verdicts import verdict_tools
from volcanic.extension import VerdictState


@pytest.mark.parametrize(
    ("name", "argument", "state"),
    [
        ("request_input", "question", VerdictState.INPUT_REQUIRED),
        ("request_auth", "text", VerdictState.AUTH_REQUIRED),
        ("decline", "reason", VerdictState.REJECTED),
    ],
)
async def test_a_verdict_ends_the_run_with_its_text(name: str, argument: str, state: VerdictState) -> None:
    stage = Stage(
        [{"text": "hm"}, {"tool": name, "arguments": {argument: "which {text}?"}}, {"text": "never"}], verdict_tools()
    )
    outcome = await stage.say("day")
    assert (outcome.state, outcome.text, outcome.response) == (state, "which day?", "hm")
    assert len(stage.model.asked) == 1
    stage.open()
    await stage.say("monday")
    assert shape(stage.model.asked[-1])[1:3] == [f"assistant hm|{name}|toolUse", f"{name} Passed on to the caller."]


@pytest.mark.parametrize("arguments", [{}, {"question": ""}, {"question": 1}, {"question": "x", "extra": 1}])
async def test_wrong_arguments_go_back_to_the_model(arguments: dict[str, object]) -> None:
    stage = Stage([{"tool": "request_input", "arguments": arguments}, {"text": "sorry"}], verdict_tools())
    outcome = await stage.say("x")
    assert (outcome.state, outcome.text) == (VerdictState.COMPLETED, "sorry")
    assert shape(stage.model.asked[-1])[-1].startswith("request_input Invalid arguments for request_input: ")


def test_the_schema_names_the_argument() -> None:
    ask = verdict_tools()[0]
    assert ask.parameters["required"] == ["question"]
    assert ask.parameters["additionalProperties"] is False
    assert "description" not in ask.parameters
