import msgspec
import trio

from supervisors.child_spec import ChildSpec
from supervisors.dynamic import DynamicSupervisor
from supervisors.intensity import Intensity
from supervisors.supervisor import Supervisor
from supervisors.tree import TreeNode, adopt
from tests.supervisors.stage import FOREVER, performing


def leaf(identity, state="running", **more):
    return TreeNode(id=identity, kind="worker", state=state, **{"incarnation": 1, **more})


async def test_a_tree_of_supervisors_describes_itself_whole(stage, autojump_clock):
    contexts = DynamicSupervisor("contexts")
    inner = Supervisor("inner", [contexts.as_child(), stage.spec("log")], **stage.ports)
    root = Supervisor("root", [inner.as_child()], **stage.ports)
    assert root.describe() == TreeNode(id="root", kind="supervisor", state="stopped")
    async with performing(root):
        contexts.start_child(stage.spec("ctx-1"))
        await trio.testing.wait_all_tasks_blocked()
        assert root.describe() == TreeNode(
            id="root",
            kind="supervisor",
            state="running",
            incarnation=1,
            children=[
                TreeNode(
                    id="inner",
                    kind="supervisor",
                    state="running",
                    incarnation=1,
                    children=[
                        TreeNode(
                            id="contexts", kind="supervisor", state="running", incarnation=1, children=[leaf("ctx-1")]
                        ),
                        leaf("log"),
                    ],
                )
            ],
        )
        text = msgspec.json.encode(root.describe())
        assert msgspec.json.decode(text, type=TreeNode) == root.describe()


async def test_states_restarts_and_incarnations(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("abcd"), intensity=Intensity(9, 60.0), **stage.ports)
    async with performing(sup):
        await sup.terminate_child("a")
        stage.failing = {"b": 3}
        await stage.end("b")
        stage.slow = {"c": 50.0}
        await stage.end("c")
        assert sup.describe().children == [
            leaf("a", "stopped"),
            leaf("b", "restarting", restarts=2, incarnation=3),
            leaf("c", "starting", restarts=1, incarnation=2),
            leaf("d"),
        ]
        await trio.sleep(60.0)
        assert sup.describe().children[1] == leaf("b", restarts=4, incarnation=5)


async def test_a_child_adds_its_mailbox_its_process_and_its_own_tree(stage, autojump_clock):
    own = leaf("ignored", "stopped", mailbox=7, pid=4711, children=[leaf("x")])
    spec = ChildSpec("a", stage.spec("a").start, describe=lambda: own)
    static, dynamic = Supervisor("s", [spec], **stage.ports), DynamicSupervisor("d")
    async with performing(static), performing(dynamic):
        dynamic.start_child(ChildSpec("b", stage.spec("b").start, describe=lambda: own))
        await trio.testing.wait_all_tasks_blocked()
        for sup, name in ((static, "a"), (dynamic, "b")):
            assert sup.describe().children == [leaf(name, mailbox=7, pid=4711, children=[leaf("x")])]


async def test_dynamic_states(stage, autojump_clock):
    sup = DynamicSupervisor("d", **stage.ports)
    assert sup.describe().state == "stopped"
    async with performing(sup) as performance:
        stage.slow = {"a": FOREVER}
        stage.stubborn = {"b": 3.0}
        stage.failing = {"c": 3}
        for name in "abc":
            sup.start_child(stage.spec(name))
        sup.start_child(stage.spec("d"))
        await trio.testing.wait_all_tasks_blocked()
        performance.scope.cancel()
        await trio.sleep(1.0)
        assert sup.describe().state == "stopping"
        assert {child.id: child.state for child in sup.describe().children} == {"b": "stopping"}


def test_a_node_without_a_describer_stays_as_it_is():
    assert adopt(leaf("a"), None) == leaf("a")


def test_nodes_do_not_share_their_children():
    one, other = leaf("a"), leaf("a")
    one.children.append(leaf("x"))
    assert other.children == []
