"""What one run tells its followers: the snapshot, the text as it grows, artifacts, states, and the end.

Everything here is synchronous: a follower is registered and given its snapshot in one step, so that what is not in the
snapshot comes as an event, and nothing comes twice.
"""

from __future__ import annotations

import msgspec

from actors import artifacts, rendering
from actors.subscription import Subscription
from volcanic.protocol.states import is_terminal
from volcanic.protocol.types import Artifact, Message, Task


class Telling:
    """The followers of one run. `task` is always the task as it was last stored."""

    def __init__(self, task: Task, version: int) -> None:
        self.task = task
        self.version = version
        self.artifacts: list[Artifact] = list(task.artifacts)
        """Finished and unfinished ones; the unfinished are stored when they are finished, or with the run's end."""
        self.shown = False
        """Whether any caller has seen the task; until then the run may still answer with a plain message."""
        self._text = artifacts.ResponseText()
        self._followers: list[Subscription] = []
        self._early: list[Subscription] = []

    def __len__(self) -> int:
        return len(self._followers) + len(self._early)

    def follow_from_start(self, subscription: Subscription) -> None:
        """Register the stream that started the run; its snapshot comes with the first thing there is to show."""
        self._early.append(subscription)

    def follow(self, subscription: Subscription) -> None:
        """Give the snapshot and register."""
        self.flush()
        self.show()
        self._snapshot(subscription)
        self._followers = [*(follower for follower in self._followers if not follower.ended), subscription]

    def adopt(self, followers: list[Subscription]) -> None:
        """Register followers who have seen the task as it was before this run, and tell them where it stands."""
        self._followers.extend(followers)
        if followers:
            self.shown = True
            for follower in followers:
                follower.offer(self.version, rendering.status_event(self.task))

    def show(self) -> None:
        """Give the snapshot to those who started the run and have seen nothing yet."""
        self.shown = True
        early, self._early = self._early, []
        for subscription in early:
            self._snapshot(subscription)
            self._followers.append(subscription)

    def add_text(self, text: str) -> None:
        """Take a delta of assistant text; it goes out with the next flush."""
        if self._text.add(text):
            self.flush()

    def restart_text(self) -> None:
        """Begin a new assistant message."""
        self.flush()
        self._text.restart()

    def lagging(self) -> list[Subscription]:
        """Return the followers who have not read all they were sent, and may yet catch up."""
        return [follower for follower in self._followers if follower.lags()]

    def flush(self) -> None:
        """Send the text that waits."""
        chunk = self._text.flush()
        if chunk is not None:
            self._send_chunk(chunk)

    def knows(self, artifact_id: str) -> bool:
        """Whether there is an artifact with this id."""
        return any(old.artifact_id == artifact_id for old in self.artifacts)

    def add_artifact(self, version: int, artifact: Artifact, *, append: bool, last_chunk: bool) -> None:
        """Take an artifact or a piece of one, and tell of it; `version` is 0 when it was not stored.

        Both in one step: who follows from here on has it in the snapshot and gets no event of it.
        """
        self.flush()
        if self._audience():
            self._send(version, rendering.artifact_event(self.task, artifact, append=append, last_chunk=last_chunk))
        self.artifacts = artifacts.merge(self.artifacts, artifact, append=append)

    def send_status(self) -> None:
        """Tell where the stored task stands."""
        self.flush()
        if self._audience():
            self._send(self.version, rendering.status_event(self.task))

    def end(self, response: str) -> list[Subscription]:
        """Tell the end, which is stored now; `show` came before it was.

        Closes whom it ends for, and returns those who stay for the task's next run.
        """
        chunk = self._text.finish(response)
        if chunk is not None:
            self._send_chunk(chunk)
        self.send_status()
        terminal = is_terminal(self.task.status.state)
        staying = [follower for follower in self._followers if not terminal and not follower.until_interrupted]
        for follower in self._followers:
            if follower not in staying:
                follower.close()
        self._followers = []
        return [follower for follower in staying if not follower.ended]

    def end_with_message(self, message: Message) -> None:
        """End as a plain message: the only event of a stream that has seen nothing yet."""
        for subscription in self._early:
            subscription.offer(0, rendering.message_result(message))
            subscription.close()
        self._early = []

    def drop(self, reason: str) -> None:
        """End every stream without a final state: it could not be stored."""
        for subscription in (*self._early, *self._followers):
            subscription.close(reason)
        self._early, self._followers = [], []

    def _audience(self) -> bool:
        self.show()
        self._followers = [follower for follower in self._followers if not follower.ended]
        return bool(self._followers)

    def _snapshot(self, subscription: Subscription) -> None:
        text = self._text.text()
        shown = artifacts.with_response(self.artifacts, text) if text else self.artifacts
        task = msgspec.structs.replace(self.task, artifacts=list(shown))
        subscription.offer(self.version, rendering.task_result(task))

    def _send_chunk(self, chunk: artifacts.Chunk) -> None:
        # Without a version: text is not stored before the end, and belongs to the state that follows there.
        if self._audience():
            self._send(
                0, rendering.artifact_event(self.task, chunk.artifact, append=chunk.append, last_chunk=chunk.last)
            )

    def _send(self, version: int, payload: bytes) -> None:
        for follower in self._followers:
            follower.offer(version, payload)
