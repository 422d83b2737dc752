"""The catalogue of reasons: one sentence each, that says what Kueue's condition says."""

import re
import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base import causes
from admission.base.causes import EndingPods, LargestNode
from admission.base.conditions import PreemptionReason, Text, WaitReason
from admission.base.names import FlavorName, PodSetName
from admission.reasons import kueue, next_steps, reading, sentences
from admission.reasons.next_steps import CATALOGUE, Code
from admission.reasons.sentences import Lack

GPU = "nvidia.com/gpu"
A100 = Lack(GPU, "a100", "8", "3", "16", holders=(("team-b", "6"), ("team-a", "2")))
H100 = Lack(GPU, "h100", "8", "0", "8")
LARGE = LargestNode(GPU, "h100", 16, 8)
NEVER_TOGETHER = causes.NoPlace(
    flavors=(FlavorName("a100"),),
    pod_set=PodSetName("main"),
    count=2,
    fitting=1,
    resource=GPU,
    asks=5,
    free=8,
    together=("rack",),
    hole=causes.NodeFree("n1", 8),
    at_most=1,
)
CPU = Lack("cpu", "spot", "64", "10", "100")


ALONE = causes.NoFlavor(
    WaitReason.WAITING_FOR_NODE, (causes.RefusedPodSet(PodSetName("main"), (NEVER_TOGETHER,)),)
)
IN_USE = causes.QuotaInUse(GPU, "h100", 2)
REFUSED = causes.NoFlavor(
    WaitReason.WAITING_FOR_NODE,
    (causes.RefusedPodSet(PodSetName("main"), (NEVER_TOGETHER, IN_USE)),),
)


def _not_running(message: str) -> reading.NotRunning:
    value = reading.not_running("WaitForStart", message)
    assert value is not None
    return value


def never(lack: Lack, asks: str) -> Lack:
    return lack._replace(asks=asks, never=True)


@pytest.mark.parametrize(
    ("text", "code", "sentence"),
    [
        (
            sentences.waits_for_quota([A100], "research", place="about 10th"),
            Code.WAITING_FOR_QUOTA,
            (
                "Waits: needs 8 a100, 3 free of 16; about 10th in queue research; "
                "held by team-b (6), team-a (2)."
            ),
        ),
        (
            sentences.waits_for_quota([A100, H100], "research"),
            Code.WAITING_FOR_QUOTA,
            "Waits: needs 8 GPUs; a100 3 free of 16, h100 0 free of 8.",
        ),
        (
            sentences.waits_for_quota([A100, H100._replace(asks="4")], "research"),
            Code.WAITING_FOR_QUOTA,
            "Waits: needs 8 a100 (3 free of 16) or 4 h100 (0 free of 8).",
        ),
        (
            sentences.waits_for_quota([CPU], "research"),
            Code.WAITING_FOR_QUOTA,
            "Waits: needs 64 cpu of spot, 10 free of 100.",
        ),
        (
            sentences.waits_for_quota([A100._replace(reach="")], "research"),
            Code.WAITING_FOR_QUOTA,
            "Waits: needs 8 a100, 3 free; held by team-b (6), team-a (2).",
        ),
        (
            sentences.waits_for_quota([A100], "research", deployment="chat"),
            Code.HELD_BY_PREVIOUS_REVISION,
            (
                "Waits: needs 8 a100, 3 free of 16; the previous revision of Deployment chat "
                "holds quota: set maxSurge: 0."
            ),
        ),
        (
            sentences.waits_for_quota([A100._replace(withheld="8", exists_not=True)], "research"),
            Code.CAPACITY_MISSING,
            "Waits: needs 8 a100, 3 free of 16; 8 more promised, but sick or missing.",
        ),
        (
            sentences.waits_for_quota([A100._replace(withheld="2")], "research"),
            Code.WAITING_FOR_QUOTA,
            (
                "Waits: needs 8 a100, 3 free of 16; 2 more promised, but sick or missing; "
                "held by team-b (6), team-a (2)."
            ),
        ),
        (
            sentences.waits_for_quota(
                [
                    A100._replace(
                        withheld="8",
                        elsewhere="8",
                        is_all_elsewhere=True,
                        exists_not=True,
                        promised_to=("big", "wide"),
                    )
                ],
                "small",
            ),
            Code.CAPACITY_PROMISED,
            (
                "Waits: needs 8 a100, 3 free of 16; 8 more promised, but they are promised to "
                "big, wide first."
            ),
        ),
        (
            sentences.waits_for_quota(
                [A100._replace(withheld="8", elsewhere="3", exists_not=True, promised_to=("b",))],
                "small",
            ),
            Code.CAPACITY_MISSING,
            (
                "Waits: needs 8 a100, 3 free of 16; 8 more promised: 3 of them to b first, the "
                "rest is sick or missing."
            ),
        ),
        (
            sentences.too_big(
                [
                    never(A100, "4")._replace(flavor="h100", reach="0"),
                    never(A100, "64Gi")._replace(resource="memory", reach="0"),
                ],
                "research",
            ),
            Code.EXCEEDS_MAX_QUOTA,
            (
                "Too big: asks 4 GPUs with 64Gi memory, no flavor of research can reach all of it "
                "(h100 0 GPUs, a100 0 memory)."
            ),
        ),
        (
            sentences.too_big([never(A100, "64")], "research"),
            Code.EXCEEDS_MAX_QUOTA,
            "Too big: asks 64 a100, research can reach 16.",
        ),
        (
            sentences.too_big([never(A100, "1")._replace(flavor="h100", reach="0")], "vision"),
            Code.EXCEEDS_MAX_QUOTA,
            "Too big: asks 1 h100, vision can reach 0.",
        ),
        (
            sentences.too_big(
                [never(A100, "1")._replace(flavor="h100", reach="0", owns_none=True)], "vision"
            ),
            Code.EXCEEDS_MAX_QUOTA,
            (
                "Too big: asks 1 h100, vision can reach 0; vision has no quota of h100 of its own,"
                " and can borrow none now."
            ),
        ),
        (
            sentences.too_big([never(A100, "64"), never(H100, "64")], "research"),
            Code.EXCEEDS_MAX_QUOTA,
            "Too big: asks 64 GPUs, research can reach 16 in one flavor (a100 16, h100 8).",
        ),
        (
            sentences.waits_for_preempted(2, until="12:00:00 UTC"),
            Code.WAITING_FOR_PREEMPTED,
            (
                "Waits until 2 workloads that it preempts have stopped; the last is stopped at "
                "12:00:00 UTC."
            ),
        ),
        (
            sentences.waits_for_checks([("budget", "asks finance"), ("prov", "")]),
            Code.WAITING_FOR_CHECKS,
            "Has quota, waits for admission checks budget, prov; asks finance.",
        ),
        (
            sentences.pods_not_running(
                *_not_running("Not all pods are ready or succeeded: 3 of 4 pods are created")
            ),
            Code.PODS_NOT_RUNNING,
            "Admitted, but 3 of 4 pods are created.",
        ),
        (
            sentences.waits_for_node(ALONE, "research"),
            Code.EXCEEDS_NODES,
            (
                "Too big: 2 pods with 5 nvidia.com/gpu each on nodes of a100 with the same rack; "
                "at most 1 fits once the nodes are empty."
            ),
        ),
        (
            sentences.waiting(REFUSED, "research"),
            Code.WAITING_FOR_NODE,
            (
                "Waits for a node: needs room on nodes of a100 with the same rack for 2 pods with "
                "5 nvidia.com/gpu each, 1 fits; 8 are free, at most 8 on one node (n1); "
                "at most 1 fits once the nodes are empty."
            ),
        ),
        (
            sentences.exceeds_largest_node([LargestNode(GPU, "a100", 16, 8)]),
            Code.EXCEEDS_LARGEST_NODE,
            "Too big: a pod asks 16 a100, the largest node has 8.",
        ),
        (
            sentences.exceeds_largest_node([LargestNode(GPU, "a100", 16, 4), LARGE]),
            Code.EXCEEDS_LARGEST_NODE,
            "Too big: a pod asks 16 GPUs, the largest node has 8 (h100 8, a100 4).",
        ),
        (
            sentences.pods_not_running(
                *_not_running(
                    "Not all pods are ready or succeeded: 0 of 1 pods are scheduled: "
                    f"{sentences.beyond_largest_node([LARGE])}; 0/4 nodes are available."
                )
            ),
            Code.EXCEEDS_LARGEST_NODE,
            (
                "Too big: a pod asks 16 h100, the largest node has 8; it holds its quota until it "
                "is deleted."
            ),
        ),
    ],
)
def test_a_case_is_one_sentence(text: Text, code: Code, sentence: str) -> None:
    assert text == (code, sentence)


FLAVOR_OF_NODES = (
    causes.OtherNodes("a100"),
    causes.UntoleratedTaint("h100", "gpu", "", "NoSchedule"),
)
IN_USE = causes.QuotaInUse(GPU, "a100", 5)
PREEMPTED = causes.Preempted(
    PreemptionReason.IN_COHORT_RECLAMATION, "u", "j", "/all/serving", "/all/research"
)


H100_TOO_SMALL = causes.QuotaTooSmall(GPU, "h100", 0, 10, 8)


def no_flavor(reason: WaitReason, *refusals: causes.Refusal) -> causes.NoFlavor:
    in_order = tuple(sorted(refusals, key=kueue.refusal))
    return causes.NoFlavor(reason, (causes.RefusedPodSet("main", in_order),))


@pytest.mark.parametrize(
    ("value", "code", "sentence"),
    [
        (causes.QueueMissing("LocalQueue", "lq"), Code.LOCAL_QUEUE_NOT_FOUND,
         "Waits: LocalQueue lq does not exist in its namespace."),
        (causes.QueueMissing("ClusterQueue", "cq"), Code.CLUSTER_QUEUE_NOT_FOUND,
         "Waits: its LocalQueue names ClusterQueue cq, which does not exist."),
        (causes.QueueGone("LocalQueue", "lq"), Code.LOCAL_QUEUE_NOT_FOUND,
         "Waits: LocalQueue lq is being deleted, or does not exist."),
        (causes.QueueGone("ClusterQueue", "cq"), Code.CLUSTER_QUEUE_NOT_FOUND,
         "Waits: ClusterQueue cq is being deleted, or does not exist."),
        (causes.QueueInactive("LocalQueue", "lq"), Code.LOCAL_QUEUE_STOPPED,
         "Waits: LocalQueue lq is stopped."),
        (causes.QueueStopped("LocalQueue", "lq"), Code.LOCAL_QUEUE_STOPPED,
         "Waits: LocalQueue lq is stopped."),
        (causes.QueueInactive("ClusterQueue", "cq"), Code.CLUSTER_QUEUE_INACTIVE,
         "Waits: ClusterQueue cq admits nothing at present."),
        (causes.NamespaceNotServed(), Code.NAMESPACE_NOT_SELECTED,
         "Waits: its ClusterQueue does not serve its namespace (namespaceSelector)."),
        (causes.NamespaceMissing("ml"), Code.MISCONFIGURED,
         "Waits: namespace ml does not exist."),
        (causes.PodsComing(), Code.WAITING_FOR_NODE,
         ("Waits for a node: pods that were admitted before it may start on the nodes that it "
          "would get; it is tried again once they have nodes.")),
        (causes.PodsOfOthersNotReady(), Code.WAITING_FOR_PODS_READY,
         "Waits: nothing is admitted until the pods of all admitted workloads are ready."),
        (causes.Paused(), Code.ADMISSION_PAUSED,
         "Waits: admission is paused by an administrator; it keeps its place."),
        (causes.Deactivated(), Code.DEACTIVATED,
         "Stopped: it is deactivated (spec.active)."),
        (causes.Deactivated(kueue.execution_time_exceeded("").message), Code.DEACTIVATED,
         "Stopped for good: it has run as long as it may."),
        (causes.Gated("example.com/gate"), Code.ADMISSION_GATED,
         "Waits: held by the admission gate example.com/gate."),
        (causes.NotTried(), Code.PENDING_EVALUATION,
         "Waits: its turn in the queue has not come yet."),
        (causes.GatesCleared(), Code.PENDING_EVALUATION,
         "Waits: its turn in the queue has not come yet."),
        (causes.ReservedTwice(), Code.PENDING_EVALUATION,
         "Waits again: its quota was given twice while the leader changed."),
        (causes.SetAside(), Code.PENDING_EVALUATION,
         ("Waits: an error of gpu-admission ended the decision about it; it is tried again every"
          " minute. Tell an administrator: the log of the controller has the error.")),
        (causes.FailedChecks(), Code.WAITING_FOR_CHECKS,
         "Waits: an admission check has not let it pass."),
        (causes.Overtaken(), Code.WAITING_FOR_QUOTA,
         "Waits: another workload took the quota first; it is tried again at once."),
        (causes.Overtaken(takes_victims=True), Code.WAITING_FOR_QUOTA,
         "Waits: another workload took the quota first; it is tried again at once."),
        (causes.Deferred(), Code.WAITING_FOR_PREEMPTED,
         "Waits until workloads that others preempt have stopped; then it fits."),
        (causes.PendingPreemption((causes.RefusedPodSet("main", (IN_USE,)),), 1),
         Code.WAITING_FOR_PREEMPTED,
         "Waits until 1 workload that it preempts has stopped."),
        (PREEMPTED, Code.EVICTED,
         "Lost its quota to a workload of queue serving; why: reclamation within the cohort."),
        (replace(PREEMPTED, cut=causes.QuotaCut.SICK), Code.EVICTED,
         ("Lost its quota to a workload of queue serving; why: GPUs of its quota are sick or "
          "missing.")),
        (no_flavor(WaitReason.WAITING_FOR_QUOTA, IN_USE),
         Code.WAITING_FOR_QUOTA, "Waits: needs 5 more a100."),
        (no_flavor(WaitReason.WAITING_FOR_QUOTA, IN_USE, causes.QuotaInUse(GPU, "h100", 6)),
         Code.WAITING_FOR_QUOTA, "Waits: needs 5 more a100 or 6 more h100."),
        (no_flavor(WaitReason.WAITING_FOR_QUOTA, IN_USE, causes.QuotaInUse("cpu", "spot", 2_000)),
         Code.WAITING_FOR_QUOTA, "Waits: needs 2 more cpu of spot, 5 more a100."),
        (no_flavor(WaitReason.EXCEEDS_MAX_QUOTA, causes.QuotaTooSmall(GPU, "a100", 4, 60, 16)),
         Code.EXCEEDS_MAX_QUOTA, "Too big: asks 64 a100, its queue can reach 16."),
        (no_flavor(WaitReason.NO_MATCHING_FLAVOR, *FLAVOR_OF_NODES),
         Code.NO_MATCHING_FLAVOR,
         ("Matches no flavor of its queue: a100 is on other nodes than the pod selects; h100 has "
         "the taint gpu:NoSchedule, which the pod does not tolerate.")),
        (no_flavor(WaitReason.NO_MATCHING_FLAVOR, causes.OtherNodes("h100"), IN_USE),
         Code.WAITING_FOR_QUOTA, "Waits: needs 5 more a100."),
        (no_flavor(WaitReason.NO_MATCHING_FLAVOR, causes.Contradicts("a", "b", "zone", "x", "y")),
         Code.NO_MATCHING_FLAVOR,
         ("Matches no flavor of its queue: no node is in a and in b: label zone is x in one and y"
         " in the other.")),
        (no_flavor(WaitReason.NO_MATCHING_FLAVOR, causes.FlavorMissing("a100")),
         Code.NO_MATCHING_FLAVOR, "Matches no flavor of its queue: a100 does not exist."),
        (no_flavor(WaitReason.WAITING_FOR_NODE, H100_TOO_SMALL, NEVER_TOGETHER),
         Code.EXCEEDS_NODES,
         ("Too big: 2 pods with 5 nvidia.com/gpu each on nodes of a100 with the same rack; at most"
          " 1 fits once the nodes are empty.")),
        (no_flavor(WaitReason.WAITING_FOR_NODE, H100_TOO_SMALL,
                   replace(NEVER_TOGETHER, at_most=None, relief="ml/train-3")),
         Code.WAITING_FOR_NODE,
         ("Waits for a node: needs room on nodes of a100 with the same rack for 2 pods with 5"
          " nvidia.com/gpu each, 1 fits; 8 are free, at most 8 on one node (n1); would fit if"
          " ml/train-3 ended.")),
        (no_flavor(WaitReason.NO_MATCHING_FLAVOR, causes.NotCovered("cpu")),
         Code.RESOURCE_NOT_COVERED,
         "Never starts as it is: its queue has no quota for cpu."),
        (no_flavor(WaitReason.NO_MATCHING_FLAVOR, causes.NotCovered("cpu"),
                   causes.NotCovered("nvidia.com/gpus")),
         Code.RESOURCE_MISSPELLED,
         "Never starts as it is: nvidia.com/gpus is misspelled: a GPU is nvidia.com/gpu."),
    ],
)  # fmt: skip
def test_a_value_and_the_condition_that_is_written_from_it_say_the_same_sentence(
    value: causes.Why, code: Code, sentence: str
) -> None:
    assert sentences.text(value) == (code, sentence)
    assert sentences.text(reading.of_condition(*kueue.text(value))) == (code, sentence)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_wait_for_a_node_leaves_out_the_quota_of_other_pod_sets(is_first: bool) -> None:
    nowhere = replace(NEVER_TOGETHER, at_most=None)
    pod_sets = [
        causes.RefusedPodSet("lead", (H100_TOO_SMALL, IN_USE)),
        causes.RefusedPodSet("work", (H100_TOO_SMALL, nowhere)),
    ]
    refused = causes.NoFlavor(
        WaitReason.WAITING_FOR_NODE, tuple(pod_sets if is_first else pod_sets[::-1])
    )
    read = reading.of_condition(*kueue.text(refused))
    assert sentences.text(read).message == (
        "Waits for a node: needs room on nodes of a100 with the same rack for 2 pods with 5"
        " nvidia.com/gpu each, 1 fits; 8 are free, at most 8 on one node (n1)."
    )


@pytest.mark.parametrize(
    ("written", "code", "sentence"),
    [
        (Text("Misconfigured", "requests exceed it's limits"), Code.MISCONFIGURED,
         "requests exceed it's limits."),
        (kueue.pods_ready_timeout("ml/train"), Code.EVICTED,
         "Exceeded the PodsReady timeout ml/train."),
        (kueue.queue_drained("ClusterQueue"), Code.EVICTED, "The ClusterQueue is stopped."),
        (Text("Preempted", "Preempted to accommodate a workload (UID: u, JobUID: UNKNOWN) due to"
         " something new; preemptor path: /a; preemptee path: /b"), Code.EVICTED,
         ("Preempted to accommodate a workload (UID: u, JobUID: UNKNOWN) due to something new; "
          "preemptor path: /a; preemptee path: /b.")),
        (Text("WaitingForQuota", "no room"), Code.WAITING_FOR_QUOTA, "no room."),
    ],
)  # fmt: skip
def test_a_condition_that_means_no_value_is_shown_as_it_is(
    written: Text, code: Code, sentence: str
) -> None:
    value = reading.of_condition(*written)
    assert isinstance(value, causes.Stated)
    assert sentences.text(value) == (code, sentence)


def test_who_took_the_quota_is_left_out_where_it_is_not_known() -> None:
    value = causes.Preempted(PreemptionReason.IN_CLUSTER_QUEUE)
    assert sentences.text(value).message == (
        "Lost its quota to another workload; why: prioritization in the ClusterQueue."
    )


def test_what_somebody_else_wrote_stays_as_it_is() -> None:
    assert sentences.text(reading.of_condition("Other", "because")) == ("Other", "because.")


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=300)
dns = st.text(string.ascii_lowercase + string.digits + "-.", min_size=1, max_size=253)
amounts = st.text(string.digits, min_size=1, max_size=19)
lacks = st.builds(
    Lack,
    resource=st.sampled_from([GPU, "cpu"]) | dns,
    flavor=dns,
    asks=amounts,
    free=amounts,
    reach=amounts,
    withheld=st.just("") | amounts,
    elsewhere=st.just("") | amounts,
    is_all_elsewhere=st.booleans(),
    promised_to=st.lists(dns, max_size=9).map(tuple),
    holders=st.lists(st.tuples(dns, amounts), max_size=9).map(tuple),
    never=st.booleans(),
    exists_not=st.booleans(),
)
some = st.lists(lacks, min_size=1, max_size=9)
names = st.lists(dns, max_size=40)
counts = st.integers(0, 10**6)
kueues = st.sampled_from([*WaitReason, "Preempted", "Other"])
refusals = st.lists(
    st.one_of(
        st.builds(causes.NotCovered, dns),
        st.builds(causes.OtherNodes, dns),
        st.builds(causes.UntoleratedTaint, dns, dns, dns, st.just("NoSchedule")),
        st.builds(causes.Unsuited, dns, words),
        st.builds(causes.QuotaInUse, st.just(GPU), dns, counts),
        st.builds(causes.QuotaTooSmall, st.just(GPU), dns, counts, counts, counts),
    ),
    max_size=9,
)
VALUES = st.one_of(
    st.builds(causes.Stated, kueues, words),
    st.builds(causes.QueueMissing, st.sampled_from(["LocalQueue", "ClusterQueue"]), dns),
    st.builds(causes.QueueInactive, st.sampled_from(["LocalQueue", "ClusterQueue"]), dns),
    st.builds(causes.Gated, dns),
    st.builds(causes.Deactivated, words),
    st.builds(causes.Misconfigured, words),
    st.builds(
        lambda reason, found: causes.NoFlavor(reason, (causes.RefusedPodSet("m", tuple(found)),)),
        st.sampled_from(WaitReason),
        refusals,
    ),
)
EVERY = st.one_of(
    st.builds(sentences.waits_for_quota, some, dns, place=words, deployment=dns),
    st.builds(sentences.too_big, some, dns),
    st.builds(sentences.waits_for_preempted, counts, until=words),
    st.builds(sentences.overtaken, words, dns),
    st.builds(sentences.not_judged, words, dns),
    st.builds(sentences.resources_not_covered, names, dns),
    st.builds(sentences.no_matching_flavor, st.lists(words), dns),
    st.builds(sentences.text, VALUES, dns),
    st.builds(sentences.admitted, dns, names),
    st.builds(sentences.waits_for_checks, st.lists(st.tuples(dns, words))),
    st.builds(sentences.pods_not_running, words),
    st.builds(
        sentences.exceeds_largest_node,
        st.lists(st.builds(LargestNode, dns, dns, counts, counts), min_size=1),
    ),
    st.builds(sentences.evicted, VALUES, until=words),
    st.builds(sentences.preemption_notice, words),
    st.builds(sentences.finished, words),
    st.builds(sentences.charged_running, dns),
    st.builds(sentences.cluster_queue, st.builds(Text, dns, words)),
    st.builds(sentences.cluster_queue_in_use, counts, names),
    st.builds(sentences.fitted, st.builds(Text, st.just("PodGroupFull"), words)),
)


@given(EVERY)
def test_a_sentence_has_at_most_200_characters_whatever_the_names_and_amounts(text: Text) -> None:
    assert len(text.message) <= 200


@given(words)
def test_what_the_api_server_refuses_keeps_its_whole_cause(error: str) -> None:
    text = Text(Code.START_REFUSED, error)
    assert sentences.fitted(text) == text


@given(some, dns)
def test_a_long_sentence_leaves_out_who_holds_before_what_is_needed(
    found: list[Lack], queue: str
) -> None:
    message = sentences.waits_for_quota(found, queue).message
    assert message.startswith("Waits: needs ")


def test_a_list_names_three_and_counts_the_rest() -> None:
    assert sentences.listed(["a", "b", "c"]) == "a, b, c"
    assert sentences.listed("abcdef") == "a, b, c and 3 more"


@pytest.mark.parametrize("code", Code)
def test_every_code_is_in_the_catalogue_with_a_step_of_known_names(code: Code) -> None:
    step = next_steps.next_step(code, {"queue": "cq"})

    assert "{" not in step.replace('{"spec":{"active":true}}', "")
    assert len(step) <= sentences.MOST
    assert (step == "") == (code in {Code.ADMITTED, Code.FINISHED})
    assert CATALOGUE[code].title


def test_a_step_says_what_to_fill_in_where_a_name_is_not_known() -> None:
    assert "kubectl gpu who research" in next_steps.next_step(
        "WaitingForQuota", {"queue": "research"}
    )
    assert "kubectl gpu who QUEUE" in next_steps.next_step("WaitingForQuota")
    assert next_steps.next_step("Unheard") == ""


def test_what_is_tried_next_is_told_so_and_not_who_is_before_it() -> None:
    first = sentences.not_judged(sentences.place(1), "research")
    assert first.message == "Waits: its queue looks at it next; 1st in queue research."
    later = sentences.not_judged(sentences.place(3), "research")
    assert later.message == "Waits: its queue looks at others first; 3rd in queue research."
    assert next_steps.next_step(first.reason, {"queue": "research"}, is_first=True) == "wait"
    assert "who is before it" in next_steps.next_step(later.reason, {"queue": "research"})


@pytest.mark.parametrize(
    ("number", "place"),
    [(1, "1st"), (2, "2nd"), (10, "10th"), (11, "about 10th"), (47, "about 50th"),
     (312, "about 300th"), (4321, "about 4,000th")],
)  # fmt: skip
def test_a_place_is_exact_up_to_ten(number: int, place: str) -> None:
    assert sentences.place(number) == place


def test_an_exact_place_has_its_ending() -> None:
    assert [sentences.exact_place(n) for n in (1, 12, 21, 113, 1003)] == [
        "1st", "12th", "21st", "113th", "1,003rd",
    ]  # fmt: skip


@pytest.mark.parametrize("code", CATALOGUE, ids=str)
def test_a_next_step_with_a_namespace_names_what_it_is_about(code: Code) -> None:
    """Without a name, ``-n`` leaves out all that is not of the namespace, so also who holds it."""
    place = {"queue": "research", "namespace": "ml", "name": "train"}
    assert not re.search(r"gpu (top|queue|who) -n", next_steps.next_step(code, place))


ENDING = EndingPods("nvidia.com/gpu", "a100", 16, 2, "2026-11-30T09:37:46Z")
UNTIL = "until 2026-11-30 09:37:46 UTC at the latest."


@pytest.mark.parametrize(
    ("ending", "message", "expected"),
    [
        (None, "Waits.", "Waits."),
        (ENDING, "Waits.", f"Waits; 2 pods that are ending hold 16 a100 {UNTIL}"),
        (
            ENDING._replace(pods=1, until=""),
            "Waits.",
            "Waits; 1 pod that is ending holds 16 a100.",
        ),
        (
            ENDING._replace(resource="cpu", amount=4000),
            "Waits.",
            f"Waits; 2 pods that are ending hold 4 cpu of a100 {UNTIL}",
        ),
        (
            ENDING,
            f"Waits; 1st in queue q; held by {'x' * 120}.",
            f"Waits; 1st in queue q; 2 pods that are ending hold 16 a100 {UNTIL}",
        ),
    ],
    ids=["none", "GPUs", "one that is overdue", "another resource", "holders make way"],
)
def test_who_waits_for_pods_that_end_reads_what_they_hold_and_until_when(
    ending: EndingPods | None, message: str, expected: str
) -> None:
    text = sentences.with_ending(Text("Code", message), ending)
    assert text.message == expected
    assert sentences.with_ending(text, ending) == text


@pytest.mark.parametrize("ending", [ENDING, ENDING._replace(until=""), None])
@pytest.mark.parametrize(
    "why", [causes.Deferred(), causes.PendingPreemption((), 2), causes.Paused()], ids=type
)
def test_a_condition_that_tells_of_pods_that_end_is_read_as_one_that_does_not(
    why: causes.Why, ending: EndingPods | None
) -> None:
    text = kueue.text(why, ending)
    assert reading.ending(text.message) == ending
    plain = kueue.text(why)
    assert reading.of_condition(*text) == reading.of_condition(*plain)
