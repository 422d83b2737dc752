"""Offline checks of mig-parted and device plugin configurations."""

from typing import Any

import pytest

from admission.gpu import migparted, pluginconfig
from admission.gpu.findings import Finding
from tests.gpu.builders import CATALOGUE, GPU, SHARED

A100 = CATALOGUE.product("A100-80GB")


def check(devices: dict[str, Any], product: Any = A100, **entry: Any) -> list[Finding]:
    config = {"mig-configs": {"c": [{"mig-enabled": True, "mig-devices": devices, **entry}]}}
    return list(migparted.check(config, CATALOGUE, product))


@pytest.mark.parametrize(
    ("devices", "rule", "text"),
    [
        ({"3g.40gb": 2, "1g.10gb": 1}, "T3", "{3g.40gb: 2} fits"),
        ({"1g.10gb": 2, "2g.20gb": 2, "3g.40gb": 1}, "T3", "9 compute slices of 7"),
        ({"1g.5gb": 7}, "T5", "belong to A100-40GB"),
        ({"1c.3g.40gb": 2}, "T7", "request nvidia.com/mig-3g.40gb"),
        ({"small": 1}, "name", "must be a MIG profile"),
        ({"1g.10gb": "7"}, "shape", "must be a count"),
        ({"1g.10gb": -1}, "shape", "must be a count"),
        ({"1g.10gb": 0, "3g.40gb": True}, "shape", "must be a count"),
        ({"1g.10gb": 0}, "", ""),
        ({}, "", ""),
    ],
)
def test_req_07_geometries_that_cannot_be(devices, rule, text):
    found = check(devices)
    assert [finding.rule for finding in found] == ([rule] if rule else [])
    assert not rule or text in found[0].text


def test_trap_04_a_sum_within_the_slices_is_not_enough():
    assert check({"3g.40gb": 2, "1g.10gb": 1})[0].rule == "T3"
    assert check({"3g.40gb": 1, "1g.10gb": 4}) == []


def test_without_a_product_any_product_may_do():
    assert check({"1g.5gb": 7}, None) == []
    assert check({"1g.10gb": 7}, None) == []
    assert "no GPU has all of" in check({"1g.5gb": 1, "1g.6gb": 1}, None)[0].text


def test_a_device_filter_narrows_the_products():
    assert check({"1g.10gb": 7}, None, **{"device-filter": "0x20B210DE"}) == []
    assert check({"1g.10gb": 7}, None, **{"device-filter": ["0x20B010DE"]})[0].rule == "T3"


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        ({}, "shape"),
        ({"mig-configs": {"a": {}}}, "shape"),
        ({"mig-configs": {"a": ["x"]}}, "shape"),
        ({"mig-configs": {"a": [{"mig-devices": {"1g.10gb": 1}}]}}, "disabled"),
        ({"mig-configs": {"a": [{"mig-enabled": True, "mig-device": {}}]}}, "key"),
        ({"mig-configs": {"a": [{"mig-enabled": True, "mig-devices": 7}]}}, "shape"),
    ],
)
def test_malformed_mig_parted_configurations(config, rule):
    assert [finding.rule for finding in migparted.check(config, CATALOGUE, A100)] == [rule]


def slicing(**extra: Any) -> dict[str, Any]:
    return {"sharing": {"timeSlicing": {"resources": [{"name": GPU, "replicas": 4}], **extra}}}


def test_trap_01_a_renaming_configuration_is_told():
    (finding,) = pluginconfig.check(slicing(renameByDefault=True))
    assert finding.rule == "T1"
    assert pluginconfig.read(slicing(renameByDefault=True)).offered(GPU) == SHARED
    assert pluginconfig.read(slicing()).offered(GPU) == GPU


def test_trap_02_rename_by_is_no_key():
    (finding,) = pluginconfig.check(slicing(renameBy=True))
    assert (finding.rule, finding.field) == ("T2", "sharing.timeSlicing.renameBy")
    assert "renameByDefault" in finding.text


@pytest.mark.parametrize(
    ("config", "fails"),
    [
        (slicing(), False),
        (slicing(failRequestsGreaterThanOne=True), True),
        ({"sharing": {"mps": {"resources": [{"name": GPU, "replicas": 10}]}}}, True),
        ({}, False),
    ],
)
def test_req_16_defaults_for_more_than_one_share(config, fails):
    assert pluginconfig.read(config).fail_above_one is fails


def test_malformed_entries_are_not_read():
    entries = [{"replicas": 4}, {"name": GPU}, {"name": GPU, "replicas": "4"}, "x"]
    assert pluginconfig.read({"sharing": {"mps": {"resources": entries}}}).replicas == {}
    assert pluginconfig.read({"sharing": {"mps": {"resources": "x"}}}).strategy == ""


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        ({"sharing": {"timeSlicing": {"resources": [{"name": GPU, "replicas": 1}]}}}, "replicas"),
        ({"sharing": {"mps": {"resources": [{"name": "nvidia.com/mig-1g.5gb", "replicas": 2}]}}},
         "mps"),
        ({"sharing": {**slicing()["sharing"], "mps": slicing()["sharing"]["timeSlicing"]}},
         "strategy"),
        ({"sharing": {"slices": {}}}, "T2"),
    ],
)  # fmt: skip
def test_malformed_sharing(config, rule):
    assert rule in [finding.rule for finding in pluginconfig.check(config)]
