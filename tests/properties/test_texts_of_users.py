"""Laws of what users write: whatever it is, it is refused by a rule or left out."""

from collections.abc import Callable
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from admission.base import durations, names, quantity
from admission.base.errors import InvalidValueError
from admission.objects import caps, run_times, views
from tests.builders.pods import make_pod
from tests.webhook.builders import make_cluster, mutate, validate

READ: Final = (
    names.ADMISSION_GATED_BY,
    names.GPU_MEMORY,
    names.MIG_PROFILE,
    names.MINIMUM_RUN_TIME,
    names.ORIGINAL_RESOURCES,
    names.POD_GROUP_NAME,
    names.POD_GROUP_OBJECT,
    names.POD_GROUP_TOTAL_COUNT,
    names.PODSET_SLICE_CONSTRAINTS,
    names.PODSET_SLICE_SIZE,
    names.PREEMPTION_NOTICE,
)
"""Annotations of pods in which a review reads more than a name."""

DIGITS: Final = st.sampled_from((1, 20, 128, 129, 5000)).map("9".__mul__)
DEPTHS: Final = st.sampled_from((5, 20_000))
SHORT: Final = st.text(max_size=20)
TEXTS: Final = st.one_of(
    SHORT,
    DIGITS,
    st.tuples(SHORT, DIGITS, SHORT).map("".join),
    st.tuples(
        st.sampled_from(("", "-", "+", "0.", ".", "1e", "1e-", "1g.", "nvidia.com/gpu=", '{"a":')),
        DIGITS,
        st.sampled_from(("", "h", "Ei", "g.10gb", "e9", ".5s", "}")),
    ).map("".join),
    DEPTHS.map("[".__mul__),
    DEPTHS.map('{"a":'.__mul__),
    DEPTHS.map(lambda depth: '{"train":' + "[" * depth + "]" * depth + "}"),
)


def refusal(parse: Callable[[str], Any], text: str) -> InvalidValueError | None:
    """Why a parser does not take a text; None if it does."""
    try:
        parse(text)
    except InvalidValueError as refused:
        return refused
    return None


def parses(parse: Callable[[str], Any], text: str) -> None:
    """A parser takes a text, or says which rule it breaks, in few words."""
    refused = refusal(parse, text)
    assert refused is None or (refused.rule and len(str(refused)) < 1000)


@given(TEXTS)
def test_what_is_no_number_is_refused_by_a_rule(text: str) -> None:
    parses(quantity.parse_nano, text)
    parses(durations.parse, text)


@given(TEXTS)
def test_annotations_of_queues_are_read_or_refused_by_a_rule(text: str) -> None:
    keys = (names.MAX_PER_USER, names.MAX_IN_USE, names.MAXIMUM_RUN_TIME, names.PREEMPTION_NOTICE)
    metadata = views.ObjectMeta(annotations=dict.fromkeys(keys, text))
    parses(lambda _: caps.read(metadata, names.MAX_PER_USER), text)
    parses(lambda _: run_times.read(metadata), text)
    run_times.readable(metadata)


@given(st.dictionaries(st.sampled_from(READ), TEXTS, min_size=1, max_size=6))
def test_reviews_answer_whatever_annotations_a_pod_has(annotations: dict[str, str]) -> None:
    pod = make_pod(gpus=1, annotations=annotations, labels={names.QUEUE_LABEL: "default"})
    cluster = make_cluster("default")
    refused = [*mutate(pod, cluster).errors]
    told = [error.text() for error in refused]
    told += validate(pod, cluster) + validate(pod, cluster, old=make_pod(gpus=1))
    # As the API server does, an error shows the whole value.
    most = 1000 + 4 * max(map(len, annotations.values()))
    assert all(0 < len(text) < most for text in told)
