"""Answers are valid AdmissionReviews within the API server's limits."""

import json

from admission.webhook import responses


def test_a_patch_without_operations_is_a_plain_permission():
    assert responses.patched("u", ()) == responses.allowed("u")


def test_warnings_stand_beside_any_answer():
    for answer in (
        responses.allowed("u", ["careful"]),
        responses.patched("u", [{"op": "remove", "path": "/a"}], ["careful"]),
        responses.denied("u", "no", ["careful"]),
    ):
        assert json.loads(answer)["response"]["warnings"] == ["careful"]


def test_a_long_warning_is_cut_visibly():
    (kept,) = responses.fit_warnings(["x" * 300])
    assert kept == "x" * 253 + "..."


def test_equal_warnings_are_given_once_and_in_order():
    assert responses.fit_warnings(["b", "a", "b"]) == ["b", "a"]


def test_warnings_beyond_the_total_are_left_out():
    kept = responses.fit_warnings(f"{number:03d}" + "x" * 253 for number in range(100))
    assert sum(map(len, kept)) == 4096
    assert kept[-1].startswith("015")
