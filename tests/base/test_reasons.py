"""The catalogue of reasons: one sentence each, that says what Kueue's condition says."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base import conditions, reasons
from admission.base.conditions import PreemptionReason, Text, WaitReason
from admission.base.reasons import CATALOGUE, Code, Lack, LargestNode

GPU = "nvidia.com/gpu"
A100 = Lack(GPU, "a100", "8", "3", "16", holders=(("team-b", "6"), ("team-a", "2")))
H100 = Lack(GPU, "h100", "8", "0", "8")
LARGE = LargestNode(GPU, "h100", 16, 8)
CPU = Lack("cpu", "spot", "64", "10", "100")


def never(lack: Lack, asks: str) -> Lack:
    return lack._replace(asks=asks, never=True)


@pytest.mark.parametrize(
    ("text", "code", "sentence"),
    [
        (
            reasons.waits_for_quota([A100], "research", place="about 10th"),
            Code.WAITING_FOR_QUOTA,
            (
                "Waits: needs 8 a100, 3 free of 16; about 10th in queue research; "
                "held by team-b (6), team-a (2)."
            ),
        ),
        (
            reasons.waits_for_quota([A100, H100], "research"),
            Code.WAITING_FOR_QUOTA,
            "Waits: needs 8 GPUs; a100 3 free of 16, h100 0 free of 8.",
        ),
        (
            reasons.waits_for_quota([CPU], "research"),
            Code.WAITING_FOR_QUOTA,
            "Waits: needs 64 cpu of spot, 10 free of 100.",
        ),
        (
            reasons.waits_for_quota([A100._replace(reach="")], "research"),
            Code.WAITING_FOR_QUOTA,
            "Waits: needs 8 a100, 3 free; held by team-b (6), team-a (2).",
        ),
        (
            reasons.waits_for_quota([A100], "research", deployment="chat"),
            Code.HELD_BY_PREVIOUS_REVISION,
            (
                "Waits: needs 8 a100, 3 free of 16; the previous revision of Deployment chat "
                "holds quota: set maxSurge: 0."
            ),
        ),
        (
            reasons.waits_for_quota([A100._replace(withheld="8", exists_not=True)], "research"),
            Code.CAPACITY_MISSING,
            "Waits: needs 8 a100, 3 free of 16; 8 more promised, but sick or missing.",
        ),
        (
            reasons.waits_for_quota(
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
            reasons.waits_for_quota(
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
            reasons.too_big(
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
            reasons.too_big([never(A100, "64")], "research"),
            Code.EXCEEDS_MAX_QUOTA,
            "Too big: asks 64 a100, research can reach 16.",
        ),
        (
            reasons.too_big([never(A100, "64"), never(H100, "64")], "research"),
            Code.EXCEEDS_MAX_QUOTA,
            "Too big: asks 64 GPUs, research can reach 16 in one flavor (a100 16, h100 8).",
        ),
        (
            reasons.waits_for_preempted(2, until="12:00:00 UTC"),
            Code.WAITING_FOR_PREEMPTED,
            (
                "Waits until 2 workloads that it preempts have stopped; the last is stopped at "
                "12:00:00 UTC."
            ),
        ),
        (
            reasons.waits_for_checks([("budget", "asks finance"), ("prov", "")]),
            Code.WAITING_FOR_CHECKS,
            "Has quota, waits for admission checks budget, prov; asks finance.",
        ),
        (
            reasons.pods_not_running(
                "Not all pods are ready or succeeded: 3 of 4 pods are created"
            ),
            Code.PODS_NOT_RUNNING,
            "Admitted, but 3 of 4 pods are created.",
        ),
        (
            reasons.exceeds_largest_node([LargestNode(GPU, "a100", 16, 8)]),
            Code.EXCEEDS_LARGEST_NODE,
            "Too big: a pod asks 16 a100, the largest node has 8.",
        ),
        (
            reasons.exceeds_largest_node([LargestNode(GPU, "a100", 16, 4), LARGE]),
            Code.EXCEEDS_LARGEST_NODE,
            "Too big: a pod asks 16 GPUs, the largest node has 8 (h100 8, a100 4).",
        ),
        (
            reasons.pods_not_running(
                "Not all pods are ready or succeeded: 0 of 1 pods are scheduled: "
                f"{reasons.beyond_largest_node([LARGE])}; 0/4 nodes are available."
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


NO_FLAVOR = conditions.no_flavors


@pytest.mark.parametrize(
    ("said", "code", "sentence"),
    [
        (conditions.no_local_queue("lq"), Code.LOCAL_QUEUE_NOT_FOUND,
         "Waits: LocalQueue lq does not exist in its namespace."),
        (conditions.no_cluster_queue("cq"), Code.CLUSTER_QUEUE_NOT_FOUND,
         "Waits: its LocalQueue names ClusterQueue cq, which does not exist."),
        (conditions.queue_gone("LocalQueue", "lq"), Code.LOCAL_QUEUE_NOT_FOUND,
         "Waits: LocalQueue lq is being deleted, or does not exist."),
        (conditions.queue_gone("ClusterQueue", "cq"), Code.CLUSTER_QUEUE_NOT_FOUND,
         "Waits: ClusterQueue cq is being deleted, or does not exist."),
        (conditions.inactive_local_queue("lq"), Code.LOCAL_QUEUE_STOPPED,
         "Waits: LocalQueue lq is stopped."),
        (conditions.queue_stopped("LocalQueue", "lq"), Code.LOCAL_QUEUE_STOPPED,
         "Waits: LocalQueue lq is stopped."),
        (conditions.inactive_cluster_queue("cq"), Code.CLUSTER_QUEUE_INACTIVE,
         "Waits: ClusterQueue cq admits nothing at present."),
        (conditions.WRONG_NAMESPACE, Code.NAMESPACE_NOT_SELECTED,
         "Waits: its ClusterQueue does not serve its namespace (namespaceSelector)."),
        (conditions.no_namespace("ml"), Code.MISCONFIGURED,
         "Waits: namespace ml does not exist."),
        (conditions.misconfigured("requests exceed it's limits"), Code.MISCONFIGURED,
         "requests exceed it's limits."),
        (conditions.NOT_ALL_READY, Code.WAITING_FOR_PODS_READY,
         "Waits: nothing is admitted until the pods of all admitted workloads are ready."),
        (conditions.PAUSED, Code.ADMISSION_PAUSED,
         "Waits: admission is paused by an administrator; it keeps its place."),
        (conditions.DEACTIVATED, Code.DEACTIVATED,
         "Stopped: it is deactivated (spec.active)."),
        (conditions.deactivated_due_to(conditions.execution_time_exceeded("")),
         Code.DEACTIVATED,
         "Stopped: it is deactivated, exceeding the maximum execution time."),
        (conditions.gated("example.com/gate"), Code.ADMISSION_GATED,
         "Waits: held by the admission gate example.com/gate."),
        (conditions.NOT_JUDGED, Code.PENDING_EVALUATION, "Waits: it has not been tried yet."),
        (conditions.FAILED_CHECKS, Code.WAITING_FOR_CHECKS,
         "Waits: an admission check has not let it pass."),
        (Text(WaitReason.WAITING_FOR_QUOTA, conditions.NO_LONGER_FITS), Code.WAITING_FOR_QUOTA,
         "Waits: another workload took the quota first; it is tried again at once."),
        (Text(WaitReason.WAITING_FOR_PREEMPTED, conditions.DEFERRED), Code.WAITING_FOR_PREEMPTED,
         "Waits until workloads that others preempt have stopped; then it fits."),
        (Text(WaitReason.WAITING_FOR_PREEMPTED, conditions.pending_preemption("couldn't", 1)),
         Code.WAITING_FOR_PREEMPTED,
         "Waits until 1 workload that it preempts has stopped."),
        (Text("Preempted", conditions.preempted(
            PreemptionReason.IN_COHORT_RECLAMATION, uid="u", job_uid="j",
            preemptor="/all/serving", preemptee="/all/research")), Code.EVICTED,
         "Lost its quota to a workload of queue serving; why: reclamation within the cohort."),
        (conditions.pods_ready_timeout("ml/train"), Code.EVICTED,
         "Exceeded the PodsReady timeout ml/train."),
        (conditions.queue_drained("ClusterQueue"), Code.EVICTED, "The ClusterQueue is stopped."),
        (Text(WaitReason.WAITING_FOR_QUOTA, NO_FLAVOR(
            [("main", [conditions.insufficient_unused_quota(GPU, "a100", "5")])])),
         Code.WAITING_FOR_QUOTA, "Waits: needs 5 more a100."),
        (Text(WaitReason.EXCEEDS_MAX_QUOTA, NO_FLAVOR(
            [("main", [conditions.insufficient_quota(GPU, "a100", "4", "60", "16")])])),
         Code.EXCEEDS_MAX_QUOTA, "Too big: asks 64 a100, its queue can reach 16."),
        (Text(WaitReason.NO_MATCHING_FLAVOR, NO_FLAVOR([("main", [
            conditions.other_nodes("a100"),
            conditions.untolerated_taint("h100", "gpu", "", "NoSchedule"),
        ])])),
         Code.NO_MATCHING_FLAVOR,
         ("Matches no flavor of its queue: a100 is on other nodes than the pod selects; h100 has "
         "the taint gpu:NoSchedule, which the pod does not tolerate.")),
        (Text(WaitReason.NO_MATCHING_FLAVOR, NO_FLAVOR([("main", [
            conditions.other_nodes("h100"),
            conditions.insufficient_unused_quota(GPU, "a100", "5")])])),
         Code.WAITING_FOR_QUOTA, "Waits: needs 5 more a100."),
        (Text(WaitReason.NO_MATCHING_FLAVOR, NO_FLAVOR(
            [("main", [conditions.resource_unavailable("cpu")])])),
         Code.RESOURCE_NOT_COVERED,
         "Never starts as it is: its queue has no quota for cpu."),
    ],
)  # fmt: skip
def test_a_condition_of_a_workload_is_said_in_the_words_of_users(
    said: Text, code: Code, sentence: str
) -> None:
    assert reasons.of_condition(*said) == (code, sentence)


def test_what_somebody_else_wrote_stays_as_it_is() -> None:
    assert reasons.of_condition("Other", "because") == ("Other", "because.")


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
MESSAGES = st.one_of(
    words,
    st.builds(lambda n: conditions.no_local_queue(n).message, dns),
    st.builds(lambda n: conditions.inactive_cluster_queue(n).message, dns),
    st.builds(lambda n: conditions.gated(n).message, dns),
    st.builds(
        lambda flavors: conditions.no_flavors([("main", map(conditions.other_nodes, flavors))]),
        names,
    ),
    st.builds(
        lambda found: conditions.no_flavors(
            [("m", [conditions.insufficient_quota(GPU, f, "1", n, n) for f, n in found])]
        ),
        st.lists(st.tuples(dns, amounts), max_size=9),
    ),
    st.builds(
        lambda resources: conditions.no_flavors(
            [("m", map(conditions.resource_unavailable, resources))]
        ),
        names,
    ),
)
EVERY = st.one_of(
    st.builds(reasons.waits_for_quota, some, dns, place=words, deployment=dns),
    st.builds(reasons.too_big, some, dns),
    st.builds(reasons.waits_for_preempted, counts, until=words),
    st.builds(reasons.overtaken, words, dns),
    st.builds(reasons.not_judged, words, dns),
    st.builds(reasons.resources_not_covered, names, dns),
    st.builds(reasons.no_matching_flavor, st.lists(words), dns),
    st.builds(reasons.of_condition, kueues, MESSAGES, dns),
    st.builds(reasons.admitted, dns, names),
    st.builds(reasons.waits_for_checks, st.lists(st.tuples(dns, words))),
    st.builds(reasons.pods_not_running, words),
    st.builds(
        reasons.exceeds_largest_node,
        st.lists(st.builds(LargestNode, dns, dns, counts, counts), min_size=1),
    ),
    st.builds(reasons.evicted, st.builds(Text, kueues, MESSAGES), until=words),
    st.builds(reasons.preemption_notice, words),
    st.builds(reasons.finished, words),
    st.builds(reasons.charged_running, dns),
    st.builds(reasons.cluster_queue, st.builds(Text, dns, words)),
    st.builds(reasons.cluster_queue_in_use, counts, names),
    st.builds(reasons.fitted, st.builds(Text, st.just("PodGroupFull"), words)),
)


@given(EVERY)
def test_a_sentence_has_at_most_200_characters_whatever_the_names_and_amounts(text: Text) -> None:
    assert len(text.message) <= 200


@given(words)
def test_what_the_api_server_refuses_keeps_its_whole_cause(error: str) -> None:
    text = Text(Code.START_REFUSED, error)
    assert reasons.fitted(text) == text


@given(some, dns)
def test_a_long_sentence_leaves_out_who_holds_before_what_is_needed(
    found: list[Lack], queue: str
) -> None:
    message = reasons.waits_for_quota(found, queue).message
    assert message.startswith("Waits: needs ")


def test_a_list_names_three_and_counts_the_rest() -> None:
    assert reasons.listed(["a", "b", "c"]) == "a, b, c"
    assert reasons.listed("abcdef") == "a, b, c and 3 more"


@pytest.mark.parametrize("code", Code)
def test_every_code_is_in_the_catalogue_with_a_step_of_known_names(code: Code) -> None:
    step = reasons.next_step(code, {"queue": "cq"})

    assert "{" not in step.replace('{"spec":{"active":true}}', "")
    assert len(step) <= reasons.MOST
    assert (step == "") == (code in {Code.ADMITTED, Code.FINISHED})
    assert CATALOGUE[code].title


def test_a_step_says_what_to_fill_in_where_a_name_is_not_known() -> None:
    assert "kubectl gpu who research" in reasons.next_step(
        "WaitingForQuota", {"queue": "research"}
    )
    assert "kubectl gpu who QUEUE" in reasons.next_step("WaitingForQuota")
    assert reasons.next_step("Unheard") == ""


@pytest.mark.parametrize(
    ("number", "place"),
    [(1, "1st"), (2, "2nd"), (10, "10th"), (11, "about 10th"), (47, "about 50th"),
     (312, "about 300th"), (4321, "about 4,000th")],
)  # fmt: skip
def test_a_place_is_exact_up_to_ten(number: int, place: str) -> None:
    assert reasons.place(number) == place


def test_an_exact_place_has_its_ending() -> None:
    assert [reasons.exact_place(n) for n in (1, 12, 21, 113, 1003)] == [
        "1st", "12th", "21st", "113th", "1,003rd",
    ]  # fmt: skip
