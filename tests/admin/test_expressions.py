"""What CEL expressions cost the API server is bounded, whatever a user writes into an object.

A macro takes time that grows with the square of the members it looks at, so each one stands
behind a test of the size of its list or map.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from admission.admin import manifests
from admission.config.derived import Settings

_MACRO = re.compile(r"(dyn\([\w.]+\)|[\w.]+|[)\]])\.(?:exists|exists_one|all|filter|map)\(")
_NOT_WRITTEN_BY_USERS = (
    "request.userInfo.groups",  # by the authenticator
    "object.webhooks", "oldObject.webhooks",  # by administrators
    "object.status.conditions", "oldObject.status.conditions",  # by controllers and nodes
)  # fmt: skip


def sources() -> Iterator[ParameterSet]:
    """Each expression with what bounds it besides itself."""
    for documents in manifests.base(Settings(), "image").values():
        for document in documents:
            name = document["metadata"]["name"]
            if document["kind"] == "ValidatingAdmissionPolicy":
                yield from _of_policy(name, document["spec"])
            for hook in document.get("webhooks", []):
                for condition in hook.get("matchConditions", []):
                    label = f"{hook['name']} {condition['name']}"
                    yield pytest.param(condition["expression"], "", id=label)


def _of_policy(name: str, spec: dict[str, Any]) -> Iterator[ParameterSet]:
    variables = {one["name"]: one["expression"] for one in spec.get("variables", [])}
    for member in ("matchConditions", "variables", "validations"):
        for index, one in enumerate(spec.get(member, [])):
            for text in ("expression", "messageExpression"):
                expression = one.get(text, "")
                bounded = "size(variables.many)" in expression
                elsewhere = variables["many"] if bounded else ""
                yield pytest.param(expression, elsewhere, id=f"{name} {member} {index} {text}")


@pytest.mark.parametrize(("expression", "elsewhere"), list(sources()))
def test_every_macro_over_what_users_write_stands_behind_a_test_of_its_size(
    expression: str, elsewhere: str
) -> None:
    for receiver in {found[1] for found in _MACRO.finditer(expression)}:
        assert _is_bounded(receiver, expression + elsewhere), f"no test of the size of {receiver}"


def _is_bounded(receiver: str, tests: str) -> bool:
    if receiver in _NOT_WRITTEN_BY_USERS or receiver.startswith("variables."):
        return True  # a variable is an expression of its own here
    if receiver.startswith("dyn("):
        return True  # members of a message of the API: as many as it has fields
    if receiver in {")", "]"}:
        return True  # a list in the expression, or what another macro has found
    return f"size({receiver}) >" in tests or f"size({receiver}) <=" in tests
