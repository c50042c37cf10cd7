import itertools

import pytest
import trio

from supervisors.child_spec import PERMANENT, TEMPORARY, TRANSIENT
from supervisors.events import EventKind
from supervisors.intensity import Intensity
from supervisors.strategy import Strategy
from supervisors.supervisor import Supervisor
from tests.supervisors.stage import performing

NAMES = "abcde"


def expected(strategy, failed, temporary):
    """B2, written out: who ends (from the right), then who starts (from the left)."""
    concerned = {
        Strategy.ONE_FOR_ONE: NAMES[failed],
        Strategy.ONE_FOR_ALL: NAMES,
        Strategy.REST_FOR_ONE: NAMES[failed:],
    }[strategy]
    ends = [NAMES[failed], *(name for name in reversed(concerned) if name != NAMES[failed])]
    starts = [name for name in concerned if name != temporary]
    return " ".join([*(f"-{name}" for name in ends), *(f"+{name}" for name in starts)])


@pytest.mark.parametrize(
    ("strategy", "failed", "temporary"),
    [row for row in itertools.product(Strategy, range(5), ["", *NAMES]) if NAMES[row[1]] != row[2]],
)
async def test_restarted_set_and_order(stage, autojump_clock, strategy, failed, temporary):
    specs = [stage.spec(name, restart=TEMPORARY if name == temporary else PERMANENT) for name in NAMES]
    sup = Supervisor("s", specs, strategy, **stage.ports)
    async with performing(sup):
        stage.took()
        await stage.end(NAMES[failed])
        assert stage.took() == expected(strategy, failed, temporary)
        taken = temporary and f"-{temporary}" in expected(strategy, failed, temporary)
        assert [child.id for child in sup.describe().children] == [n for n in NAMES if not (taken and n == temporary)]
        assert len(stage.told(EventKind.RESTARTING)) == 1


@pytest.mark.parametrize("strategy", [Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE])
async def test_a_transient_child_that_had_finished_comes_back_with_its_group(stage, autojump_clock, strategy):
    specs = [stage.spec("a"), stage.spec("b", restart=TRANSIENT)]
    async with performing(Supervisor("s", specs, strategy, **stage.ports)):
        await stage.end("b", "return")
        stage.took()
        await stage.end("a")
        assert stage.took() == "-a +a +b"


async def test_a_normal_end_of_a_transient_child_leaves_its_siblings_alone(stage, autojump_clock):
    specs = [stage.spec("a", restart=TRANSIENT), stage.spec("b")]
    async with performing(Supervisor("s", specs, Strategy.ONE_FOR_ALL, **stage.ports)):
        stage.took()
        await stage.end("a", "shutdown")
        assert stage.took() == "-a"


async def test_two_deaths_at_once_are_two_restarts_one_after_the_other(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("abc"), Strategy.ONE_FOR_ONE, Intensity(2, 5.0), **stage.ports)
    async with performing(sup):
        stage.took()
        stage.cue("a")
        stage.cue("c")
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(stage.took().split()) == ["+a", "+c", "-a", "-c"]


@pytest.mark.parametrize("first", ["a", "c"])
async def test_a_sibling_that_died_with_the_first_is_restarted_by_the_group_once(stage, autojump_clock, first):
    sup = Supervisor("s", stage.specs("abc"), Strategy.ONE_FOR_ALL, Intensity(1, 5.0), **stage.ports)
    async with performing(sup):
        stage.took()
        stage.stubborn = {"b": 1.0}
        await stage.end(first)
        # The group is being stopped, waiting for b; the death of another one now belongs to the same restart.
        other = {"a": "c", "c": "a"}[first]
        if other in stage.alive:
            stage.cue(other)
        await trio.sleep(2.0)
        assert sorted(stage.took().split()) == ["+a", "+b", "+c", "-a", "-b", "-c"]


async def test_a_death_during_a_group_start_waits_for_the_group_and_is_then_restarted(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("abc"), Strategy.REST_FOR_ONE, Intensity(5, 50.0), **stage.ports)
    async with performing(sup):
        stage.slow = {"c": 5.0}
        stage.took()
        await stage.end("a")
        assert stage.took() == "-a -c -b +a +b"
        await stage.end("b")
        assert stage.took() == "-b"
        await trio.sleep(5.5)
        assert stage.took() == "+c -c +b"
        await trio.sleep(5.5)
        assert stage.took() == "+c"


async def test_one_for_one_restarts_do_not_wait_for_each_other(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("ab"), Strategy.ONE_FOR_ONE, Intensity(5, 50.0), **stage.ports)
    async with performing(sup):
        stage.slow = {"a": 100.0}
        stage.took()
        await stage.end("a")
        await stage.end("b")
        assert stage.took() == "-a -b +b"


@pytest.mark.parametrize("strategy", [Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE])
async def test_another_child_of_the_group_fails_to_restart_and_is_tried_again(stage, autojump_clock, strategy):
    sup = Supervisor("s", stage.specs("abc"), strategy, Intensity(5, 50.0), **stage.ports)
    async with performing(sup):
        stage.took()
        stage.failing = {"b": 2}
        await stage.end("a")
        await trio.sleep(5.0)
        # The first failure is part of the first round; the second round fails once more, the third succeeds.
        if strategy is Strategy.ONE_FOR_ALL:
            assert stage.took() == "-a -c -b +a !b -a +a !b -a +a +b +c"
        else:
            assert stage.took() == "-a -c -b +a !b !b +b +c"


def test_children_in_order_answers_the_strategy_alone():
    assert Strategy.ONE_FOR_ONE.affected("abc", "b") == ["b"]
    assert Strategy.ONE_FOR_ALL.affected("abc", "b") == ["a", "b", "c"]
    assert Strategy.REST_FOR_ONE.affected("abc", "b") == ["b", "c"]
