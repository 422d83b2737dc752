"""The policies that warn cost nothing where they are of no use, and can stop nobody."""

import pytest
import yaml

from admission.admin import warnpolicies
from admission.config import reading
from admission.config.derived import Settings
from admission.config.gpu_configuration import GpuConfiguration
from admission.config.kueue_configuration import Configuration, Integrations
from tests.config import files
from tests.owners import samples


def test_no_policy_can_refuse_or_fail_a_request() -> None:
    for document in warnpolicies.documents(Settings()):
        if document["kind"] == "ValidatingAdmissionPolicy":
            assert document["spec"]["failurePolicy"] == "Ignore"
        else:
            assert document["spec"]["validationActions"] == ["Warn"]


def test_no_policy_about_objects_of_users_looks_into_an_excluded_namespace() -> None:
    settings = Settings(gpu=GpuConfiguration(excluded_namespaces=["kept-out"]))
    of_users = [
        document["spec"]
        for document in warnpolicies.documents(settings)
        if document["kind"] == "ValidatingAdmissionPolicy"
        and document["spec"]["matchConstraints"]["resourceRules"][0]["scope"] == "Namespaced"
    ]
    assert len(of_users) == 4
    for spec in of_users:
        expression = spec["matchConditions"][0]["expression"]
        assert expression.startswith("!(request.namespace in [")
        assert '"kept-out"' in expression


def test_a_name_that_is_managed_is_not_warned_about() -> None:
    settings = Settings(gpu=GpuConfiguration(managed_resources=["nvidia.com/gpu", "amd.com/*"]))
    documents = warnpolicies.documents(settings)
    policy = next(
        one for one in documents if one["metadata"]["name"] == warnpolicies.POD_NAMES_POLICY
    )
    expression = policy["spec"]["matchConditions"][1]["expression"]
    assert '!(r in ["nvidia.com/gpu"] || r.startsWith("amd.com/"))' in expression


@pytest.mark.parametrize(
    ("frameworks", "served"),
    [
        ([], '["deployments", "statefulsets"]'),
        (["deployment"], '["deployments"]'),
        (["batch/job"], "[]"),
    ],
)
def test_the_queue_label_of_kinds_that_are_served_is_not_warned_about(
    frameworks: list[str], served: str
) -> None:
    integrations = Integrations(frameworks=frameworks)
    documents = warnpolicies.documents(Settings(kueue=Configuration(integrations=integrations)))
    policies = {
        one["metadata"]["name"]: one["spec"]
        for one in documents
        if one["kind"] == "ValidatingAdmissionPolicy"
    }
    (condition,) = (
        one["expression"]
        for one in policies["gpu-admission-warn-queue-label-apps"]["matchConditions"]
        if one["name"] == "is-not-read"
    )
    assert condition == f"!(request.resource.resource in {served})"
    others = policies[warnpolicies.OWNERS_POLICY]["matchConstraints"]["resourceRules"]
    is_warned_about = "leaderworkersets" in {name for one in others for name in one["resources"]}
    assert is_warned_about is bool(frameworks)


def test_where_every_kind_is_served_there_is_no_policy_without_rules() -> None:
    """A configuration that describes MXJobs; the API server refuses a policy without rules."""
    added = files.gpu(owners=list(samples.ADDED))
    settings = reading.read(yaml.safe_dump(added), "config.yaml").settings
    documents = warnpolicies.documents(settings)
    names = {one["metadata"]["name"] for one in documents}
    assert warnpolicies.OWNERS_POLICY not in names
    policies = [one for one in documents if one["kind"] == "ValidatingAdmissionPolicy"]
    assert policies
    assert all(one["spec"]["matchConstraints"]["resourceRules"] for one in policies)
