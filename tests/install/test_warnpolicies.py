"""The policies that warn cost nothing where they are of no use, and can stop nobody."""

from admission.config.derived import Settings
from admission.config.gpu_configuration import GpuConfiguration
from admission.install import warnpolicies


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
