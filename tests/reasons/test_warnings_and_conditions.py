"""The warning at creation begins with the sentence that the condition will say."""

from hypothesis import given
from hypothesis import strategies as st

from admission.objects import cluster_queue
from admission.reasons import sentences
from admission.reasons.next_steps import Code
from tests.builders.pods import make_pod
from tests.builders.queues import cluster_queue_view, flavor_view
from tests.builders.scheduling import pod_set, waiting
from tests.scheduling.worlds import waits, world
from tests.webhook.builders import make_cluster, mutate

GPU = "nvidia.com/gpu"
amounts = st.integers(0, 20)


@given(
    quotas=st.dictionaries(st.sampled_from("abc"), amounts, min_size=1),
    lent=st.dictionaries(st.sampled_from("abc"), amounts),
    gpus=st.integers(1, 48),
)
def test_what_is_too_big_is_said_in_one_sentence(
    quotas: dict[str, int], lent: dict[str, int], gpus: int
) -> None:
    queues = [cluster_queue_view({f: {GPU: str(n)} for f, n in quotas.items()}, cohortName="all")]
    if lent:
        lender = {flavor: {GPU: str(value)} for flavor, value in lent.items()}
        queues.append(cluster_queue_view(lender, name="lender", cohortName="all"))
    cluster = make_cluster("default", flavors={name: flavor_view(name) for name in "abc"})
    cluster.cluster_queues = {queue.metadata.name: queue for queue in queues}
    texts = mutate(make_pod(gpus=gpus), cluster).warnings
    warning = next((text for text in texts if text.startswith("Too big: ")), "")

    values = [cluster_queue.scheduling_value(queue) for queue in queues]
    made = world(
        *values, waiting("w", "gpus", sets=[pod_set(nvidia_com__gpu=gpus)]), flavors="abc"
    )
    wait = waits(made.cycle()).get("w")
    if wait is None:
        assert warning == ""
        return
    text = sentences.waiting(wait.why, wait.cluster_queue, shortages=wait.shortages)
    assert text.reason == Code.EXCEEDS_MAX_QUOTA, "nobody else is there"
    assert warning.startswith(f"{text.message} "), (warning, text)
