"""Provider errors: which are tried again, when, and what stays of them."""

from __future__ import annotations

import pytest
import trio

from tests.agent.kit import Stage, shape
from volcanic.agent.events import MessageEnd, Outcome
from volcanic.agent.messages import StopReason
from volcanic.agent.retry import RetryPolicy
from volcanic.extension import VerdictState
from volcanic.redact import KEYS


async def test_a_transient_error_is_tried_again_after_two_seconds(autojump_clock: trio.testing.MockClock) -> None:
    stage = Stage([{"text": "he"}, {"error": "overloaded", "retryable": True}, {"text": "hello"}])
    start = trio.current_time()
    assert await stage.say("x") == Outcome(VerdictState.COMPLETED, "hello", "hello")
    assert trio.current_time() - start == 2
    assert stage.of(MessageEnd) == [MessageEnd("he", StopReason.ERROR), MessageEnd("hello", StopReason.STOP)]
    assert shape(stage.transcript.messages()) == ["user x", "assistant he||error", "assistant hello||stop"]
    assert shape(stage.model.asked[-1]) == ["user x"]
    assert stage.transcript.lasts == [False, False, True]


async def test_three_retries_with_doubling_delays_then_the_run_fails(autojump_clock: trio.testing.MockClock) -> None:
    stage = Stage([{"error": "overloaded", "retryable": True}])
    start = trio.current_time()
    assert await stage.say("x") == Outcome(VerdictState.FAILED, "overloaded", error="overloaded")
    assert trio.current_time() - start == 2 + 4 + 8
    assert len(stage.model.asked) == 4
    assert stage.transcript.lasts == [False, False, False, False, True]


async def test_a_response_in_between_starts_the_count_anew(autojump_clock: object) -> None:
    from tests.agent.kit import answer_tool

    error = {"error": "busy", "retryable": True}
    steps = [error, error, error, {"tool": "look"}, error, error, error, {"text": "done"}]
    stage = Stage(steps, [answer_tool("look", "")])
    assert (await stage.say("x")).text == "done"


async def test_a_final_error_fails_at_once_with_its_text_scrubbed(autojump_clock: trio.testing.MockClock) -> None:
    KEYS.register(["k_fedcba9876543210"])
    stage = Stage([{"text": "par"}, {"error": "quota for k_fedcba9876543210"}])
    start = trio.current_time()
    assert await stage.say("x") == Outcome(VerdictState.FAILED, "quota for [redacted]", error="quota for [redacted]")
    assert trio.current_time() == start
    assert b"k_fedcba9876543210" not in b"".join(stage.transcript.lines)


async def test_a_failed_run_leaves_queued_texts_and_the_session_usable() -> None:
    script = {"rules": [{"textPrefix": "bad", "steps": [{"error": "quota"}]}]}
    stage = Stage(script)
    stage.session.follow_up("later")
    assert (await stage.say("bad")).state is VerdictState.FAILED
    assert (await stage.say("good")).text == "later"
    assert shape(stage.model.asked[1]) == ["user bad", "user good"]


async def test_abort_ends_the_wait_before_a_retry(autojump_clock: trio.testing.MockClock) -> None:
    stage = Stage([{"error": "overloaded", "retryable": True}])
    outcomes: list[Outcome] = []

    async def say() -> None:
        outcomes.append(await stage.say("x"))

    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(say)
        await trio.sleep(1)
        await stage.session.abort()
        assert not stage.session.running
    assert outcomes == [Outcome(VerdictState.CANCELED)]
    assert trio.current_time() - start == 1


@pytest.mark.parametrize(("failures", "delay"), [(1, 2), (2, 4), (5, 32), (6, 60), (7, 60), (8, None)])
def test_delays_are_capped(failures: int, delay: float | None) -> None:
    assert RetryPolicy(attempts=7).delay(failures) == delay
