"""The API server's refusals, in its words.

Source: k8s.io/apimachinery pkg/api/errors and pkg/util/validation/field, v1.36.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from admission.kube import errors
from admission.kube.errors import ApiError
from admission.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class RefusalCause:
    """One broken rule.

    Attributes:
        field: path of the field, as ``spec.containers[0].name``.
        text: the rule, in the API server's words, with its leading class ("Invalid value: ...").
    """

    field: str
    text: str

    @override
    def __str__(self) -> str:
        return f"{self.field}: {self.text}"


def required(field: str, detail: str = "") -> RefusalCause:
    """Return the error of a field that must be set."""
    return RefusalCause(field, f"Required value: {detail}" if detail else "Required value")


def forbidden(field: str, detail: str) -> RefusalCause:
    """Return the error of a field that may not be what it is."""
    return RefusalCause(field, f"Forbidden: {detail}")


def invalid_value(field: str, value: object, detail: str) -> RefusalCause:
    """Return the error of a value that breaks a rule."""
    shown = json.dumps(value, separators=(",", ":"), sort_keys=True)
    return RefusalCause(field, f"Invalid value: {shown}: {detail}")


_CAUSES = {
    "Required value": "FieldValueRequired",
    "Forbidden": "FieldValueForbidden",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
}


def invalid(resource: Resource, name: str, broken: Sequence[RefusalCause]) -> ApiError:
    """Return 422: the object breaks rules of its kind."""
    unique = tuple(dict.fromkeys(broken))
    text = ", ".join(str(error) for error in unique)
    shown = f"[{text}]" if len(unique) > 1 else text
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    causes = [
        {
            "reason": _CAUSES.get(error.text.split(":", 1)[0], "FieldValueInvalid"),
            "message": error.text,
            "field": error.field,
        }
        for error in unique
    ]
    details = {"name": name, "group": resource.group, "kind": resource.kind, "causes": causes}
    return errors.make(422, f'{kind} "{name}" is invalid: {shown}', details=details)


def not_found(resource: Resource, name: str) -> ApiError:
    """Return 404: no such object."""
    return errors.make(
        404, f'{resource.qualified} "{name}" not found', details=_details(resource, name)
    )


def not_served(resource: Resource) -> ApiError:
    """Return 404: no such resource."""
    return errors.make(404, f"the server could not find the requested resource "
                            f"({resource.qualified}, {resource.version})")  # fmt: skip


def already_exists(resource: Resource, name: str) -> ApiError:
    """Return 409: the name is taken."""
    return errors.make(
        409,
        f'{resource.qualified} "{name}" already exists',
        reason="AlreadyExists",
        details=_details(resource, name),
    )


def conflict(resource: Resource, name: str, why: str = "") -> ApiError:
    """Return 409: a precondition failed; by default that of the resourceVersion."""
    why = why or (
        "the object has been modified; please apply your changes to the latest version and "
        "try again"
    )
    return errors.make(
        409,
        f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}',
        details=_details(resource, name),
    )


def denied(resource: Resource, name: str, why: str) -> ApiError:
    """Return 403: an admission rule refused."""
    return errors.make(
        403,
        f'{resource.qualified} "{name}" is forbidden: {why}',
        details=_details(resource, name),
    )


def namespace_ending(resource: Resource, name: str, namespace: str) -> ApiError:
    """Return 403: nothing new is made in a namespace that is being deleted."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    return errors.make(
        403,
        f'{resource.qualified} "{name}" is forbidden: {why}',
        details={**_details(resource, name), "causes": [cause]},
    )


def bad_request(message: str) -> ApiError:
    """Return 400: the request itself is wrong."""
    return errors.make(400, message)


def internal(message: str) -> ApiError:
    """Return 500."""
    return errors.make(500, message)


def expired(message: str) -> ApiError:
    """Return 410: too old."""
    return errors.make(410, message)


def unprocessable() -> ApiError:
    """Return 422: a JSON patch does not apply; the API server does not say which operation."""
    return errors.make(422, "the server rejected our request due to an error in our request")


def _details(resource: Resource, name: str) -> dict[str, Any]:
    details = {"name": name, "kind": resource.plural}
    return {**details, "group": resource.group} if resource.group else details
