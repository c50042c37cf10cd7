"""The data model against the official one: the same JSON, both ways, for whatever a task or an event may hold."""

from __future__ import annotations

import json

import msgspec
import pytest
from a2a.types import a2a_pb2
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.strategies import REQUESTS, STREAM, TASK
from volcanic.protocol import types
from volcanic.protocol.methods import METHODS

MODELS = {types.Task: TASK, types.StreamResponse: STREAM} | {
    METHODS[name].request: requests for name, requests in REQUESTS.items()
}


def official(model):
    return getattr(a2a_pb2, model.__name__)


@pytest.mark.parametrize("model", MODELS)
def test_the_members_are_the_official_ones(model):
    ours = {field.encode_name for field in msgspec.structs.fields(model)}
    assert ours == {field.json_name for field in official(model).DESCRIPTOR.fields}


def test_the_enums_are_the_official_ones():
    assert set(types.TaskState) == set(a2a_pb2.TaskState.keys())
    assert set(types.Role) == set(a2a_pb2.Role.keys())


@given(st.data())
@pytest.mark.parametrize("model", MODELS)
def test_what_is_encoded_is_decoded(model, data):
    wire = types.encode(data.draw(MODELS[model]))
    assert types.encode(msgspec.json.decode(wire, type=model)) == wire


@given(st.data())
@pytest.mark.parametrize("model", MODELS)
def test_the_official_model_reads_what_is_written_here_and_the_other_way_round(model, data):
    wire = types.encode(data.draw(MODELS[model]))
    theirs = json_format.Parse(wire, official(model)())
    written = json_format.MessageToJson(theirs, indent=None).encode()
    ours = types.encode(msgspec.json.decode(written, type=model))
    assert json_format.Parse(ours, official(model)()) == theirs


def test_a_page_of_tasks_holds_all_four_members():
    page = types.ListTasksResponse(tasks=[], next_page_token="", page_size=50, total_size=0)
    assert json.loads(types.encode(page)) == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
    configs = types.ListTaskPushNotificationConfigsResponse(configs=[])
    assert json.loads(types.encode(configs)) == {"configs": [], "nextPageToken": ""}
