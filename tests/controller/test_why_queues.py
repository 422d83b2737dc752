"""What ``why`` says of queues."""

from admission.answers import why
from admission.answers.why import State
from admission.base import patches
from admission.kube import resources
from tests.answers.rights import OfTeam
from tests.controller.world import ready_world


def test_a_local_queue_whose_namespace_is_not_selected_admits_nothing() -> None:
    world = ready_world()
    assert why.explain(world.store, "ml", "localqueue/team-a").state is State.ACTIVE
    selector = {"matchLabels": {"team": "yes"}}
    change = patches.merge({"spec": {"namespaceSelector": selector}})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", change)
    world.settle()
    answer = why.explain(world.store, "ml", "localqueue/team-a")
    assert answer.state is State.INACTIVE
    assert "does not serve its namespace" in answer.message
    assert why.explain(OfTeam(world.store, "ml"), "ml", "localqueue/team-a").state is State.ACTIVE
