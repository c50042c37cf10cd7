"""Hostile JSON on both bindings: always an A2A error (or an answer), never another exception, and soon."""

from __future__ import annotations

import json
import time

import pytest

from volcanic.protocol import errors, hops, jsonrpc, methods, rest
from volcanic.protocol.errors import A2AError, ErrorKind

SECONDS = 2.0
"""Far above what any of these takes (at most a quarter of a second), far below what a quadratic reader would need."""

MANY = 10**6
KEYS = b"{" + b",".join(b'"k%d":%d' % (index, index) for index in range(MANY)) + b"}"
DEEP = b"[" * 100_000 + b"]" * 100_000


def send(part=b'{"text":"x"}', more=b""):
    return b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[' + part + b"]" + more + b"}}"


def by_rpc(params):
    request = jsonrpc.decode(b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":' + params + b"}")
    return methods.decode_params(request.method, request.params)


def by_rest(params):
    return rest.decode(rest.RouteMatch("SendMessage", {}), b"", params)


def shown(error):
    """Return the kind of a refusal that both bindings can express, shortly."""
    assert json.loads(errors.jsonrpc_error(error, error.id))["error"]["message"]
    status, text = errors.rest_error(error)
    assert 400 <= status < 500
    assert len(text) < 2000
    return error.kind


def outcome(read, body):
    """Return the kind of the refusal, or None."""
    begin = time.perf_counter()
    try:
        read(body)
    except A2AError as error:
        return shown(error)
    finally:
        assert time.perf_counter() - begin < SECONDS
    return None


READ = pytest.mark.parametrize("read", [by_rpc, by_rest])


@READ
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        DEEP,
        b"[" * 100_000,
        b'{"a":' * 100_000,
        send(b'{"data":' + DEEP + b"}"),
        send(more=b',"unknown":' + DEEP),
        send(more=b',"contextId":null,"unknown":' + DEEP),
        b"\xff\xfe",
        b"\xef\xbb\xbf" + send(),
        send().decode().encode("utf-16"),
        send().decode().encode("utf-32"),
        send(b'{"text":"\xff"}'),
        send(b'{"data":"\xff"}'),
        send(more=b',"unknown":"\xff"'),
        send(b'{"text":"\xed\xa0\x80"}'),
        send(b'{"data":"\xed\xa0\x80"}'),
        send(b'{"text":"\xc0\x80"}'),
        send(b'{"text":"\\ud800"}'),
        send(b'{"data":"\\ud800 and so on"}'),
        send(b'{"data":"\\ude00\\ud83d"}'),
        send(more=b',"unknown":"\\ud83d\\u0041"'),
        send(b'{"text":"a\nb"}'),
        send(b'{"text":"\x00"}'),
        send(b'{"data":NaN}'),
        send(b'{"data":Infinity}'),
        send(b'{"data":-Infinity}'),
        send(b'{"data":01}'),
        send(b'{"data":+1}'),
        send(b'{"data":1.}'),
        send(b'{"data":"\\x41"}'),
        send(b"{'text':'x'}"),
        send() + b"x",
        send()[:-1] + b",}",
        b"// comment\n" + send(),
        b"\0" * 1000,
    ],
)
def test_what_is_no_json_is_a_parse_error(read, body):
    assert outcome(read, body) is ErrorKind.PARSE


@READ
@pytest.mark.parametrize(
    "body",
    [
        send(b'{"data":' + b"1" * MANY + b"}"),
        send(b'{"data":1e999999999}'),
        send(b'{"data":-0.0}'),
        send(b'{"text":"\\ud83d\\ude00"}'),
        send(b'{"text":"\\u0000"}'),
        send(b'{"text":"first","text":"second"}'),
        send(b'{"data":' + KEYS + b"}"),
        send(more=b',"metadata":' + KEYS),
        send(more=b',"unknown":' + KEYS),
        send(more=b',"contextId":null,"unknown":' + KEYS),
        send(b'{"data":[' + b",".join([b'{"a":[]}'] * MANY) + b"]}"),
        send(b'{"text":"' + b"x" * 8 * MANY + b'"}'),
        send(b'{"raw":"' + b"QU-_" * 2 * MANY + b'"}'),
    ],
)
def test_what_is_only_odd_or_large_is_taken(read, body):
    assert outcome(read, body) is None


@READ
@pytest.mark.parametrize(
    "body",
    [
        send(b'{"data":' + b"[" * 400 + b"]" * 400 + b"}"),
        send(b",".join([b'{"text":"x"}'] * MANY)),
        send(b",".join([b'{"text":"x","raw":null}'] * MANY)),
        send(b'{"raw":"' + b"QUJD" * 2 * MANY + b'@@@@"}'),
        b'{"message":{"messageId":"m","role":"' + b"x" * 8 * MANY + b'"}}',
        b'{"message":{"messageId":' + b"1" * MANY + b"}}",
        KEYS,
        b"[" + KEYS + b"]",
    ],
)
def test_what_is_wrong_and_large_is_refused(read, body):
    assert outcome(read, body) is ErrorKind.INVALID_PARAMS


@pytest.mark.parametrize("start", [b"[", b'"x', b"1", b'{"jsonrpc":"1.0","x":' + KEYS + b',"id":'])
def test_a_large_envelope_that_is_no_call_is_refused_soon(start):
    begin = time.perf_counter()
    with pytest.raises(A2AError):
        jsonrpc.decode(start + b"1" * 8 * MANY)
    assert time.perf_counter() - begin < SECONDS


def test_a_hop_count_of_a_million_digits_is_read_soon():
    begin = time.perf_counter()
    request = by_rpc(send(more=b',"metadata":{"volcanic.hops":' + b"9" * MANY + b"}"))
    assert hops.read(request.metadata, request.message.metadata) == hops.HOPS_MAX
    assert time.perf_counter() - begin < SECONDS
