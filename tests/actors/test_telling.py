"""What one run tells: whoever joins, at whatever moment, ends up knowing the task as it is stored, and nothing sooner."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace

import msgspec
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import records
from actors.asking import HeldWrites, OwnerSettings
from actors.subscription import Subscription
from actors.task_run import TaskRun
from tests.actors.reader import Reader, texts_of
from volcanic.agent import events
from volcanic.extension import VerdictState
from volcanic.protocol.types import Message, Part, Role
from volcanic.storage.live import LiveLog
from volcanic.storage.operations import Remove, Replace
from volcanic.storage.tasks import RunStamp, TaskFiles, decode_record

TASK = "00000000-0000-4000-8000-000000000000"
WAITING = {VerdictState.INPUT_REQUIRED, VerdictState.AUTH_REQUIRED}


class Files:
    """A disk in memory that takes its time: `tick` runs before and after each job is done."""

    def __init__(self, tick):
        self.tick = tick
        self.sure = 0
        self.content: bytes | None = None

    async def submit(self, *ops):
        self.tick()
        await trio.lowlevel.checkpoint()
        for op in ops:
            if isinstance(op, Remove):
                self.content = None
            elif isinstance(op, Replace) and op.path.endswith(f"{TASK}.json"):
                self.content = op.data
                record = decode_record(op.data, TASK)
                assert record is not None
                assert record.version >= self.sure, "an older state took the place of a newer one"
                if op.durable:
                    self.sure = record.version
        self.tick()


class Scene:
    """One task through several runs, and followers who join at given moments."""

    def __init__(self, joins, *, early):
        self.moments = 0
        self.joins = sorted(joins, reverse=True)
        self.readers: list[Reader] = []
        self.files = Files(self.tick)
        self.run: TaskRun | None = None
        self.early = early
        self.waiters: list[Subscription] = []

    def subscription(self, *, until_interrupted):
        scene = self

        class Sink(Reader):
            def event(self, version, payload):
                assert version <= scene.files.sure, "shown before it was stored"
                super().event(version, payload)

        reader = Sink()
        self.readers.append(reader)
        return Subscription(reader, 2**30, until_interrupted=until_interrupted)

    def tick(self):
        """Let one moment pass; who wants to join by now does."""
        self.moments += 1
        while self.joins and self.joins[-1] <= self.moments and self.run is not None and not self.run.over:
            if not self.run.durable():
                return
            self.joins.pop()
            self.run.follow(self.subscription(until_interrupted=False))

    async def play(self, record, script, outcome):
        ground = SimpleNamespace(
            disk=self.files,
            live=LiveLog("/nowhere/live"),
            clock=SimpleNamespace(wall=itertools.count(1000).__next__),
            settings=OwnerSettings(),
            stamp=RunStamp(boot="b", slot="s", incarnation=1),
        )
        assistant = SimpleNamespace(redact=lambda text: text)
        workspace = SimpleNamespace(
            path="/ws",
            tasks=TaskFiles(SimpleNamespace(task=lambda task_id: f"/ws/tasks/{task_id}.json")),  # type: ignore[arg-type]
            assistant=assistant,
        )
        run = self.run = TaskRun(ground, workspace, HeldWrites(), record)  # type: ignore[arg-type]
        await run.start(None, durable=True)
        if self.early:
            run.follow_from_start(self.subscription(until_interrupted=True))
            self.early = False
        run.adopt(self.waiters)

        async def converse(_prompt, emit):
            for event in script:
                self.tick()
                if event == "flush":
                    if run.followed:
                        run._telling.show()
                        run._telling.flush()
                else:
                    await emit(event)
            self.tick()
            return outcome

        async def open_agent():
            await trio.lowlevel.checkpoint()
            return SimpleNamespace(run=converse)

        await run.execute(open_agent, None)  # type: ignore[arg-type]
        assert run.over
        self.waiters = run.staying
        return run.record


def artifact(artifact_id, text):
    return msgspec.Raw(json.dumps({"artifactId": artifact_id, "parts": [{"text": text}]}).encode())


word = st.text(alphabet="abcdefg ", min_size=1, max_size=6)
step = st.one_of(
    word.map(events.TextDelta),
    st.just(events.MessageStart()),
    st.just("flush"),
    st.just(events.StatusNote("thinking")),
    st.builds(
        events.ArtifactNote,
        artifact=st.builds(artifact, st.sampled_from("xy"), word),
        append=st.booleans(),
        last_chunk=st.booleans(),
    ),
)
one_run = st.lists(step, max_size=12)


def response_of(script):
    """Return the text of the last message that had any, as the agent's loop reports it."""
    found, current = "", ""
    for event in script:
        if isinstance(event, events.MessageStart):
            current = ""
        elif isinstance(event, events.TextDelta):
            current += event.text
            found = current
    return found


def message():
    return Message(message_id="m", role=Role.USER, parts=[Part(text="hello")])


@given(
    st.lists(st.tuples(one_run, st.sampled_from(sorted(WAITING))), max_size=2),
    one_run,
    st.sampled_from([VerdictState.COMPLETED, VerdictState.FAILED, VerdictState.REJECTED]),
    st.lists(st.integers(0, 40), max_size=6),
    st.booleans(),
)
@settings(max_examples=250, deadline=None)
async def test_whoever_joins_at_any_moment_reconstructs_the_task_as_it_is_stored(turns, last, end, joins, early):
    scene = Scene(joins, early=early)
    stamp = RunStamp(boot="b", slot="s", incarnation=1)
    record = records.fresh("alice", "op", TASK, "c", message(), stamp, 1.0)
    stored = []
    for number, (script, state) in enumerate([*turns, (last, end)]):
        script = [events.MessageStart(), *script]  # noqa: PLW2901 - each response begins with one
        if number:
            record = records.continued(record, "op", message(), stamp, 2.0)
        response = response_of(script)
        text = response if state is VerdictState.COMPLETED else "why"
        record = await scene.play(record, script, events.Outcome(state, text, response))
        stored.append(json.loads(msgspec.json.encode(record.task)))
        assert scene.files.sure == record.version
    for number, reader in enumerate(scene.readers):
        first_only = early and number == 0  # the stream that started the first run ends with it
        final = stored[0] if first_only else stored[-1]
        assert reader.ends == [""]
        assert reader.states[-1] == final["status"]["state"]
        assert reader.artifacts == texts_of(final)
    if early:
        assert scene.readers


@given(st.integers(0, 3))
@settings(deadline=None)
async def test_a_plain_message_is_the_only_event_while_nobody_has_seen_a_task_and_else_the_tasks_answer(flushes):
    scene = Scene([], early=True)
    stamp = RunStamp(boot="b", slot="s", incarnation=1)
    record = records.fresh("alice", "op", TASK, "c", message(), stamp, 1.0)
    script = [events.MessageStart(), events.DirectMessage("directly"), *["flush"] * flushes]
    reader_sinks = scene.readers
    record = await _direct(scene, record, script)
    if record is None:
        assert scene.files.content is None
        (kind,) = {next(iter(event)) for reader in reader_sinks for event in reader.events}
        assert kind == "message"
        return
    final = json.loads(msgspec.json.encode(record.task))
    assert texts_of(final) == {"response": "directly"}
    for reader in reader_sinks:
        assert reader.artifacts == {"response": "directly"}
        assert reader.states[-1] == "TASK_STATE_COMPLETED"


async def _direct(scene, record, script):
    class Messages(Reader):
        def event(self, version, payload):
            if b'"message"' in bytes(payload)[:12]:
                self.events.append(json.loads(payload))
            else:
                super().event(version, payload)

    made = Messages()
    scene.readers.append(made)

    def subscription(*, until_interrupted):
        assert until_interrupted
        return Subscription(made, 2**30, until_interrupted=True)

    scene.subscription = subscription
    record = await scene.play(record, script, events.Outcome(VerdictState.COMPLETED, "", ""))
    return None if scene.files.content is None else record
