"""Which namespaces are managed, from a configuration file to settings and back.

Names in NotIn join the excluded namespaces; everything else is asked of a namespace's labels.
"""

from collections.abc import Iterable
from typing import Any, Final

from admission.base import selectors
from admission.base.namespaces import NAME_LABEL
from admission.base.selectors import Requirement
from admission.config.kueue import Selector

FIELD: Final = "managedJobsNamespaceSelector"
_WITH_VALUES: Final = frozenset({"In", "NotIn"})


def excluded(selector: Selector) -> set[str]:
    """Names of namespaces that the selector leaves out by name."""
    found = (one.values for one in _expressions(selector) if _is_by_name(one))
    return {name for names in found for name in names}


def required(selector: Selector) -> tuple[Requirement, ...]:
    """What else the selector asks of a managed namespace."""
    others = [one for one in _expressions(selector) if not _is_by_name(one)]
    return selectors.requirements_of(selector.match_labels or {}, others)


def problems(selector: Selector) -> Iterable[str]:
    """What an API server would refuse in a webhook configuration with this selector."""
    for index, one in enumerate(_expressions(selector)):
        path = f"{FIELD}.matchExpressions[{index}].values"
        if one.operator in _WITH_VALUES and not one.values:
            yield f"{path}: must be specified when operator is {one.operator}"
        if one.operator not in _WITH_VALUES and one.values:
            yield f"{path}: may not be specified when operator is {one.operator}"


def document(excluded_names: Iterable[str], requirements: Iterable[Requirement]) -> dict[str, Any]:
    """The selector of these settings; reading it gives the same."""
    by_name = Requirement(NAME_LABEL, "NotIn", tuple(sorted(excluded_names)))
    return {"matchExpressions": [one.document() for one in (by_name, *requirements)]}


def _expressions(selector: Selector) -> list[Requirement]:
    listed = selector.match_expressions or ()
    return [Requirement(one.key, one.operator, (*(one.values or ()),)) for one in listed]


def _is_by_name(one: Requirement) -> bool:
    return one.key == NAME_LABEL and one.operator == "NotIn"
