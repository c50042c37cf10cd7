"""The JSON-RPC envelope: what is refused before any work, and how (field reports JR-01 to JR-05, spec §9)."""

from __future__ import annotations

import json

import pytest

from tests.service.a2a import KINDS, answer, envelope, saying, sending, state_of
from tests.service.wire import RefusedError, read_until


def _code(reply):
    assert reply.media_type == "application/json"
    assert reply.status < 500
    value = reply.json
    assert value["jsonrpc"] == "2.0"
    assert "result" not in value
    return value["error"]["code"], value["id"]


NOT_JSON = {
    "cut short": b'{"jsonrpc":"2.0","id":7,',
    "empty": b"",
    "not utf-8": b"\xff\xfe",
    "utf-8 cut inside a character": b'{"jsonrpc":"2.0","id":"\xc3',
    "deep": b"[" * 100_000,
    "two values": b"{}{}",
    "NaN": b"NaN",
    "a bare word": b"hello",
    "html": b"<html></html>",
}


@pytest.mark.parametrize("name", NOT_JSON)
def test_a_body_that_is_not_json_is_a_parse_error(rpc, name):
    assert _code(rpc.post(NOT_JSON[name])) == (-32700, None)
    assert answer(rpc.send("still up")) == "still up"


def test_deep_nesting_is_refused_wherever_it_stands(rpc):
    deep = b"[" * 100_000 + b"]" * 100_000
    head = b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER",'
    for body in (
        deep,
        head + b'"parts":[{"data":' + deep + b"}]}}}",
        head + b'"parts":[{"text":"a"}],"new":' + deep + b"}}}",
    ):
        code, _ = _code(rpc.post(body))
        assert code in {-32700, -32600, -32602}
    assert answer(rpc.send("still up")) == "still up"


@pytest.mark.parametrize(
    "body",
    [
        b'"hi"',
        b"null",
        b"7",
        b"{}",
        b"[]",
        b'{"id":1,"method":"GetTask","params":{"id":"x"}}',
        b'{"jsonrpc":"1.0","id":1,"method":"GetTask","params":{"id":"x"}}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"method":7}',
        b'{"jsonrpc":"2.0","id":{},"method":"GetTask","params":{"id":"x"}}',
        b'{"jsonrpc":"2.0","id":[1],"method":"GetTask","params":{"id":"x"}}',
    ],
)
def test_json_that_is_no_request_is_an_invalid_request(rpc, body):
    code, _ = _code(rpc.post(body))
    assert code == -32600


def test_a_batch_is_refused(rpc):
    code, identity = _code(rpc.post([envelope("GetTask", {"id": "x"}), envelope("ListTasks", {})]))
    assert (code, identity) == (-32600, None)
    assert _code(rpc.post(b"[1,2]")) == (-32600, None)


@pytest.mark.parametrize("params", [[], [1], None])
def test_params_that_are_no_object_are_invalid(rpc, params):
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    assert _code(rpc.post(body)) == (-32602, 1)


@pytest.mark.parametrize("method", ["NoSuchMethod", "sendmessage", "", "tasks/frobnicate"])
def test_an_unknown_method_is_not_found(rpc, method):
    body = {"jsonrpc": "2.0", "id": "a", "method": method, "params": {}}
    assert _code(rpc.post(body)) == (-32601, "a")


@pytest.mark.parametrize(
    "raw",
    ["1", '"1"', "null", "0", "-7", "9007199254740993", '"\\u00e4\\u2028"', "1.5", '""'],
)
def test_the_id_comes_back_as_it_was_sent(rpc, raw):
    for method, member in (("ListTasks", b'"result"'), ("NoSuchMethod", b'"error"')):
        reply = rpc.post(b'{"jsonrpc":"2.0","id":%s,"method":"%s","params":{}}' % (raw.encode(), method.encode()))
        assert member in reply.body
        assert json.loads(reply.body, parse_int=str, parse_float=str)["id"] == json.loads(
            raw, parse_int=str, parse_float=str
        )


def test_a_request_without_an_id_is_answered_all_the_same(rpc):
    reply = rpc.post({"jsonrpc": "2.0", "method": "ListTasks", "params": {}})
    assert reply.json["id"] is None
    assert reply.json["result"]["pageSize"] == 50


def test_members_that_nobody_knows_are_ignored(rpc):
    params = sending("hi", futureThing={"a": [1]})
    params["message"]["parts"][0]["alsoNew"] = 1
    params["brandNew"] = True
    body = {**envelope("SendMessage", params), "extraMember": "x"}
    task = rpc.read(rpc.post(body))["task"]
    assert answer(task) == "hi"
    assert "futureThing" not in task["history"][0]


@pytest.mark.parametrize("kind", ["text/plain", "text/html", "application/xml", "multipart/form-data"])
def test_a_wrong_content_type_is_refused_before_the_body_is_parsed(rpc, kind):
    code, identity = _code(rpc.post(b"this is not json", Content_Type=kind))
    assert (code, identity) == (-32005, None)


def test_what_curl_sends_by_default_and_is_cut_short_is_a_parse_error(rpc):
    reply = rpc.post(b'{"jsonrpc":"2.0","id":7,', Content_Type="application/x-www-form-urlencoded")
    assert _code(reply) == (-32700, None)


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
def test_json_content_types_are_accepted_however_they_are_written(rpc, kind):
    assert answer(rpc.read(rpc.post(envelope("SendMessage", sending("hi")), Content_Type=kind))["task"]) == "hi"


def test_the_endpoint_answers_with_and_without_a_trailing_slash_and_never_redirects(rpc):
    bodies = [rpc.post(envelope("ListTasks", {"contextId": "none"}), path) for path in ("/a2a", "/a2a/")]
    assert bodies[0].comparable == bodies[1].comparable
    assert bodies[0].status == 200


@pytest.mark.parametrize("verb", ["GET", "PUT", "DELETE", "PATCH"])
def test_other_verbs_are_not_allowed_and_say_which_is(rpc, verb):
    reply = rpc.endpoint.request(verb, "/a2a", None, rpc.headers())
    assert reply.status == 405
    assert "POST" in reply.headers["Allow"]
    assert b"<" not in reply.body


@pytest.mark.parametrize("version", ["1.0", "1.0.7", "1.0.0", None, ""])
def test_the_versions_that_are_spoken(service, rpc, version):
    headers = {name: value for name, value in rpc.headers().items() if name != "A2A-Version"}
    headers |= {"Content-Type": "application/json"} | ({} if version is None else {"A2A-Version": version})
    reply = service.endpoint.request("POST", "/a2a", json.dumps(envelope("ListTasks", {})).encode(), headers)
    assert "result" in reply.json, reply.body


@pytest.mark.parametrize("version", ["9.9", "99.0", "2.0", "1.1", "x"])
def test_a_version_that_is_not_spoken_is_refused_on_both_bindings(service, version):
    for caller in (service.rpc(), service.rest()):
        caller.extra = {"A2A-Version": version}
        for method, params in (("ListTasks", {}), ("SendMessage", sending("hi")), ("GetTask", {"id": "x"})):
            assert caller.refused(method, params).kind == "VERSION_NOT_SUPPORTED"


def test_the_version_may_come_as_a_query_parameter(service, rpc):
    headers = {name: value for name, value in rpc.headers().items() if name != "A2A-Version"}
    headers["Content-Type"] = "application/json"
    body = json.dumps(envelope("ListTasks", {})).encode()
    assert "result" in service.endpoint.request("POST", "/a2a?A2A-Version=1.0", body, headers).json
    refused = service.endpoint.request("POST", "/a2a?A2A-Version=9.9", body, headers).json
    assert refused["error"]["code"] == KINDS["VERSION_NOT_SUPPORTED"][0]


def test_a_body_over_the_limit_is_refused_before_it_is_sent(service, rpc):
    headers = {"Content-Type": "application/json", **rpc.headers()}
    with service.endpoint.begin("POST", "/a2a", headers, length=33 * 1024 * 1024) as raw:
        raw.settimeout(5)
        received = read_until(raw, b'"error"')
    assert received.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400", b"HTTP/1.1 200"))


def test_a_lone_surrogate_is_refused_cleanly(rpc):
    outcome = rpc.outcome(rpc.post(json.dumps(envelope("SendMessage", sending("\ud800"))).encode()))
    assert isinstance(outcome, RefusedError)
    assert outcome.kind in {"PARSE", "INVALID_PARAMS"}


@pytest.mark.parametrize("text", ["\u0000", "\U0001f600 \u2028\u2029\u0085", "a" * 100_000, " ", "\r\n\r\ndata: x"])
def test_strange_text_is_echoed_as_it_is(rpc, text):
    task = rpc.send(text)
    assert state_of(task) == "COMPLETED"
    assert answer(task) == text
    assert task["history"][0]["parts"] == [{"text": text}]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 400, "0.1", "12345678901234567890123", "1.0"])
def test_free_form_numbers_are_kept_as_they_are_written(rpc, number):
    message = json.dumps(saying("hi"))[:-1] + f', "metadata": {{"n": {number}}}}}'
    reply = rpc.post(b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":%s}}' % message.encode())
    outcome = rpc.outcome(reply)
    if isinstance(outcome, RefusedError):
        assert outcome.kind in {"PARSE", "INVALID_PARAMS"}
        assert "e400" in number, "only what is no finite number may be refused"
    else:
        assert f'"n":{number}}}'.encode() in reply.body.replace(b" ", b"")


def test_errors_are_typed_and_name_the_field(rpc):
    params = sending("hi")
    del params["message"]["messageId"]
    refused = rpc.refused("SendMessage", params)
    assert refused.kind == "INVALID_PARAMS"
    assert refused.fields == ["message.messageId"]
