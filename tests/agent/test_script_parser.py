"""What a script may say, and how a fault in it is named."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.agent.kit import Stage
from volcanic.agent.models.faux import scripted_model
from volcanic.agent.models.faux_check import ScriptError
from volcanic.agent.models.faux_parse import parse_script
from volcanic.agent.models.faux_script import Script

FACTS_EXAMPLE = b"""{
  "rules": [
    {"messageIdPrefix": "tck-artifact-data", "steps": [{"artifact": {"parts": [{"data": {"key": "value"}}]}}, {"end": "completed"}]},
    {"textPrefix": "probe-slow", "steps": [{"status": "thinking"}, {"delay": 3}, {"text": "done"}]},
    {"textRegex": "^run (?P<cmd>.+)$", "steps": [{"tool": "bash", "arguments": {"command": "{cmd}"}}, {"text": "{result}"}]}
  ],
  "turns": {"ask": [[{"end": "input-required", "text": "which day?"}], [{"text": "booked"}]]},
  "chunk": 12,
  "tokensPerSecond": null
}"""


def test_the_documented_example_is_read() -> None:
    script = parse_script(FACTS_EXAMPLE)
    assert (len(script.by_id), len(script.by_text), len(script.by_regex)) == (1, 1, 1)
    assert len(script.turns["ask"]) == 2
    assert (script.chunk, script.tokens_per_second) == (12, None)


def test_an_empty_script_is_the_echo() -> None:
    assert parse_script(b"{}") == Script()


def rule(steps: object, **more: object) -> dict[str, object]:
    return {"rules": [{"textPrefix": "probe", "steps": steps, **more}]}


def step(**members: object) -> dict[str, object]:
    return rule([{"text": "fine"}, members])


AT = 'rule 1 (textPrefix "probe"), step 2'


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ([], "the script: must be an object"),
        ({"rule": []}, 'the script: unknown key "rule"'),
        ({"rules": {}}, "rules: must be a list"),
        ({"rules": [3]}, "rule 1: must be an object"),
        ({"rules": [{"steps": []}]}, "rule 1: needs exactly one of messageIdPrefix, textPrefix, textRegex"),
        ({"rules": [{"textPrefix": "a", "textRegex": "b", "steps": []}]}, "rule 1: needs exactly one of"),
        ({"rules": [{"textPrefix": 1, "steps": []}]}, "rule 1, textPrefix: must be a string"),
        ({"rules": [{"textPrefix": "a"}]}, 'rule 1 (textPrefix "a"): needs exactly one of steps, turns'),
        ({"rules": [{"textPrefix": "a", "turns": "x"}]}, 'rule 1 (textPrefix "a"): there are no turns "x"'),
        ({"rules": [{"textPrefix": "a", "turns": 4}]}, 'rule 1 (textPrefix "a"), turns: must be a string'),
        ({"rules": [{"textRegex": "(", "steps": []}]}, 'rule 1 (textRegex "("): not a regular expression'),
        ({"rules": [{"textRegex": "(?P<n>.)", "steps": []}]}, "a group may not be named n"),
        (
            {"rules": [{"textPrefix": "a", "steps": []}, {"textPrefix": "a", "steps": []}]},
            'rule 2 (textPrefix "a"): an earlier rule has the same prefix',
        ),
        (rule([], stesp=1), 'rule 1: unknown key "stesp"'),
        (rule({}), 'rule 1 (textPrefix "probe"), steps: must be a list'),
        (step(txet="x"), f'{AT}: unknown key "txet"'),
        (step(text="x", retryable=True), f'{AT}: unknown key "retryable"'),
        (step(), f"{AT}: has no effect"),
        (step(arguments={}), f'{AT}: unknown key "arguments"'),
        (step(text="x", delay=1), f"{AT}: has more than one effect: text, delay"),
        (step(end="completed", delay=1), f"{AT}: has more than one effect: end, delay"),
        (step(text=1), f'{AT}, key "text": must be a string'),
        (step(delay=-1), f'{AT}, key "delay": must be at least 0'),
        (step(delay="1"), f'{AT}, key "delay": must be a number'),
        (step(delay=True), f'{AT}, key "delay": must be a number'),
        (step(delay=1e300), f'{AT}, key "delay": is longer than a year'),
        (step(end="done"), f"{AT}: end must be one of completed, failed"),
        (step(end="failed", text=1), f'{AT}, key "text": must be a string'),
        (step(stop="stop"), f'{AT}: stop must be "length"'),
        (step(error="x", retryable=1), f'{AT}, key "retryable": must be true or false'),
        (step(tool=1), f'{AT}, key "tool": must be a string'),
        (step(tool="x", arguments=[]), f'{AT}, key "arguments": must be an object'),
        (step(tools=[]), f'{AT}: key "tools" is empty'),
        (step(tools=[{"arguments": {}}]), f'{AT}, tool 1: needs the key "tool"'),
        (step(tools=[{"tool": "x", "args": {}}]), f'{AT}, tool 1: unknown key "args"'),
        (step(allocate=-1), f'{AT}, key "allocate": must be from 0'),
        (step(exit=256), f'{AT}, key "exit": must be from 0 to 255'),
        (step(exit=1.0), f'{AT}, key "exit": must be a whole number'),
        (step(artifact={}), f'{AT}, artifact, key "parts": must be a list'),
        (step(artifact={"parts": []}), f"{AT}, artifact: has no parts"),
        (step(artifact={"parts": [{"text": "a"}], "id": "x"}), f'{AT}, artifact: unknown key "id"'),
        (step(artifact={"parts": [{}]}), f"{AT}, artifact, part 1: needs exactly one of text, data, raw"),
        (step(artifact={"parts": [{"text": "a", "url": "b"}]}), f"{AT}, artifact, part 1: needs exactly one of"),
        (step(artifact={"parts": [{"kind": "text"}]}), f'{AT}, artifact, part 1: unknown key "kind"'),
        (step(artifact={"parts": [{"text": 1}]}), f'{AT}, artifact, part 1: key "text" must be a string'),
        (step(artifact={"parts": [{"raw": "@@@"}]}), f'{AT}, artifact, part 1: key "raw" is not base64'),
        (step(artifact={"parts": [{"text": "a", "metadata": 1}]}), "metadata"),
        (step(artifact={"parts": [{"text": "a"}], "metadata": 1}), "metadata"),
        (step(artifact={"parts": [{"text": "a"}], "artifactId": ""}), 'key "artifactId" is empty'),
        (step(artifact={"parts": [{"text": "a"}], "append": True}), "append needs an artifactId or a name"),
        (step(artifact={"parts": [{"text": "a"}], "append": 1}), 'artifact, key "append": must be true or false'),
        (step(message="late"), f"{AT}: message may only come before anything else"),
        (rule([{"message": "a"}, {"text": "b"}]), f"{AT}: nothing may be shown after message"),
        (rule([{"message": "a"}, {"end": "failed"}]), f"{AT}: nothing may be shown after message"),
        (rule([{"message": "a"}, {"end": "completed", "text": "b"}]), "nothing may be shown after message"),
        (rule([{"end": "failed"}, {"text": "b"}]), f"{AT}: is never played"),
        (rule([{"stop": "length"}, {"text": "b"}]), f"{AT}: is never played"),
        (rule([{"raise": "x"}, {"text": "b"}]), f"{AT}: is never played"),
        (rule([{"error": "x"}, {"text": "b"}]), f"{AT}: is never played"),
        ({"turns": {"a": []}}, 'turns "a": has no turns'),
        ({"turns": {"a": [{}]}}, 'turns "a", turn 1, steps: must be a list'),
        ({"turns": {"a": [[], [{"message": "x"}]]}}, 'turns "a", turn 2, step 1: message answers in place of a task'),
        ({"chunk": 0}, "chunk: must be from 1"),
        ({"chunk": True}, "chunk: must be a whole number"),
        ({"tokensPerSecond": 0}, "tokensPerSecond: must be above 0"),
    ],
)
def test_a_fault_is_named_with_its_place(script: object, error: str) -> None:
    with pytest.raises(ScriptError) as raised:
        parse_script(json.dumps(script).encode())
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"chunk": 1e999}', b'{"rules": NaN}', b'"\\ud800"'],
)
def test_what_is_no_json_is_one_error(data: bytes) -> None:
    with pytest.raises(ScriptError):
        parse_script(data)


def test_deep_nesting_is_refused_and_not_met_while_playing() -> None:
    deep: object = 1
    for _ in range(900):
        deep = [deep]
    for members in ({"tool": "x", "arguments": {"a": deep}}, {"artifact": {"parts": [{"data": deep}]}}):
        data = msgspec.json.encode(rule([members]))
        try:
            parse_script(data)
        except ScriptError:
            continue
        pytest.fail("accepted")


def test_what_may_follow_is_accepted() -> None:
    parse_script(json.dumps(rule([{"error": "x", "retryable": True}, {"text": "b"}])).encode())
    parse_script(json.dumps(rule([{"delay": 1}, {"thinking": "x"}, {"message": "a"}, {"delay": 1}])).encode())
    parse_script(json.dumps(rule([{"message": "a"}, {"end": "completed"}])).encode())


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
PART = st.one_of(
    st.fixed_dictionaries({"text": TEXTS}),
    st.fixed_dictionaries({"rawText": TEXTS}, optional={"filename": TEXTS, "mediaType": TEXTS}),
    st.fixed_dictionaries({"data": JSON}),
    st.fixed_dictionaries({"url": TEXTS}),
)
STEP = st.one_of(
    st.fixed_dictionaries({"text": TEXTS}),
    st.fixed_dictionaries({"thinking": TEXTS}),
    st.fixed_dictionaries({"status": TEXTS}),
    st.just({"delay": 0}),
    st.fixed_dictionaries(
        {
            "artifact": st.fixed_dictionaries(
                {"artifactId": st.just("a"), "parts": st.lists(PART, min_size=1, max_size=3)}
            )
        }
    ),
    st.fixed_dictionaries({"tool": TEXTS, "arguments": st.dictionaries(TEXTS, JSON, max_size=3)}),
)
LAST = st.one_of(
    st.fixed_dictionaries(
        {"end": st.sampled_from(["completed", "failed", "input-required"])}, optional={"text": TEXTS}
    ),
    st.just({"stop": "length"}),
)
KEYS = [
    "rules",
    "turns",
    "chunk",
    "textPrefix",
    "textRegex",
    "steps",
    "text",
    "end",
    "artifact",
    "parts",
    "tool",
    "error",
]
NOISE = st.recursive(
    JSON,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)


@given(NOISE)
def test_no_document_does_anything_but_parse_or_be_refused(document: object) -> None:
    fault = ""
    try:
        parse_script(msgspec.json.encode(document))
    except ScriptError as error:
        fault = str(error)
    assert "\n" not in fault


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(STEP, max_size=6), st.lists(LAST, max_size=1), TEXTS, st.integers(1, 7))
async def test_every_valid_script_plays_to_the_end(
    steps: list[object], last: list[object], text: str, chunk: int
) -> None:
    stage = Stage({"rules": [{"textPrefix": "", "steps": steps + last}], "chunk": chunk})
    outcome = await stage.say(text)
    told = [piece for piece in stage.told() if piece]
    assert outcome.response == (told[-1] if told else "")
    stage.open()
    await stage.say("again")


@given(TEXTS, st.integers(1, 9))
async def test_the_echo_is_the_text_whatever_the_chunk(text: str, chunk: int) -> None:
    stage = Stage({"chunk": chunk})
    assert (await stage.say(text)).text == text
    assert "".join(stage.told()) == text


def test_a_scripted_model_is_made_of_bytes() -> None:
    assert scripted_model(FACTS_EXAMPLE).provider == "faux"
