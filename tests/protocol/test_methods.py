from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.strategies import REQUESTS
from volcanic.protocol import methods, protojson, types
from volcanic.protocol.errors import A2AError, ErrorKind
from volcanic.protocol.methods import METHODS


def read(method, raw):
    return methods.decode_params(method, raw)


def refused(method, params, kind=ErrorKind.INVALID_PARAMS):
    """Return the field and the message of the refusal."""
    raw = params if isinstance(params, bytes) else json.dumps(params).encode()
    with pytest.raises(A2AError) as caught:
        read(method, raw)
    assert caught.value.kind is kind
    return caught.value.field, caught.value.message


def send(**changes):
    message = {"role": "ROLE_USER", "messageId": "m1", "parts": [{"text": "hi"}], **changes}
    return {"message": {name: value for name, value in message.items() if value is not ...}}


def test_the_methods_are_those_of_the_protocol():
    assert set(METHODS) == set(REQUESTS)
    assert {name for name, method in METHODS.items() if method.streaming} == {
        "SendStreamingMessage",
        "SubscribeToTask",
    }
    assert len(methods.PUSH_CONFIG_METHODS) == 4


@given(st.data())
@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_a_valid_request_comes_through_as_it_was(name, data):
    request = data.draw(REQUESTS[name])
    wire = types.encode(request)
    assert types.encode(read(name, wire)) == wire


@given(st.data())
@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_null_members_are_absent_members(name, data):
    request = data.draw(REQUESTS[name])
    wire = types.encode(request)
    spelled = _with_nulls(json.loads(wire), METHODS[name].request)
    assert json.loads(types.encode(read(name, spelled.encode()))) == json.loads(wire)


def _with_nulls(value, model):
    """Return the JSON of a request with each unset member of the request itself and its message written as null."""
    for field in msgspec.structs.fields(model):
        value.setdefault(field.encode_name, None)
    if value.get("message"):
        for field in msgspec.structs.fields(types.Message):
            value["message"].setdefault(field.encode_name, None)
        for part in value["message"]["parts"]:
            for field in msgspec.structs.fields(types.Part):
                part.setdefault(field.encode_name, None)
    return json.dumps(value)


def test_null_parameters_are_no_parameters():
    assert read("GetExtendedAgentCard", b"null") == types.GetExtendedAgentCardRequest()
    assert refused("GetTask", b"null") == ("id", "id is required")


def test_null_is_a_value_of_a_data_part():
    (part,) = read("SendMessage", json.dumps(send(parts=[{"data": None}])).encode()).message.parts
    assert bytes(part.data) == b"null"


def test_free_form_values_keep_their_nulls_and_their_bytes():
    body = b'{"tenant":null,"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":[null, 1.0]}],"metadata":{"a" :null}}}'
    message = read("SendMessage", body).message
    assert bytes(message.parts[0].data) == b"[null, 1.0]"
    assert bytes(message.metadata) == b'{"a" :null}'


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "message"),
        ({"message": None}, "message"),
        (send(messageId=...), "message.messageId"),
        (send(messageId=""), "message.messageId"),
        (send(messageId=None), "message.messageId"),
        (send(messageId=7), "message.messageId"),
        (send(role=...), "message.role"),
        (send(role="ROLE_UNSPECIFIED"), "message.role"),
        (send(role="ROLE_AGENT"), "message.role"),
        (send(role="user"), "message.role"),
        (send(role=1), "message.role"),
        (send(parts=...), "message.parts"),
        (send(parts=[]), "message.parts"),
        (send(parts={}), "message.parts"),
        (send(parts=[None]), "message.parts[0]"),
        (send(parts=[{"text": "a"}, 5]), "message.parts[1]"),
        (send(parts=[{"text": "a"}] * 1001), "message.parts"),
        (send(parts=[{"text": "a", "raw": None}] * 1001), "message.parts[0].raw"),
        (send(parts=[{"filename": "n.txt"}]), "message.parts[0]"),
        (send(parts=[{"text": "a", "url": "https://e.example/x"}]), "message.parts[0]"),
        (send(parts=[{"text": "a", "data": 1}]), "message.parts[0]"),
        (send(parts=[{"text": "a"}, {"raw": "YQ", "data": []}]), "message.parts[1]"),
        (send(parts=[{"text": 5}]), "message.parts[0].text"),
        (send(parts=[{"raw": 5}]), "message.parts[0].raw"),
        (send(parts=[{"raw": "abcde"}]), "message.parts[0].raw"),
        (send(parts=[{"raw": "@@@"}]), "message.parts[0].raw"),
        (send(parts=[{"raw": "YQ="}]), "message.parts[0].raw"),
        (send(parts=[{"raw": "Y Q="}]), "message.parts[0].raw"),
        (send(parts=[{"raw": "é"}]), "message.parts[0].raw"),
        (send(parts=[{"url": ""}]), "message.parts[0].url"),
        (send(parts=[{"text": "a", "metadata": []}]), "message.parts[0].metadata"),
        (send(metadata="x"), "message.metadata"),
        (send(contextId="a b"), "message.contextId"),
        (send(contextId="a\n"), "message.contextId"),
        (send(contextId="é"), "message.contextId"),
        (send(contextId="x" * 101), "message.contextId"),
        (send(contextId=5), "message.contextId"),
        (send(extensions=["a", 1]), "message.extensions[1]"),
        (send() | {"metadata": 1}, "metadata"),
        (send() | {"tenant": "t"}, "tenant"),
        (send() | {"configuration": {"historyLength": -1}}, "configuration.historyLength"),
        (send() | {"configuration": {"historyLength": 2**31}}, "configuration.historyLength"),
        (send() | {"configuration": {"historyLength": 1.5}}, "configuration.historyLength"),
        (send() | {"configuration": {"historyLength": 10**30}}, "configuration.historyLength"),
        (send() | {"configuration": {"returnImmediately": 1}}, "configuration.returnImmediately"),
        (send() | {"configuration": {"acceptedOutputModes": "x"}}, "configuration.acceptedOutputModes"),
        (
            send() | {"configuration": {"taskPushNotificationConfig": {"url": ""}}},
            "configuration.taskPushNotificationConfig.url",
        ),
        (
            send() | {"configuration": {"taskPushNotificationConfig": {"url": "u", "authentication": {"scheme": ""}}}},
            "configuration.taskPushNotificationConfig.authentication.scheme",
        ),
    ],
)
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
def test_an_invalid_message_is_refused_naming_the_member(method, params, field):
    named, text = refused(method, params)
    assert named == field
    assert field in text or field == "tenant"


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("GetTask", {}, "id"),
        ("GetTask", {"id": ""}, "id"),
        ("GetTask", {"id": 5}, "id"),
        ("GetTask", {"id": "x", "historyLength": -5}, "historyLength"),
        ("GetTask", {"id": "x", "tenant": "t"}, "tenant"),
        ("CancelTask", {"id": ""}, "id"),
        ("CancelTask", {"id": "x", "metadata": []}, "metadata"),
        ("CancelTask", {"id": "x", "tenant": "t"}, "tenant"),
        ("SubscribeToTask", {"id": ""}, "id"),
        ("SubscribeToTask", {"id": "x", "tenant": "t"}, "tenant"),
        ("ListTasks", {"pageSize": 0}, "pageSize"),
        ("ListTasks", {"pageSize": -1}, "pageSize"),
        ("ListTasks", {"pageSize": 101}, "pageSize"),
        ("ListTasks", {"pageSize": 10**9}, "pageSize"),
        ("ListTasks", {"pageSize": "x"}, "pageSize"),
        ("ListTasks", {"pageSize": 2.5}, "pageSize"),
        ("ListTasks", {"historyLength": -5}, "historyLength"),
        ("ListTasks", {"status": "TASK_STATE_RUNNING"}, "status"),
        ("ListTasks", {"statusTimestampAfter": "yesterday"}, "statusTimestampAfter"),
        ("ListTasks", {"includeArtifacts": "true"}, "includeArtifacts"),
        ("ListTasks", {"tenant": "t"}, "tenant"),
        ("CreateTaskPushNotificationConfig", {"taskId": "t", "url": ""}, "url"),
        ("CreateTaskPushNotificationConfig", {"url": "u"}, "taskId"),
        ("CreateTaskPushNotificationConfig", {"taskId": "t", "url": "u", "tenant": "x"}, "tenant"),
        ("GetTaskPushNotificationConfig", {"taskId": "", "id": "c"}, "taskId"),
        ("DeleteTaskPushNotificationConfig", {"taskId": "t", "id": ""}, "id"),
        ("GetTaskPushNotificationConfig", {"taskId": "t", "id": "c", "tenant": "x"}, "tenant"),
        ("ListTaskPushNotificationConfigs", {"taskId": "t", "tenant": "x"}, "tenant"),
        ("ListTaskPushNotificationConfigs", {"taskId": ""}, "taskId"),
        ("ListTaskPushNotificationConfigs", {"taskId": "t", "pageSize": -1}, "pageSize"),
        ("GetExtendedAgentCard", {"tenant": "t"}, "tenant"),
    ],
)
def test_an_invalid_request_is_refused_naming_the_member(method, params, field):
    assert refused(method, params)[0] == field


@pytest.mark.parametrize("params", [b"[]", b'"x"', b"5", b"true"])
def test_parameters_that_are_no_object_are_refused(params):
    assert refused("SendMessage", params) == ("", "params must be an object")


def test_a_wrong_choice_is_told_the_right_ones_and_never_repeated():
    assert refused("SendMessage", send(role="secret - at `$.x`"))[1] == "message.role must be one of ROLE_USER"
    text = refused("ListTasks", {"status": "TASK_STATE_RUNNING"})[1]
    assert "TASK_STATE_AUTH_REQUIRED" in text
    assert "RUNNING" not in text
    assert "UNSPECIFIED" not in text


def test_types_are_named_in_plain_words():
    assert refused("GetTask", {"id": 5})[1] == "id must be a string"
    assert refused("ListTasks", {"pageSize": "x"})[1] == "pageSize must be an integer"
    assert refused("ListTasks", {"includeArtifacts": 1})[1] == "includeArtifacts must be true or false"
    assert refused("GetTask", b'{"id":"x","historyLength":1' + b"0" * 5000 + b"}")[1] == "historyLength is out of range"


@pytest.mark.parametrize("name", ["", "sendMessage", "message/send", "SendMessage ", "PublicCard"])
def test_an_unknown_method_is_refused(name):
    refused(name, b"{}", ErrorKind.METHOD_NOT_FOUND)


@pytest.mark.parametrize("raw", [b"", b"{", b'{"message":1,', b'{"message":1} x', b'{"message":1,"x":NaN}'])
def test_malformed_json_is_a_parse_error_also_behind_a_wrong_type(raw):
    refused("SendMessage", raw, ErrorKind.PARSE)


def test_unknown_members_are_ignored():
    request = read("SendMessage", json.dumps(send(parts=[{"text": "hi", "futureThing": 1}], x=[])).encode())
    assert types.encode(request) == types.encode(read("SendMessage", json.dumps(send()).encode()))


@pytest.mark.parametrize("text", ["", "YQ", "YQ==", "_-8=", "_-8", "/+8", "+_8="])
def test_every_spelling_of_base64_is_taken_and_kept(text):
    assert read("SendMessage", json.dumps(send(parts=[{"raw": text}])).encode()).message.parts[0].raw == text


def test_empty_optional_values_are_unset():
    message = read("SendMessage", json.dumps(send(contextId="", taskId="", metadata=None)).encode()).message
    assert "Id" not in types.encode(message).decode().replace("messageId", "")
    listing = {"contextId": "", "pageToken": "", "status": "TASK_STATE_UNSPECIFIED", "statusTimestampAfter": ""}
    assert types.encode(read("ListTasks", json.dumps(listing).encode())) == b"{}"
    configs = {"taskId": "t", "pageSize": 0, "pageToken": ""}
    request = read("ListTaskPushNotificationConfigs", json.dumps(configs).encode())
    assert types.encode(request) == b'{"taskId":"t"}'


def test_a_lower_bound_on_time_is_the_first_millisecond_at_or_after_it():
    raw = b'{"statusTimestampAfter":"2026-12-01T09:30:00.1230001Z"}'
    assert read("ListTasks", raw).status_timestamp_after == "2026-12-01T09:30:00.124Z"


NESTED = '{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"},{"data":%s}]}}'


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_free_form_values_may_nest_a_hundred_levels(opening, closing):
    value = opening * 99 + "[" + ",".join(["[]"] * 200) + "]" + closing * 99
    read("SendMessage", (NESTED % value).encode())


@pytest.mark.parametrize("depth", [400, 800])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_free_form_values_nested_beyond_that_are_refused(opening, closing, depth):
    value = opening * depth + "1" + closing * depth
    assert refused("SendMessage", (NESTED % value).encode()) == (
        "message.parts[1].data",
        "message.parts[1].data is nested too deeply",
    )
    members = json.loads(NESTED % 1)
    members["metadata"] = 1
    wrong = json.dumps(members).replace('"metadata": 1', f'"metadata":{{"a":{value}}}').encode()
    assert refused("SendMessage", wrong)[0] == "metadata"


@pytest.mark.parametrize("depth", [5000, 100_000])
def test_what_nests_beyond_the_decoder_is_a_parse_error(depth):
    value = "[" * depth + "]" * depth
    refused("SendMessage", (NESTED % value).encode(), ErrorKind.PARSE)
    refused("SendMessage", f'{{"x":{value}}}'.encode(), ErrorKind.PARSE)
    refused("SendMessage", f'{{"tenant":null,"x":{value}}}'.encode(), ErrorKind.PARSE)
    refused("SendMessage", f'{{"tenant":5,"x":{value}}}'.encode(), ErrorKind.PARSE)


def test_brackets_in_strings_are_no_nesting():
    read("SendMessage", (NESTED % json.dumps("[{" * 10_000)).encode())


def test_the_longest_list_is_still_read_for_nulls():
    parts = [{"text": "x", "raw": None}] * protojson.ITEMS
    assert len(read("SendMessage", json.dumps(send(parts=parts)).encode()).message.parts) == protojson.ITEMS


def test_a_long_list_is_not_read_for_nulls_item_by_item():
    raw = json.dumps({"message": {"parts": [{"text": None}] * (protojson.ITEMS + 1)}}).encode()
    assert b'"text":null' in protojson.plain(raw.replace(b" ", b""), types.SendMessageRequest)


@pytest.mark.parametrize(
    ("name", "params", "member", "value"),
    [
        ("GetTask", {"id": "t", "history_length": 1}, "history_length", 1),
        ("ListTasks", {"page_size": 3, "include_artifacts": True}, "page_size", 3),
        ("ListTasks", {"page_size": 3, "pageSize": 4}, "page_size", 4),
        ("ListTasks", {"page_size": None}, "page_size", msgspec.UNSET),
    ],
)
def test_members_are_also_read_by_their_names_in_the_proto(name, params, member, value):
    assert getattr(read(name, json.dumps(params).encode()), member) == value


def test_names_in_the_proto_are_read_at_every_depth_but_not_inside_free_form_values():
    raw = send() | {"configuration": {"return_immediately": True}}
    raw["message"]["message_id"] = raw["message"].pop("messageId")
    raw["message"]["parts"] = [{"data": {"media_type": "kept"}, "media_type": "application/json"}]
    request = read("SendMessage", json.dumps(raw).encode())
    assert request.configuration.return_immediately is True
    assert request.message.message_id == send()["message"]["messageId"]
    assert request.message.parts[0].media_type == "application/json"
    assert json.loads(bytes(request.message.parts[0].data)) == {"media_type": "kept"}


def test_a_wrong_value_under_a_name_in_the_proto_is_refused_by_its_own_name():
    assert refused("GetTask", b'{"id":"t","history_length":"x"}') == (
        "historyLength",
        "historyLength must be an integer",
    )
