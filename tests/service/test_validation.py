"""What a message must hold, on both bindings: refused with the field's name, and nothing done (JR-04, JR-05, FI-01/02/04)."""

from __future__ import annotations

import base64

import pytest

from tests.service.a2a import answer, sending, state_of

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()


def _without(name):
    def change(params):
        del params["message"][name]

    return change


def _with(**members):
    def change(params):
        params["message"] |= members

    return change


INVALID_MESSAGES = {
    "no messageId": (_without("messageId"), "message.messageId"),
    "an empty messageId": (_with(messageId=""), "message.messageId"),
    "a messageId that is a number": (_with(messageId=7), "message.messageId"),
    "no role": (_without("role"), "message.role"),
    "an unspecified role": (_with(role="ROLE_UNSPECIFIED"), "message.role"),
    "an unknown role": (_with(role="ROLE_ADMIN"), "message.role"),
    "no parts": (_without("parts"), "message.parts"),
    "an empty list of parts": (_with(parts=[]), "message.parts"),
    "parts that are no list": (_with(parts={"text": "a"}), "message.parts"),
    "a part without content": (_with(parts=[{"filename": "n.txt"}]), "message.parts[0]"),
    "a part with two contents": (_with(parts=[{"text": "a", "url": "https://e.example/x"}]), "message.parts[0]"),
    "a second part without content": (_with(parts=[{"text": "a"}, {}]), "message.parts[1]"),
    "a text that is a number": (_with(parts=[{"text": 1}]), "message.parts[0].text"),
    "metadata that is a list": (_with(metadata=[1]), "message.metadata"),
    "a contextId with a slash": (_with(contextId="../x"), "message.contextId"),
    "a contextId with a line feed": (_with(contextId="ok\n"), "message.contextId"),
    "a contextId that is too long": (_with(contextId="c" * 101), "message.contextId"),
    "a contextId outside ASCII": (_with(contextId="ä"), "message.contextId"),
    "a contextId with a NUL": (_with(contextId="a\0b"), "message.contextId"),
    "a contextId that is a number": (_with(contextId=1), "message.contextId"),
}


@pytest.mark.parametrize("name", INVALID_MESSAGES)
def test_an_invalid_message_is_refused_by_field_and_leaves_no_task(alice, name):
    change, field = INVALID_MESSAGES[name]
    before = alice.call("ListTasks", {})["totalSize"]
    for method in ("SendMessage", "SendStreamingMessage"):
        params = sending("hi")
        change(params)
        refused = alice.refused(method, params)
        assert refused.kind == "INVALID_PARAMS"
        assert any(each.startswith(field) or field.startswith(each + "[") for each in refused.fields), refused.fields
    assert alice.call("ListTasks", {})["totalSize"] == before


@pytest.mark.parametrize("message", ["absent", None, [], "hi", 7])
def test_a_request_without_a_message_object_is_refused(alice, message):
    params = {} if message == "absent" else {"message": message}
    assert alice.refused("SendMessage", params).kind == "INVALID_PARAMS"


@pytest.mark.parametrize("raw", ["abcde", "@@@", "a b=", "YQ==YQ==", 7, None, ["YQ=="]])
def test_raw_content_that_is_not_base64_is_refused(alice, raw):
    params = sending("x")
    params["message"]["parts"].append({"raw": raw, "filename": "a.bin"})
    refused = alice.refused("SendMessage", params)
    assert refused.kind == "INVALID_PARAMS"
    assert any(field.startswith("message.parts[1]") for field in refused.fields), refused.fields


@pytest.mark.parametrize("raw", ["YQ", "YQ==", "_-8=", "_-8", "/+8=", ""])
def test_raw_content_is_taken_in_either_alphabet_with_or_without_padding(alice, raw):
    params = sending("hi")
    params["message"]["parts"].append({"raw": raw, "filename": "a.bin"})
    assert state_of(alice.call("SendMessage", params)["task"]) == "COMPLETED"


def test_every_kind_of_part_is_taken_and_kept_unchanged(alice):
    parts = [
        {"text": "look at these"},
        {"raw": PNG, "filename": "a.png", "mediaType": "image/png"},
        {"url": "https://example.com/a.txt", "mediaType": "text/plain"},
        {"data": {"k": 1}},
        {"data": [1, None]},
        {"data": 0},
        {"text": "with metadata", "metadata": {"a": {"b": [1.5, "x"]}}},
    ]
    params = sending("")
    params["message"]["parts"] = parts
    task = alice.call("SendMessage", params)["task"]
    assert state_of(task) == "COMPLETED"
    assert task["history"][0]["parts"] == parts
    assert alice.get(task["id"])["history"][0]["parts"] == parts


@pytest.mark.parametrize("part", [{"text": "a"}, {"raw": "YQ=="}, {"url": "https://e.example/x"}, {"data": 1}])
@pytest.mark.parametrize("kind", ["application/x-nope", "application/x-msdownload", "model/gltf+json", "nonsense"])
def test_a_media_type_that_is_not_taken_is_refused_before_any_work(alice, part, kind):
    before = alice.call("ListTasks", {})["totalSize"]
    for method in ("SendMessage", "SendStreamingMessage"):
        params = sending("hi")
        params["message"]["parts"].append({**part, "mediaType": kind})
        assert alice.refused(method, params).kind == "CONTENT_TYPE_NOT_SUPPORTED"
    assert alice.call("ListTasks", {})["totalSize"] == before


@pytest.mark.parametrize(
    "kind", ["text/plain", "Text/Plain; charset=utf-8", "IMAGE/PNG", "application/json", "text/x-new"]
)
def test_media_types_are_compared_without_case_and_parameters(alice, kind):
    params = sending("hi")
    params["message"]["parts"].append({"raw": "YQ==", "mediaType": kind})
    assert state_of(alice.call("SendMessage", params)["task"]) == "COMPLETED"


@pytest.mark.parametrize(
    "configuration",
    [
        {"historyLength": -1},
        {"historyLength": "many"},
        {"historyLength": 1.5},
        {"returnImmediately": "yes"},
        {"acceptedOutputModes": "text/plain"},
        [],
        "x",
    ],
)
def test_an_invalid_configuration_is_refused(alice, configuration):
    refused = alice.refused("SendMessage", {**sending("hi"), "configuration": configuration})
    assert refused.kind == "INVALID_PARAMS"
    assert all(field.startswith("configuration") for field in refused.fields)


@pytest.mark.parametrize("accepted", [["text/plain"], ["*/*"], []])
def test_accepted_output_modes_do_not_stand_in_the_way_of_an_answer(alice, accepted):
    task = alice.send("hi", configuration={"acceptedOutputModes": accepted})
    assert state_of(task) == "COMPLETED"


def test_a_server_accepts_what_the_longest_context_id_may_be(alice):
    context = ("A-z_0" * 20)[:100]
    task = alice.send("hi", context=context)
    assert task["contextId"] == context
    assert answer(task) == "hi"


@pytest.mark.parametrize("history", [-5, "x", 2.5])
def test_a_bad_history_length_of_a_read_is_refused(alice, history):
    task = alice.send("hi")
    refused = alice.refused("GetTask", {"id": task["id"], "historyLength": history})
    assert refused.kind == "INVALID_PARAMS"
    assert refused.fields == ["historyLength"]


@pytest.mark.parametrize(
    "identity", ["", "../../callers", "x" * 1000, "%2e%2e%2f", "ä", "00000000-0000-0000-0000-000000000000"]
)
@pytest.mark.parametrize("method", ["GetTask", "CancelTask"])
def test_an_odd_task_id_is_not_found_or_invalid_never_more(alice, method, identity):
    reply = alice.exchange(method, {"id": identity})
    assert reply.status < 500
    if identity:
        assert alice.outcome(reply).kind in {"TASK_NOT_FOUND", "METHOD_NOT_FOUND"}
