from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from volcanic.protocol import errors, jsonrpc
from volcanic.protocol.errors import A2AError, ErrorKind


def refused(body):
    """Return the kind, the id and the message of the refusal."""
    with pytest.raises(A2AError) as caught:
        jsonrpc.decode(body)
    known = caught.value.id
    return caught.value.kind, None if known is None else bytes(known), caught.value.message


def call(**changes):
    members = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t"}} | changes
    return json.dumps({name: value for name, value in members.items() if value is not ...}).encode()


@pytest.mark.parametrize(
    "spelled",
    ['"1"', '""', "1", "-7", "0", "1.50", "1e3", "1" + "0" * 400, '"\\u00e9\\ud83d\\ude00"', '"é"', "null", "1e999"],
)
def test_the_id_comes_back_byte_for_byte(spelled):
    request = jsonrpc.decode(f'{{"jsonrpc":"2.0","id": {spelled} ,"method":"GetTask"}}'.encode())
    assert jsonrpc.success(request.id, b"{}") == f'{{"jsonrpc":"2.0","id":{spelled},"result":{{}}}}'.encode()
    failed = errors.jsonrpc_error(errors.task_not_found(), request.id)
    assert failed.startswith(f'{{"jsonrpc":"2.0","id":{spelled},"error":{{'.encode())


def test_the_longest_id_is_taken():
    longest = "x" * (jsonrpc.ID_BYTES - 2)
    assert bytes(jsonrpc.decode(call(id=longest)).id) == f'"{longest}"'.encode()


def test_a_call_without_id_is_answered_with_null():
    assert bytes(jsonrpc.decode(call(id=...)).id) == b"null"


def test_parameters_may_be_left_out_and_are_kept_as_they_were():
    assert bytes(jsonrpc.decode(call(params=...)).params) == b"{}"
    body = b'{"params" : {"a" : 1.0} ,"jsonrpc":"2.0","method":"X","id":1}'
    assert bytes(jsonrpc.decode(body).params) == b'{"a" : 1.0}'


@pytest.mark.parametrize("wrong", [True, False, [], {}, [1], {"a": 1}, "x" * (jsonrpc.ID_BYTES - 1)])
def test_an_id_that_is_none_is_refused_and_not_repeated(wrong):
    kind, known, text = refused(call(id=wrong))
    assert (kind, known) == (ErrorKind.INVALID_REQUEST, None)
    assert text.startswith("id must be")


@pytest.mark.parametrize("version", ["1.0", "2", 2.0, None, ..., ["2.0"]])
def test_another_version_is_refused_with_the_id(version):
    assert refused(call(jsonrpc=version)) == (ErrorKind.INVALID_REQUEST, b"1", 'jsonrpc must be "2.0"')


@pytest.mark.parametrize("method", [..., None, 5, {}, []])
def test_a_method_that_is_no_name_is_refused_with_the_id(method):
    assert refused(call(method=method)) == (ErrorKind.INVALID_REQUEST, b"1", "method must be a string")


def test_of_two_faults_the_envelope_never_repeats_a_bad_id():
    assert refused(call(method=5, id=[1]))[:2] == (ErrorKind.INVALID_REQUEST, None)


@pytest.mark.parametrize("body", [b"[]", b"[1,2]", b"[" + call() + b"]"])
def test_a_batch_is_refused(body):
    assert refused(body) == (ErrorKind.INVALID_REQUEST, None, "batches are not supported")


@pytest.mark.parametrize("body", [b'"hi"', b"null", b"5", b"true"])
def test_what_is_no_object_is_refused(body):
    assert refused(body) == (ErrorKind.INVALID_REQUEST, None, "the request must be an object")


def test_the_last_of_two_equal_members_counts():
    assert jsonrpc.decode(b'{"jsonrpc":"2.0","method":"A","id":1,"method":"B"}').method == "B"


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_refused_or_read(body):
    try:
        jsonrpc.decode(body)
    except A2AError as error:
        assert error.kind in {ErrorKind.PARSE, ErrorKind.INVALID_REQUEST}  # noqa: PT017 - reading is an outcome too


@given(st.data())
def test_a_damaged_call_is_refused_or_read(data):
    body = bytearray(call())
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.integers(0, len(body)))])
    try:
        jsonrpc.decode(cut)
    except A2AError as error:
        assert error.kind in {ErrorKind.PARSE, ErrorKind.INVALID_REQUEST}  # noqa: PT017 - reading is an outcome too


def test_a_reply_holds_its_result_unread():
    assert jsonrpc.success(Raw(b"7"), Raw(b'{"a":1.0}')) == b'{"jsonrpc":"2.0","id":7,"result":{"a":1.0}}'
