"""Rewriting: which names a pod gets, from which flavor, and when it is refused."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.gpu import placement
from admission.gpu.request_annotations import GpuAnnotations
from admission.gpu.rewrite import ContainerRequest, LimitedNames, Rewrite
from tests.gpu.builders import (
    GIB,
    GPU,
    MEMORY,
    SHARED,
    SLICES,
    UNDECIDED,
    amounts,
    make_container,
    make_flavor,
    mig,
    refused,
    run,
)

A100 = "NVIDIA-A100-SXM4-80GB"
WHOLE = make_flavor("whole", A100, GPU)
SLICED = make_flavor("sliced", A100, mig("1g.10gb"), profile="1g.10gb")
SINGLE = make_flavor("single", A100, GPU, profile="1g.10gb")
OPEN = make_flavor("open", A100, MEMORY, SLICES)
TIMED = make_flavor("timed", "Tesla-T4", SHARED, sharing="time-slicing", replicas=4)
UNRENAMED = make_flavor("unrenamed", "Tesla-T4-SHARED", GPU, sharing="time-slicing", replicas=4)
MPS = make_flavor("mps", "NVIDIA-L4", SHARED, sharing="mps", replicas=10)
MANY = make_flavor("many", A100, GPU, mig("1g.10gb"), mig("3g.40gb"))


CASES = {
    "a flavor without slices leaves a plain request alone": (
        make_container(),
        (WHOLE,),
        "whole",
        {},
    ),
    "a sliced flavor turns a plain request into its profile": (
        make_container(),
        (SLICED,),
        "sliced",
        {"main": {mig("1g.10gb"): 1}},
    ),
    "the queue's order decides between flavors that both hold it": (
        make_container(),
        (SLICED, WHOLE),
        "sliced",
        {"main": {mig("1g.10gb"): 1}},
    ),
    "a wished profile passes over flavors without it": (
        make_container(profile="1g.10gb"),
        (WHOLE, SLICED),
        "sliced",
        {"main": {mig("1g.10gb"): 1}},
    ),
    "least memory takes the smallest profile that has it": (
        make_container(gib=8),
        (OPEN,),
        "open",
        {"main": {mig("1g.10gb"): 1}},
    ),
    "least memory above every slice takes the whole GPU": (
        make_container(gib=79),
        (WHOLE,),
        "whole",
        {},
    ),
    "least memory prefers the smaller device over the queue's order": (
        make_container(gib=8),
        (WHOLE, SLICED),
        "sliced",
        {"main": {mig("1g.10gb"): 1}},
    ),
    "under the single strategy the name stays": (make_container(), (SINGLE,), "single", {}),
    "a slice asked for by name becomes nvidia.com/gpu under the single strategy": (
        make_container(amounts={mig("1g.10gb"): 1}),
        (SINGLE,),
        "single",
        {"main": {GPU: 1}},
    ),
    "a slice asked for by name passes over whole GPUs": (
        make_container(amounts={mig("3g.40gb"): 2}),
        (WHOLE, MANY),
        "many",
        {},
    ),
    "an alias of a profile is kept where names are open": (
        make_container(amounts={mig("7g.79gb"): 1}),
        (OPEN,),
        "open",
        {},
    ),
    "sharing that renames gives the .shared name": (
        make_container(),
        (TIMED,),
        "timed",
        {"main": {SHARED: 1}},
    ),
    "a share asked for by name never becomes nvidia.com/gpu": (
        make_container(amounts={SHARED: 1}),
        (UNRENAMED, TIMED),
        "timed",
        {},
    ),
    "a label that says SHARED keeps the plain name": (
        make_container(),
        (make_flavor("f", "Tesla-T4-SHARED", SLICES, sharing="time-slicing", replicas=4),),
        "f",
        {},
    ),
    "virtual quota over shared nodes gives the .shared name": (
        make_container(),
        (make_flavor("f", "Tesla-T4", SLICES, sharing="time-slicing", replicas=4),),
        "f",
        {"main": {SHARED: 1}},
    ),
    "sharing without .shared in the queue keeps the plain name": (
        make_container(),
        (make_flavor("f", "Tesla-T4", GPU, sharing="time-slicing", replicas=4),),
        "f",
        {},
    ),
    "a slice that is shared": (
        make_container(),
        (
            make_flavor(
                "f",
                A100,
                mig("1g.10gb.shared"),
                profile="1g.10gb",
                sharing="time-slicing",
                replicas=2,
            ),
        ),
        "f",
        {"main": {mig("1g.10gb.shared"): 1}},
    ),
    "a share is not a whole GPU": (
        make_container(amounts={SHARED: 1}),
        (WHOLE, TIMED),
        "timed",
        {},
    ),
    "a ceiling too low passes over the flavor": (
        make_container(),
        (dataclasses.replace(SLICED, ceilings={SLICES: 0, mig("1g.10gb"): 7}), WHOLE),
        "whole",
        {},
    ),
    "a flavor whose quota is just enough holds it": (
        make_container(amounts={GPU: 2}),
        (dataclasses.replace(SLICED, ceilings={SLICES: 2, mig("1g.10gb"): 2}), WHOLE),
        "sliced",
        {"main": {mig("1g.10gb"): 2}},
    ),
    "a flavor whose quota is one short of it is passed over": (
        make_container(amounts={GPU: 2}),
        (dataclasses.replace(SLICED, ceilings={SLICES: 2, mig("1g.10gb"): 1}), WHOLE),
        "whole",
        {},
    ),
    "a flavor whose memory is one byte short of it is passed over": (
        make_container(amounts={GPU: 2}),
        (dataclasses.replace(SLICED, ceilings={MEMORY: 20 * GIB - 1}), WHOLE),
        "whole",
        {},
    ),
    "a flavor whose memory is just enough holds it": (
        make_container(amounts={GPU: 2}),
        (dataclasses.replace(SLICED, ceilings={MEMORY: 20 * GIB}), WHOLE),
        "sliced",
        {"main": {mig("1g.10gb"): 2}},
    ),
    "quota of 0 means the flavor does not offer the name": (
        make_container(profile="3g.40gb"),
        (dataclasses.replace(MANY, ceilings={mig("3g.40gb"): 0}), OPEN),
        "open",
        {"main": {mig("3g.40gb"): 1}},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_names_and_flavor(case):
    container, flavors, flavor, changed = case
    result = run(container, flavors=flavors)
    assert isinstance(result, Rewrite)
    assert (result.flavor, amounts(result)) == (flavor, changed)


def test_pod_without_gpus_is_none_of_our_business():
    assert run(make_container(amounts={"cpu": 4}), flavors=(WHOLE,)) is None


def test_requests_equal_limits_and_other_resources_stay():
    container = ContainerRequest(
        name="main", requests={"cpu": 500}, limits={"cpu": 1000, GPU: 2, "rdma/shared": 1}
    )
    result = run(container, flavors=(SLICED,))
    assert isinstance(result, Rewrite)
    (new,) = result.containers
    assert dict(new.requests) == {"cpu": 500, mig("1g.10gb"): 2}
    assert dict(new.limits) == {"cpu": 1000, "rdma/shared": 1, mig("1g.10gb"): 2}
    assert new.removed == (GPU,)


def test_each_container_gets_its_own_wish_from_one_flavor():
    result = run(
        make_container("prepare", init=True, profile="1g.10gb"),
        make_container("proxy", {"cpu": 1}, sidecar=True),
        make_container("train", {GPU: 1}, profile="3g.40gb"),
        make_container("log", {"cpu": 1}),
        flavors=(SLICED, MANY),
    )
    assert isinstance(result, Rewrite)
    assert result.flavor == "many"
    assert amounts(result) == {"prepare": {mig("1g.10gb"): 1}, "train": {mig("3g.40gb"): 1}}
    assert dict(result.demand) == {mig("1g.10gb"): 1, mig("3g.40gb"): 1}


def test_two_requests_of_one_container_that_end_in_one_name_are_added():
    result = run(
        make_container(amounts={GPU: 1, mig("1g.10gb"): 2}, profile="1g.10gb"), flavors=(SLICED,)
    )
    assert amounts(result) == {"main": {mig("1g.10gb"): 3}}


REFUSALS = {
    "a compute instance is refused with what to ask for": (
        make_container(amounts={mig("1c.3g.40gb"): 1}),
        (MANY,),
        "request nvidia.com/mig-3g.40gb",
    ),
    "a name that is no profile is refused": (
        make_container(amounts={"nvidia.com/mig-huge": 1}),
        (WHOLE,),
        "must be a MIG profile",
    ),
    "a profile of another card is refused with those of this card": (
        make_container(amounts={mig("1g.5gb"): 1}),
        (MANY,),
        "A100-80GB has no profile 1g.5gb; it has 1g.10gb",
    ),
    "more memory than any device has is refused with the sizes": (
        make_container(gib=200),
        (OPEN,),
        "nvidia.com/gpu (80Gi)",
    ),
    "an annotation against the request is refused": (
        make_container(amounts={mig("1g.10gb"): 1}, profile="3g.40gb"),
        (MANY,),
        "the annotation gpu-admission.dev/mig-profile says 3g.40gb",
    ),
    "a wish for what no flavor offers is refused": (
        make_container(profile="3g.40gb"),
        (SLICED,),
        "offers nvidia.com/mig-1g.10gb, not 3g.40gb",
    ),
    "two shares are refused where the plugin would fail them": (
        make_container(amounts={GPU: 2}),
        (MPS,),
        "maximum request size for shared resources is 1; found 2",
    ),
    "more GPUs than a node has are refused": (
        make_container(amounts={GPU: 9}),
        (dataclasses.replace(WHOLE, gpus_per_node=8),),
        "needs 9 GPUs of one node, which has at most 8",
    ),
    "slices that no node can hold together are refused": (
        make_container(amounts={mig("4g.40gb"): 3}),
        (dataclasses.replace(OPEN, gpus_per_node=2),),
        "3 x 4g.40gb does not fit on 2 A100-80GB of one node",
    ),
    "a wish without a request is refused": (
        make_container(amounts={"cpu": 1}, profile="1g.10gb"),
        (SLICED,),
        "set resources.limits[nvidia.com/gpu]",
    ),
}


@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals_say_what_to_do(case):
    container, flavors, text = case
    assert text in refused(run(container, flavors=flavors))


H100 = make_flavor("h100", "NVIDIA-H100-80GB-HBM3", MEMORY, SLICES, gpus_per_node=8)


def test_what_may_fit_a_node_is_not_refused_where_the_search_did_not_find_out():
    asked = {mig(profile): count for profile, count in UNDECIDED.items()}
    result = run(make_container(amounts=asked), flavors=(H100,))
    assert isinstance(result, Rewrite)
    assert (result.flavor, dict(result.demand)) == ("h100", asked)


def test_pods_that_differ_in_names_of_containers_are_searched_for_once(monkeypatch):
    searches, pack = [], placement.pack

    def counted(*args, **options):
        searches.append(args)
        return pack(*args, **options)

    monkeypatch.setattr(placement, "pack", counted)
    placement._packed_on_empty.cache_clear()
    asked = {mig(profile): count for profile, count in UNDECIDED.items()}
    twin = dataclasses.replace(H100, name="twin")
    for name in ("first", "second"):
        run(make_container(name, amounts=asked), flavors=(H100, twin))
    assert len(searches) == 1


def test_a_request_that_no_flavor_covers_is_left_to_wait():
    result = run(make_container(), flavors=(make_flavor("cpu", "", "cpu"),))
    assert isinstance(result, Rewrite)
    assert (result.flavor, result.containers) == ("", ())
    assert result.warnings[0].startswith("Never starts: no flavor of ClusterQueue ")


def test_a_limit_range_name_stays_at_zero():
    result = run(make_container(), flavors=(SLICED,), limited=LimitedNames(named=frozenset({GPU})))
    assert amounts(result) == {"main": {mig("1g.10gb"): 1, GPU: 0}}


def test_a_minimum_forbids_the_rewrite():
    limited = LimitedNames(floors={GPU: "min 1 in team"})
    assert "sets min 1 in team for nvidia.com/gpu" in refused(
        run(make_container(), flavors=(SLICED,), limited=limited)
    )
    assert isinstance(run(make_container(), flavors=(WHOLE,), limited=limited), Rewrite)


def test_several_slices_warn_of_missing_nvlink():
    result = run(make_container(amounts={GPU: 4}), flavors=(SLICED,))
    assert isinstance(result, Rewrite)
    assert "NVLink" in result.warnings[0]
    gang = run(make_container(), flavors=(SLICED,), gang=True)
    assert isinstance(gang, Rewrite)
    assert "a gang on MIG" in gang.warnings[0]


@pytest.mark.parametrize(
    ("gib", "covered", "told"),
    [
        (
            8,
            (GPU,),
            "asks for 8Gi of GPU memory and takes a whole GPU of 80Gi: its queue offers no",
        ),
        (40, (GPU,), "asks for 40Gi of GPU memory and takes a whole GPU of 80Gi"),
        (41, (GPU,), ""),
        (8, (GPU, mig("1g.10gb")), ""),
        (0, (GPU,), ""),
    ],
)
def test_who_asks_for_little_memory_is_told_that_it_takes_a_whole_gpu(
    gib: int, covered: tuple[str, ...], told: str
) -> None:
    result = run(make_container(gib=gib), flavors=(make_flavor("a100", A100, *covered),))
    assert isinstance(result, Rewrite)
    texts = [text for text in result.warnings if "whole GPU" in text]
    assert len(texts) == bool(told)
    assert all(told in text for text in texts)


def test_what_the_namespace_asks_for_by_default_takes_a_whole_gpu_without_a_warning() -> None:
    wish = GpuAnnotations(memory_bytes=8 * GIB, is_default=True)
    container = dataclasses.replace(make_container(), wish=wish)
    result = run(container, flavors=(make_flavor("a100", A100, GPU),))
    assert isinstance(result, Rewrite)
    assert result.warnings == ()


def test_several_shares_warn_where_the_plugin_allows_them():
    result = run(make_container(amounts={SHARED: 2}), flavors=(TIMED,))
    assert isinstance(result, Rewrite)
    assert "no more time or memory than 1" in result.warnings[0]


FLAVORS = (WHOLE, SLICED, SINGLE, OPEN, TIMED, UNRENAMED, MPS, MANY)
ASKED = (GPU, SHARED, mig("1g.10gb"), mig("3g.40gb"), mig("7g.79gb"))


@st.composite
def pods(draw):
    count = draw(st.integers(1, 3))
    made = []
    for index in range(count):
        asked = draw(st.dictionaries(st.sampled_from(ASKED), st.integers(0, 2), max_size=2))
        profile = draw(st.sampled_from(("", "", "1g.10gb", "3g.40gb", "7g.80gb")))
        gib = draw(st.sampled_from((0, 0, 4, 8, 16, 40, 80)))
        init = index == 0 and draw(st.booleans())
        made.append(make_container(f"c{index}", asked, profile=profile, gib=gib, init=init))
    return tuple(made)


@given(pods=pods(), flavors=st.permutations(FLAVORS), keep=st.booleans())
def test_a_second_run_changes_nothing(pods, flavors, keep):
    limited = LimitedNames(named=frozenset({GPU}) if keep else frozenset())
    flavors = tuple(flavors[:4])
    first = run(*pods, flavors=flavors, limited=limited)
    if not isinstance(first, Rewrite):
        return
    again = run(*_applied(pods, first), flavors=flavors, limited=limited)
    assert isinstance(again, Rewrite), again
    assert (again.flavor, again.containers) == (first.flavor, ())
    assert again.demand == first.demand


def _applied(pods, result: Rewrite) -> tuple[ContainerRequest, ...]:
    """The pod after the rewrite, with the annotations it asks for."""
    new = {container.name: container for container in result.containers}
    wished = {key.rpartition(".")[2]: value for key, value in result.annotations.items()}
    applied = []
    for container in pods:
        wish = container.wish
        if container.name in wished:
            wish = dataclasses.replace(wish, profile=wished[container.name])
        changed = new.get(container.name, container)
        applied.append(
            dataclasses.replace(
                container, requests=changed.requests, limits=changed.limits, wish=wish
            )
        )
    return tuple(applied)


@pytest.mark.parametrize(
    ("requests", "limits", "text"),
    [
        (
            {GPU: 1},
            {},
            (
                "spec.containers[0].resources.limits: Required value: Limit must be set for non"
                " overcommitable resources; put nvidia.com/gpu into resources.limits, with the"
                " same amount"
            ),
        ),
        (
            {GPU: 1},
            {GPU: 2},
            (
                'spec.containers[0].resources.requests: Invalid value: "1": must be equal to'
                " nvidia.com/gpu limit of 2"
            ),
        ),
        ({}, {GPU: -1}, "must be greater than or equal to 0"),
    ],
)
def test_req_14_core_rules_come_first_with_the_name_that_was_written(requests, limits, text):
    container = ContainerRequest(name="main", requests=requests, limits=limits)
    assert text in refused(run(container, flavors=(SLICED,)))


def test_a_limit_without_a_request_is_enough():
    result = run(ContainerRequest(name="main", limits={GPU: 1}), flavors=(SLICED,))
    assert amounts(result) == {"main": {mig("1g.10gb"): 1}}


def test_req_16_shares_above_one_fail_only_where_the_plugin_says_so():
    strict = dataclasses.replace(TIMED, fail_above_one=True)
    lax = dataclasses.replace(MPS, fail_above_one=False)
    assert isinstance(run(make_container(), flavors=(MPS,)), Rewrite)
    two = make_container(amounts={SHARED: 2})
    assert "found 2" in refused(run(two, flavors=(strict,)))
    assert isinstance(run(two, flavors=(lax,)), Rewrite)


def test_no_flavor_with_enough_quota_still_names_the_first_that_could():
    """Who knows all quota trees speaks of device names; of what they are worth, only this."""
    small = dataclasses.replace(SLICED, ceilings={mig("1g.10gb"): 1})
    result = run(make_container(amounts={GPU: 2}), flavors=(small,))
    assert isinstance(result, Rewrite)
    assert result.flavor == "sliced"
    assert not [text for text in result.warnings if "Too big" in text]


def test_more_memory_than_the_flavor_has_quota_for_is_told():
    small = dataclasses.replace(SLICED, ceilings={MEMORY: 10 * 2**30})
    result = run(make_container(amounts={GPU: 2}), flavors=(small,))
    assert isinstance(result, Rewrite)
    assert result.warnings[-1] == (
        "Too big: asks 20Gi gpu-admission.dev/gpu-memory, flavor sliced can reach 10Gi."
        " Ask for at most 10Gi, or have the quota raised"
    )


def test_memory_that_the_quota_just_suffices_for_is_not_too_big():
    small = dataclasses.replace(SLICED, ceilings={MEMORY: 20 * GIB})
    result = run(make_container(amounts={GPU: 2}), flavors=(small,))
    assert isinstance(result, Rewrite)
    assert not [text for text in result.warnings if "Too big" in text]


BAD_FLAVORS = {
    "an unknown product": (
        make_flavor("f", "NVIDIA-X", GPU),
        make_container(gib=8),
        "name the product in the flavor's annotation",
    ),
    "a profile that the product lacks": (
        make_flavor("f", A100, mig("1g.5gb"), profile="1g.5gb"),
        make_container(profile="1g.10gb"),
        "mig-profile '1g.5gb': A100-80GB has no such profile",
    ),
    "shares of slices by mps": (
        make_flavor("f", A100, MEMORY, profile="1g.10gb", sharing="mps"),
        make_container(profile="1g.10gb"),
        "mps cannot share MIG instances",
    ),
}


@pytest.mark.parametrize("case", BAD_FLAVORS.values(), ids=BAD_FLAVORS.keys())
def test_a_badly_described_flavor_is_named_in_the_refusal(case):
    flavor, container, text = case
    message = refused(run(container, flavors=(flavor,)))
    assert "flavor f: " in message
    assert text in message


def test_flavors_that_do_not_offer_a_profile_are_told_together():
    other = make_flavor("other", A100, MEMORY, profile="2g.20gb")
    result = run(make_container(profile="4g.40gb"), flavors=(SLICED, other))
    message = refused(result)
    assert message.startswith("spec.containers[0].resources.limits[nvidia.com/gpu]: ClusterQueue ")
    assert message.endswith(
        " does not offer 4g.40gb: it offers nvidia.com/mig-1g.10gb, nvidia.com/mig-2g.20gb"
    )
    assert "flavor" not in message


def test_a_flavor_that_offers_a_profile_is_not_told_together_with_those_that_do_not():
    whole = (make_flavor("w1", A100, GPU), make_flavor("w2", A100, GPU))
    asks = make_container("a", profile="1g.10gb"), make_container("b", profile="3g.40gb")
    message = refused(run(*asks, flavors=(*whole, SLICED)))
    assert "does not offer 1g.10gb" not in message
    assert "flavor w1: offers nvidia.com/gpu, not 1g.10gb" in message
    assert "does not offer 3g.40gb: it offers nvidia.com/gpu, nvidia.com/mig-1g.10gb" in message


def test_req_23_every_flavors_reason_is_told_in_order():
    result = run(make_container(profile="4g.40gb"), flavors=(SLICED, TIMED))
    assert refused(result) == (
        "spec.containers[0].resources.limits[nvidia.com/gpu]: flavor sliced: offers"
        " nvidia.com/mig-1g.10gb, not 4g.40gb;"
        " spec.containers[0].resources.limits[nvidia.com/gpu]: flavor timed: T4 has no MIG,"
        " hence no 4g.40gb"
    )


def test_an_annotation_for_a_container_without_gpus_is_told():
    idle = make_container("log", {"cpu": 1}, profile="1g.10gb")
    idle = dataclasses.replace(idle, wish=dataclasses.replace(idle.wish, own=True))
    result = run(make_container(), idle, flavors=(SLICED,))
    assert isinstance(result, Rewrite)
    assert result.warnings == ("container log requests no GPU: its annotation has no effect",)


def test_req_02_a_cost_that_is_only_an_upper_bound_is_told_where_it_counts():
    counted = make_flavor("any", "", mig("1g.24gb"), MEMORY)
    devices = make_flavor("any", "", mig("1g.24gb"))
    told, untold = (
        run(make_container(amounts={mig("1g.24gb"): 1}), flavors=(flavor,))
        for flavor in (counted, devices)
    )
    assert isinstance(told, Rewrite)
    assert isinstance(untold, Rewrite)
    assert [text.partition(" over ")[0] for text in told.warnings] == [
        "1g.24gb is counted at its highest cost"
    ]
    assert untold.warnings == ()


@pytest.mark.parametrize(
    ("flavor", "container", "told"),
    [
        (make_flavor("f", A100, MEMORY), make_container(gib=8), True),
        (make_flavor("f", A100, MEMORY, profile="1g.10gb"), make_container(gib=8), False),
        (make_flavor("f", A100, mig("1g.10gb"), MEMORY), make_container(gib=8), False),
        (make_flavor("f", A100, MEMORY), make_container(profile="1g.10gb"), False),
        (make_flavor("f", A100, MEMORY), make_container(gib=60), False),
        (make_flavor("f", A100, MEMORY), make_container(), False),
    ],
    ids=["cut unknown", "flavor says", "queue says", "pod says", "whole", "no wish"],
)
def test_a_slice_that_perhaps_no_node_has_is_told(flavor, container, told):
    result = run(container, flavors=(flavor,))
    assert isinstance(result, Rewrite)
    assert ["is the smallest slice that is large enough" in text for text in result.warnings] == [
        True
    ] * told
