"""Profile and resource names in every form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base.errors import InvalidValueError
from admission.gpu import mig_profile_names, resources
from admission.gpu.mig_profile_names import ProfileName
from admission.gpu.resources import UnitKind
from tests.gpu.builders import CATALOGUE


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1g.10gb", "1g.10gb"),
        ("1g.10gb+me", "1g.10gb+me"),
        ("1g.10gb.me", "1g.10gb+me"),
        ("1g.10gbme", "1g.10gb+me"),
        ("mig-1g.24gb.me.all", "1g.24gb+me.all"),
        ("1g.24gb+gfx", "1g.24gb+gfx"),
        ("1g.24gb-me", "1g.24gb-me"),
        ("nvidia.com/mig-7g.79gb", "7g.79gb"),
        ("1g.0gb", "1g.0gb"),
        ("2c.3g.40gb", "2c.3g.40gb"),
        ("3c.3g.40gb", "3g.40gb"),
        ("1g.10gb+me,gfx", "1g.10gb+gfx,me"),
    ],
)
def test_every_spelling_has_one_canonical_form(text, canonical):
    assert mig_profile_names.parse(text).text == canonical


@pytest.mark.parametrize(
    "text",
    ["", "1g", "10gb", "0g.10gb", "1g.10gb+", "1g.10gb+me,", "1g.10gb..me", "g.10gb", "1g.10GB",
     "1g.10gb+me.", "1g.10gb+a..b", "1g.10gb+me-x", "4c.3g.40gb", "5c.7g.80gb", "all-balanced"],
)  # fmt: skip
def test_what_is_no_profile_is_an_error(text):
    with pytest.raises(InvalidValueError):
        mig_profile_names.parse(text)


def test_resource_spelling_of_attributes():
    assert mig_profile_names.parse("1g.24gb+me.all").resource == "nvidia.com/mig-1g.24gb.me.all"
    assert mig_profile_names.parse("1g.24gb-me").resource == "nvidia.com/mig-1g.24gb-me"


@given(
    st.integers(1, 9),
    st.integers(0, 300),
    st.sampled_from(["", "+me", "+me.all", "+gfx", "-me"]),
)
def test_names_survive_a_round_trip_through_the_resource(slices, memory, attributes):
    profile = ProfileName(slices=slices, memory_gb=memory, attributes=attributes)
    assert mig_profile_names.parse(profile.resource) == profile
    assert mig_profile_names.parse(profile.text) == profile


def test_req_01_every_resource_form_is_understood():
    profiles = [
        p.name for product in CATALOGUE.products.values() for p in product.profiles.values()
    ]
    for profile in profiles:
        name = mig_profile_names.parse(profile).resource
        for resource, shared in ((name, False), (name + ".shared", True)):
            device = resources.parse(resource)
            assert device is not None
            assert (device.kind, device.shared) == (UnitKind.MIG, shared)
            assert device.profile is not None
            assert device.profile.text == profile
    plain = resources.parse("nvidia.com/gpu")
    shared_gpu = resources.parse("nvidia.com/gpu.shared")
    implicit = resources.parse("deviceclass.resource.kubernetes.io/gpu.nvidia.com")
    assert plain is not None
    assert shared_gpu is not None
    assert implicit is not None
    assert (plain.kind, plain.shared) == (UnitKind.GPU, False)
    assert (shared_gpu.kind, shared_gpu.shared) == (UnitKind.GPU, True)
    assert (implicit.kind, implicit.device_class) == (UnitKind.DEVICE_CLASS, "gpu.nvidia.com")


@pytest.mark.parametrize("resource", ["cpu", "rdma/rdma_shared_device_a", "nvidia.com/gpumem"])
def test_other_resources_are_no_gpus(resource):
    assert resources.parse(resource) is None


def test_req_01_an_unknown_mig_name_is_an_error_not_free():
    with pytest.raises(InvalidValueError, match="must be a MIG profile"):
        resources.parse("nvidia.com/mig-1x.10gb")


def test_trap_07_a_compute_instance_is_recognised_and_refused():
    with pytest.raises(InvalidValueError, match=r"request nvidia.com/mig-3g.40gb"):
        resources.parse("nvidia.com/mig-2c.3g.40gb")


def test_managed_patterns():
    managed = resources.managed()
    assert managed.matches("nvidia.com/mig-1g.10gb")
    assert not managed.matches("nvidia.com/gpumem")
    assert managed.amounts({"nvidia.com/gpu": 1, "cpu": 2, "nvidia.com/mig-1g.5gb": 0}) == {
        "nvidia.com/gpu": 1
    }
    for pattern in ("", "*", "a*b"):
        with pytest.raises(InvalidValueError):
            resources.managed([pattern])
