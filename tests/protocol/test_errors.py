from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from volcanic.protocol import errors
from volcanic.protocol.errors import TABLE, A2AError, ErrorKind

SPEC = {
    "PARSE": (-32700, 400),
    "INVALID_REQUEST": (-32600, 400),
    "METHOD_NOT_FOUND": (-32601, 404),
    "INVALID_PARAMS": (-32602, 400),
    "INTERNAL": (-32603, 500),
    "TASK_NOT_FOUND": (-32001, 404),
    "TASK_NOT_CANCELABLE": (-32002, 400),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (-32003, 400),
    "UNSUPPORTED_OPERATION": (-32004, 400),
    "CONTENT_TYPE_NOT_SUPPORTED": (-32005, 400),
    "INVALID_AGENT_RESPONSE": (-32006, 500),
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": (-32007, 400),
    "EXTENSION_SUPPORT_REQUIRED": (-32008, 400),
    "VERSION_NOT_SUPPORTED": (-32009, 400),
    "UNAVAILABLE": (-32050, 503),
    "LIMITED": (-32051, 429),
}
HTTP_ONLY = {
    "UNAUTHENTICATED": (-32000, 401),
    "NOT_FOUND": (-32601, 404),
    "METHOD_NOT_ALLOWED": (-32600, 405),
    "UNSUPPORTED_MEDIA_TYPE": (-32005, 415),
    "BODY_TOO_LARGE": (-32600, 413),
    "BODY_TIMEOUT": (-32600, 408),
    "SUCCESSOR": (-32050, 503),
}


def test_what_http_refuses_has_its_own_statuses():
    assert {kind.name: row[:2] for kind, row in TABLE.items() if kind.name not in SPEC} == HTTP_ONLY


@pytest.mark.parametrize("name", SPEC)
def test_codes_and_statuses_are_those_of_the_specification(name):
    row = TABLE[ErrorKind[name]]
    assert (row.code, row.http) == SPEC[name]
    if -32010 < row.code <= -32001:
        assert row.reason == name


def test_a_jsonrpc_error_is_http_200_but_for_what_http_itself_refuses():
    assert {kind.name: row.rpc_http for kind, row in TABLE.items() if row.rpc_http != 200} == {
        "UNAUTHENTICATED": 401,
        "NOT_FOUND": 404,
        "METHOD_NOT_ALLOWED": 405,
        "BODY_TIMEOUT": 408,
        "BODY_TOO_LARGE": 413,
        "LIMITED": 429,
    }


def test_every_kind_has_a_row_with_a_text_of_its_own():
    assert set(TABLE) == set(ErrorKind)
    assert all(row.text and row.reason.isupper() and row.status.isupper() for row in TABLE.values())


def test_the_default_text_is_the_tables():
    assert str(A2AError(ErrorKind.PARSE)) == "parse: Invalid JSON payload"
    assert A2AError(ErrorKind.PARSE, "why").message == "why"


def test_a_task_not_found_reads_the_same_for_every_task():
    assert errors.jsonrpc_error(errors.task_not_found(), Raw(b'"1"')) == (
        b'{"jsonrpc":"2.0","id":"1","error":{"code":-32001,"message":"Task not found","data":'
        b'[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}]}}'
    )
    status, body = errors.rest_error(errors.task_not_found())
    assert status == 404
    assert json.loads(body) == {
        "error": {
            "code": 404,
            "status": "NOT_FOUND",
            "message": "Task not found",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "TASK_NOT_FOUND",
                    "domain": "a2a-protocol.org",
                },
            ],
        },
    }


def test_a_busy_context_is_told_to_retry():
    error = errors.context_busy()
    assert (error.kind, error.message) == (
        ErrorKind.UNSUPPORTED_OPERATION,
        "context busy, retry when the current task ends",
    )


def test_a_fault_in_a_member_names_it_after_the_reason():
    error = errors.invalid_params("message.parts", "message.parts must hold at least one part")
    info, violation = json.loads(errors.jsonrpc_error(error, None))["error"]["data"]
    assert info["reason"] == "INVALID_PARAMS"
    assert violation == {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [
            {"field": "message.parts", "description": "message.parts must hold at least one part"},
        ],
    }


@pytest.mark.parametrize(("seconds", "shown"), [(1.5, "1.500s"), (0, "0.000s"), (-3, "0.000s")])
def test_a_limit_says_when_to_come_back(seconds, shown):
    error = A2AError(ErrorKind.LIMITED, retry_after=seconds)
    status, body = errors.rest_error(error)
    assert status == 429
    assert json.loads(body)["error"]["details"][1] == {
        "@type": "type.googleapis.com/google.rpc.RetryInfo",
        "retryDelay": shown,
    }


def test_a_missing_key_has_one_body_on_every_binding():
    error = A2AError(ErrorKind.UNAUTHENTICATED)
    body = b'{"error":{"code":401,"status":"UNAUTHENTICATED","message":"A valid API key is required"}}'
    assert errors.rest_error(error) == (401, body)
    assert errors.jsonrpc_error(error, Raw(b"1")) == body


@pytest.mark.parametrize("kind", ErrorKind)
def test_a_refusal_crosses_the_owner_api_unchanged(kind):
    error = errors.from_refusal(kind.value, "why", "a.b")
    assert (error.kind, error.message, error.field) == (kind, "why", "a.b")


def test_a_refusal_of_a_kind_unknown_here_is_an_internal_error_and_tells_nothing():
    error = errors.from_refusal("newer", "secret", "a.b")
    assert (error.kind, error.message, error.field) == (ErrorKind.INTERNAL, "Internal error", "")


@given(st.sampled_from(ErrorKind), st.text(st.characters(exclude_categories=["Cs"])), st.booleans())
def test_any_error_is_an_object_of_its_binding(kind, text, named):
    error = A2AError(kind, text, field="f" if named else "")
    status, body = errors.rest_error(error)
    shown = json.loads(body)["error"]
    assert shown["code"] == status == TABLE[kind].http
    assert shown["message"] == error.message
    if kind is not ErrorKind.UNAUTHENTICATED:
        envelope = json.loads(errors.jsonrpc_error(error, None))
        assert envelope["id"] is None
        assert envelope["error"]["code"] == TABLE[kind].code
        assert envelope["error"]["data"] == shown["details"]
