"""The API server's own rules for extended resources, with its own words.

Checked before a rewrite, so that a malformed request is refused under the name the user wrote.

Source: kubernetes v1.36 pkg/apis/core/validation/validation.go (ValidateResourceRequirements).
"""

from collections.abc import Iterator, Mapping

from admission.gpu import resources
from admission.gpu.choosing import Code, Reason


def check(path: str, requests: Mapping[str, int], limits: Mapping[str, int]) -> Iterator[Reason]:
    """What the API server would refuse in a container's GPU requests, sorted by resource.

    Args:
        path: of the container, such as ``spec.containers[0]``.
        requests: amounts by resource.
        limits: alike. A limit without a request is fine: the request becomes the limit.
    """
    for name in sorted({*requests, *limits}):
        if not resources.is_device(name):
            continue
        for kind, amounts in (("limits", limits), ("requests", requests)):
            if amounts.get(name, 0) < 0:
                text = f'Invalid value: "{amounts[name]}": must be greater than or equal to 0'
                yield _reason(f"{path}.resources.{kind}[{name}]", text)
        if name not in requests:
            continue
        if name not in limits:
            text = "Required value: Limit must be set for non overcommitable resources"
            yield _reason(f"{path}.resources.limits", text)
        elif requests[name] != limits[name]:
            text = (
                f'Invalid value: "{requests[name]}": must be equal to {name}'
                f" limit of {limits[name]}"
            )
            yield _reason(f"{path}.resources.requests", text)


def _reason(field: str, text: str) -> Reason:
    return Reason(code=Code.INVALID, field=field, text=text)
