"""Keys of what is charged: no two kinds are the same, whatever they are called."""

from itertools import combinations

from admission.base.names import (
    ClaimHolderKey,
    KeptCharge,
    OwnerCharge,
    PodCharge,
    WorkKey,
    WorkloadKey,
)

OF_ONE_NAME: tuple[WorkKey, ...] = (
    WorkloadKey("ml", "train"),
    PodCharge("ml", "train"),
    OwnerCharge("ml", "train"),
    KeptCharge("ml", "train", "start"),
    KeptCharge("ml", "train", "replacement"),
    ClaimHolderKey("ml", "train"),
)


def test_keys_of_different_kinds_are_never_equal() -> None:
    assert [pair for pair in combinations(OF_ONE_NAME, 2) if pair[0] == pair[1]] == []
    assert len(set(OF_ONE_NAME)) == len(OF_ONE_NAME)


def test_no_name_of_a_workload_makes_it_another_kind() -> None:
    named = {WorkloadKey("ml", key.title()) for key in OF_ONE_NAME[1:]}
    assert named.isdisjoint(OF_ONE_NAME)


def test_keys_of_all_kinds_are_sorted_together() -> None:
    others = [WorkloadKey("ml", "a"), WorkloadKey("web", "a")]
    assert sorted([*OF_ONE_NAME, *others]) == [
        WorkloadKey("ml", "a"),
        WorkloadKey("ml", "train"),
        ClaimHolderKey("ml", "train"),
        OwnerCharge("ml", "train"),
        PodCharge("ml", "train"),
        KeptCharge("ml", "train", "replacement"),
        KeptCharge("ml", "train", "start"),
        WorkloadKey("web", "a"),
    ]


def test_what_is_charged_is_told_in_words() -> None:
    assert [key.title() for key in OF_ONE_NAME] == [
        "train",
        "pod train",
        "pods of train",
        "kept for the start of train",
        "kept for the replacement of train",
        "holder train",
    ]
