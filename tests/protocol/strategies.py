"""What requests and tasks look like, for Hypothesis: valid by construction unless a name says otherwise."""

from __future__ import annotations

import base64

import msgspec
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from volcanic.protocol import timestamps, types

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def raw(values):
    return values.map(lambda value: Raw(msgspec.json.encode(value)))


def maybe(values):
    return st.just(UNSET) | values


METADATA = raw(st.dictionaries(TEXT, JSON, max_size=3))
SIDES = {"metadata": maybe(METADATA), "filename": maybe(TEXT), "media_type": maybe(TEXT)}
PART = st.one_of(
    st.builds(types.Part, text=TEXT, **SIDES),
    st.builds(types.Part, raw=st.binary(max_size=9).map(lambda data: base64.b64encode(data).decode()), **SIDES),
    st.builds(types.Part, url=NAME, **SIDES),
    st.builds(types.Part, data=raw(JSON), **SIDES),
)
CONTEXT_ID = st.from_regex(r"[A-Za-z0-9_-]{1,100}", fullmatch=True)


def message(role):
    return st.builds(
        types.Message,
        message_id=NAME,
        context_id=maybe(CONTEXT_ID),
        task_id=maybe(NAME),
        role=role,
        parts=st.lists(PART, min_size=1, max_size=3),
        metadata=maybe(METADATA),
        extensions=st.lists(TEXT, max_size=2),
        reference_task_ids=st.lists(TEXT, max_size=2),
    )


MESSAGE = message(st.just(types.Role.USER))
LENGTH = st.integers(0, 2**31 - 1)
STAMP = st.floats(0, 2**32).map(timestamps.format_ms)
STATE = st.sampled_from([state for state in types.TaskState if state is not types.TaskState.UNSPECIFIED])
PUSH = st.builds(
    types.TaskPushNotificationConfig,
    id=maybe(NAME),
    url=NAME,
    token=maybe(TEXT),
    authentication=maybe(st.builds(types.AuthenticationInfo, scheme=NAME, credentials=maybe(TEXT))),
)
SEND = st.builds(
    types.SendMessageRequest,
    message=MESSAGE,
    configuration=maybe(
        st.builds(
            types.SendMessageConfiguration,
            accepted_output_modes=st.lists(TEXT, max_size=2),
            task_push_notification_config=maybe(PUSH),
            history_length=maybe(LENGTH),
            return_immediately=st.booleans(),
        ),
    ),
    metadata=maybe(METADATA),
)
REQUESTS = {
    "SendMessage": SEND,
    "SendStreamingMessage": SEND,
    "GetTask": st.builds(types.GetTaskRequest, id=NAME, history_length=maybe(LENGTH)),
    "ListTasks": st.builds(
        types.ListTasksRequest,
        context_id=maybe(NAME),
        status=maybe(STATE),
        page_size=maybe(st.integers(1, 100)),
        page_token=maybe(NAME),
        history_length=maybe(LENGTH),
        status_timestamp_after=maybe(STAMP),
        include_artifacts=st.booleans(),
    ),
    "CancelTask": st.builds(types.CancelTaskRequest, id=NAME, metadata=maybe(METADATA)),
    "SubscribeToTask": st.builds(types.SubscribeToTaskRequest, id=NAME),
    "CreateTaskPushNotificationConfig": st.builds(
        types.TaskPushNotificationConfig,
        id=maybe(NAME),
        task_id=NAME,
        url=NAME,
        token=maybe(TEXT),
    ),
    "GetTaskPushNotificationConfig": st.builds(types.GetTaskPushNotificationConfigRequest, task_id=NAME, id=NAME),
    "ListTaskPushNotificationConfigs": st.builds(
        types.ListTaskPushNotificationConfigsRequest,
        task_id=NAME,
        page_size=maybe(st.integers(1, 100)),
        page_token=maybe(NAME),
    ),
    "DeleteTaskPushNotificationConfig": st.builds(types.DeleteTaskPushNotificationConfigRequest, task_id=NAME, id=NAME),
    "GetExtendedAgentCard": st.builds(types.GetExtendedAgentCardRequest),
}
ARTIFACT = st.builds(
    types.Artifact,
    artifact_id=NAME,
    name=maybe(TEXT),
    description=maybe(TEXT),
    parts=st.lists(PART, min_size=1, max_size=2),
    metadata=maybe(METADATA),
    extensions=st.lists(TEXT, max_size=2),
)
ANY_MESSAGE = message(st.sampled_from([types.Role.USER, types.Role.AGENT]))
STATUS = st.builds(types.TaskStatus, state=STATE, message=maybe(ANY_MESSAGE), timestamp=maybe(STAMP))
TASK = st.builds(
    types.Task,
    id=NAME,
    context_id=maybe(NAME),
    status=STATUS,
    artifacts=st.lists(ARTIFACT, max_size=2),
    history=st.lists(ANY_MESSAGE, max_size=2),
    metadata=maybe(METADATA),
)
STREAM = st.one_of(
    st.builds(types.StreamResponse, task=TASK),
    st.builds(types.StreamResponse, message=ANY_MESSAGE),
    st.builds(
        types.StreamResponse,
        status_update=st.builds(
            types.TaskStatusUpdateEvent,
            task_id=NAME,
            context_id=NAME,
            status=STATUS,
            metadata=maybe(METADATA),
        ),
    ),
    st.builds(
        types.StreamResponse,
        artifact_update=st.builds(
            types.TaskArtifactUpdateEvent,
            task_id=NAME,
            context_id=NAME,
            artifact=ARTIFACT,
            append=st.booleans(),
            last_chunk=st.booleans(),
            metadata=maybe(METADATA),
        ),
    ),
)
