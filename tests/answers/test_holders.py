"""Who holds what, since when, own or borrowed, and what may take it back."""

from admission.answers import holders, owning
from admission.answers.holders import HeldQuota, Holder, Running
from admission.base import names
from tests.answers.clusters import GPU, holding, pod, queue, related
from tests.builders.metadata import CREATED, Document, make_condition

LATER = "2026-01-01T01:00:00Z"


def one(*documents: Document, queues: tuple[Document, ...]) -> Holder:
    (found,) = holders.of(related(*documents, queues=queues))
    return found


def test_a_holder_is_told_with_its_pods_and_nodes() -> None:
    documents = (
        holding("w", "research", 2, annotations={names.REQUESTER: "ada"}), pod("p", "w", 2),
    )  # fmt: skip
    found = one(*documents, queues=(queue("research", 8, 2),))
    assert (found.workload, found.owner, found.requester) == ("w", "Job job-w", "ada")
    assert (found.state, found.since) == ("admitted", CREATED)
    assert found.held == (HeldQuota(flavor="a100", resource=GPU, amount=2),)
    assert found.pods == (Running(name="p", node="n1", gpus={GPU: 2}),)


def test_who_asked_is_unknown_where_nobody_saw_it() -> None:
    assert one(holding("w", "r", 1), queues=(queue("r", 8, 1),)).requester == owning.UNKNOWN


def test_what_is_borrowed_is_counted_on_those_that_are_preempted_first() -> None:
    documents = (
        holding("old", "research", 4),
        holding("new", "research", 4, at=LATER),
        holding("high", "research", 4, at=LATER, priority=5),
    )
    queues = (queue("research", 6, 12), queue("prod", 6, 0))
    found = {
        h.workload: h.held[0].borrowed for h in holders.of(related(*documents, queues=queues))
    }
    assert found == {"new": 4, "old": 2, "high": 0}


def test_who_may_take_it_back_follows_the_policies() -> None:
    queues = (queue("research", 2, 4), queue("prod", 8, 0), queue("dev", 8, 0))
    found = one(holding("w", "research", 4, priority=3), queues=queues)
    assert found.taken_back_by == (
        "Workloads of queue research with a priority above 3",
        "one of the queues dev, prod when it needs its own quota",
    )


def test_own_quota_is_reclaimed_by_nobody() -> None:
    queues = (queue("research", 8, 4, preemption={}), queue("prod", 8, 0))
    assert one(holding("w", "research", 4), queues=queues).taken_back_by == ()


def test_only_what_is_counted_as_borrowed_is_reclaimed() -> None:
    documents = (holding("old", "research", 4), holding("new", "research", 4, at=LATER))
    queues = (queue("research", 4, 8, preemption={}), queue("prod", 8, 0))
    found = {h.workload: h.taken_back_by for h in holders.of(related(*documents, queues=queues))}
    assert found == {"old": (), "new": ("queue prod when it needs its own quota",)}


def test_reclaim_from_lower_priorities_only_says_so() -> None:
    policy = {"reclaimWithinCohort": "LowerPriority"}
    queues = (queue("research", 2, 4, preemption={}), queue("prod", 8, 0, preemption=policy))
    assert one(holding("w", "research", 4), queues=queues).taken_back_by == (
        "queue prod when it needs its own quota, for Workloads with a priority above 0",
    )


def test_a_minimum_run_time_is_told_as_the_time_until_which_others_go_first() -> None:
    own = queue("research", 8, 4, annotations={names.MINIMUM_RUN_TIME: "2h"})
    assert one(holding("w", "research", 4), queues=(own,)).not_before == "2026-01-01T02:00:00Z"


def test_what_leaves_is_taken_back_by_nobody() -> None:
    evicted = holding("w", "research", 4, make_condition("Evicted"))
    found = one(evicted, queues=(queue("research", 8, 4),))
    assert (found.state, found.taken_back_by) == ("releasing", ())


def test_a_pod_outside_every_queue_holds_gpus_without_quota() -> None:
    stray = pod("stray", "", 3)
    del stray["metadata"]["labels"]
    found = one(stray, queues=(queue("research", 8, 0),))
    assert (found.workload, found.owner, found.state) == ("", "Pod stray", "no quota")
    assert found.pods[0].gpus == {GPU: 3}


def test_holders_are_found_by_node_queue_and_user() -> None:
    documents = (
        holding("a", "research", 2, annotations={names.REQUESTER: "ada"}),
        pod("a1", "a", 1), pod("a2", "a", 1, node="n2"),
        holding("b", "prod", 2),
    )  # fmt: skip
    found = holders.of(related(*documents, queues=(queue("research", 8, 2), queue("prod", 8, 2))))
    (here,) = holders.on_node(found, "n2")
    assert [one.name for one in here.pods] == ["a2"]
    assert [one.workload for one in holders.in_queue(found, "prod")] == ["b"]
    assert [one.workload for one in holders.in_queue(found, "ml/research")] == ["a"]
    assert [one.workload for one in holders.of_user(found, "ada")] == ["a"]


def test_the_document_says_the_same() -> None:
    documents = (holding("w", "research", 4), pod("p", "w", 4))
    read = related(*documents, queues=(queue("research", 2, 4), queue("prod", 8, 0)))
    found = holders.document(holders.of(read), read.missing)
    (held,) = found["holders"]
    assert (found["kind"], found["missing"]) == ("Holders", [])
    assert held["held"] == [{"flavor": "a100", "resource": GPU, "amount": "4", "borrowed": "2"}]
    assert held["pods"] == [{"name": "p", "node": "n1", "gpus": {GPU: "4"}, "ending": False}]
    assert len(held["takenBackBy"]) == 2
