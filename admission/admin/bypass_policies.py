"""Policies in the API server against pods that reach GPUs without asking for them.

The policies are the template ``bypass-policies``; their rules are those of
``admission.gpu.bypass_rules``, in CEL. What happens is the namespace's choice, by its label
``gpu-admission.dev/bypass``: ``deny``, ``deny-strict``, ``warn`` or ``audit``. Where it says
nothing, the settings say it, for namespaces with a LocalQueue and for those without. So the
bindings follow from the settings.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from admission.admin import admission_policies, rbac, rendering, webhooks
from admission.admin.admission_policies import listed
from admission.admin.rendering import Document
from admission.admin.webhooks import quote
from admission.base import names
from admission.base.namespaces import (
    AUDIT,
    BYPASS_CHOICES,
    DENY,
    DENY_STRICT,
    WARN,
)
from admission.config.derived import Settings
from admission.config.gpu_configuration import Modes, NamespaceMode
from admission.gpu import bypass_rules, resources
from admission.owners import integrations

CREATE_POLICY: Final = "gpu-admission-bypass-create"
UPDATE_POLICY: Final = "gpu-admission-bypass-update"
DEBUG_POLICY: Final = "gpu-admission-bypass-debug"
RESIZE_POLICY: Final = "gpu-admission-bypass-resize"
STRICT_POLICY: Final = "gpu-admission-bypass-strict"
STRICT_DEBUG_POLICY: Final = "gpu-admission-bypass-strict-debug"
NOTICE_POLICY: Final = "gpu-admission-bypass-notice"
SOURCES_POLICY: Final = "gpu-admission-bypass-sources"
CLAIMS_POLICY: Final = "gpu-admission-claims"
ENFORCE_POLICY: Final = "gpu-admission-enforce"
LABELS_POLICY: Final = "gpu-admission-bypass-labels"

LABEL_VALUES: Final[Mapping[str, Sequence[str]]] = {
    names.BYPASS_LABEL: BYPASS_CHOICES,
    names.ENFORCE_LABEL: ("true", "false"),
}
"""Labels of a namespace that mean something here, and their values."""


@dataclass(frozen=True, slots=True)
class _Reaction:
    """What becomes of what a policy objects to.

    Attributes:
        name: distinguishes the bindings of one policy.
        actions: of a binding.
        choices: values of the namespace label that use it.
    """

    name: str
    actions: Sequence[str]
    choices: Sequence[str]


_DENY: Final = ("Deny", "Audit")
_SURE: Final = (
    _Reaction("deny", _DENY, (DENY, DENY_STRICT)),
    _Reaction("warn", ("Warn", "Audit"), (WARN,)),
    _Reaction("audit", ("Audit",), (AUDIT,)),
)
_STRICT: Final = (_Reaction("deny", _DENY, (DENY_STRICT,)),)
_NOTICE: Final = (
    _Reaction("warn", ("Warn", "Audit"), (DENY, DENY_STRICT, WARN)),
    _Reaction("audit", ("Audit",), (AUDIT,)),
)
"""Each choice leaves a mark in the audit log."""

_REACTIONS: Final[Mapping[str, Sequence[_Reaction]]] = {
    CREATE_POLICY: _SURE,
    UPDATE_POLICY: _SURE,
    DEBUG_POLICY: _SURE,
    RESIZE_POLICY: _SURE,
    STRICT_POLICY: _STRICT,
    STRICT_DEBUG_POLICY: _STRICT,
    NOTICE_POLICY: _NOTICE,
    SOURCES_POLICY: _SURE,
}


def documents(settings: Settings, users: Iterable[str] = ()) -> list[Document]:
    """Return the policies, each followed by its bindings.

    Args:
        settings: the managed resources, the managed namespaces and our own namespace.
        users: whose updates are not looked at, besides those of the controller's service account:
            the user of a controller that runs outside the cluster. It writes on pods what
            admission checks ask for.

    Raises:
        InvalidValueError: a managed resource is no name and no prefix.
    """
    managed = resources.managed(settings.gpu.managed_resources)
    account = f"system:serviceaccount:{settings.namespace}:{rbac.CONTROLLER_ACCOUNT}"
    makers = integrations.kinds_of(settings).makers
    policies = rendering.documents(
        "bypass-policies",
        **admission_policies.choice_of(settings.managed_namespaces),
        trusted=listed(sorted({account, *users})),
        pod_makers=listed(makers),
        managed=webhooks.names_managed("r", managed),
        asks_by_class=webhooks.asks_by_class(managed),
        variables=listed(bypass_rules.VARIABLES),
        shows_nothing=listed(bypass_rules.SHOWS_NOTHING),
        device_paths=quote(_any_path(bypass_rules.DEVICE_PATHS, "")),
        device_directories=quote(_directories()),
        device_mounts=bypass_rules.DEVICE_MOUNTS,
        selections=quote(f"(?s){_selections()}"),
        ask=bypass_rules.ASK,
        remove=bypass_rules.REMOVE,
        node_text=bypass_rules.NODE_TEXT,
        resize_text=bypass_rules.RESIZE_TEXT,
    )
    modes = settings.gpu.effective_modes
    return [
        document
        for policy in policies
        for document in (policy, *_bindings(policy["metadata"]["name"], modes))
    ]


def leftovers(settings: Settings) -> list[Document]:
    """Return the bindings that installations with other modes have, enough to delete them."""
    document_names = {document["metadata"]["name"] for document in documents(settings)}
    leftover = {}
    for choice, other in itertools.permutations(BYPASS_CHOICES, 2):
        modes = Modes(
            with_queue=NamespaceMode(bypass=choice, enforce=True),
            without_queue=NamespaceMode(bypass=other),
        )
        swapped = Modes(with_queue=modes.without_queue, without_queue=modes.with_queue)
        for chosen_modes in (modes, swapped):
            gpu = settings.gpu.model_copy(update={"modes": chosen_modes})
            for document in documents(settings.model_copy(update={"gpu": gpu})):
                leftover[document["metadata"]["name"]] = document
    return [leftover[name] for name in sorted(leftover.keys() - document_names)]


def _bindings(policy: str, modes: Modes) -> Iterable[Document]:
    if policy == LABELS_POLICY:
        yield _binding(policy, "", _DENY, {})
        return
    if policy in {CLAIMS_POLICY, ENFORCE_POLICY}:
        for where, expressions in chosen(
            names.ENFORCE_LABEL,
            ["true"],
            with_queue=modes.with_queue.enforce,
            without_queue=modes.without_queue.enforce,
        ):
            yield _binding(policy, where, _DENY, {"matchExpressions": expressions})
        return
    for reaction in _REACTIONS[policy]:
        for where, expressions in chosen(
            names.BYPASS_LABEL,
            reaction.choices,
            with_queue=modes.with_queue.bypass in reaction.choices,
            without_queue=modes.without_queue.bypass in reaction.choices,
        ):
            suffix = f"-{reaction.name}{where}"
            yield _binding(policy, suffix, reaction.actions, {"matchExpressions": expressions})


def _binding(policy: str, suffix: str, actions: Sequence[str], selector: Document) -> Document:
    (binding,) = rendering.documents(
        "bypass-policies-binding",
        name=f"{policy}{suffix}",
        policy=policy,
        actions=list(actions),
        namespace_selector=selector,
    )
    return binding


def chosen(
    label: str, choices: Sequence[str], *, with_queue: bool, without_queue: bool
) -> Iterable[tuple[str, list[Document]]]:
    """Return the selectors that together choose the namespaces for which a choice holds.

    Args:
        label: the label by which namespaces choose.
        choices: those of its values that are meant.
        with_queue: whether namespaces with a LocalQueue that choose nothing are meant.
        without_queue: likewise those without one.

    Returns:
        Each with what distinguishes the names of the bindings.
    """
    values = [value for value in LABEL_VALUES[label] if value not in choices]
    if with_queue and without_queue:
        yield "", [{"key": label, "operator": "NotIn", "values": values}]
        return
    yield "", [{"key": label, "operator": "In", "values": list(choices)}]
    unsaid = {"key": label, "operator": "NotIn", "values": list(LABEL_VALUES[label])}
    if with_queue:
        yield "-with-queue", [unsaid, {"key": names.HAS_QUEUE_LABEL, "operator": "Exists"}]
    if without_queue:
        absent = {"key": names.HAS_QUEUE_LABEL, "operator": "DoesNotExist"}
        yield "-without-queue", [unsaid, absent]


def _directories() -> str:
    """Return a regular expression for directories of devices, what is in them, and above them."""
    inside = _any_path(bypass_rules.DEVICE_DIRECTORIES, "(/|$)")
    above = sorted(
        {
            str(parent)
            for directory in bypass_rules.DEVICE_DIRECTORIES
            for parent in PurePosixPath(directory).parents
            if parent.name
        }
    )
    return f"{inside}|{_any_path(above, '/*$')}|^([.]?/+)*[.]?$"


def _any_path(paths: Sequence[str], end: str) -> str:
    """A regular expression for paths that begin like one of these, however written.

    One that begins without a slash begins at the root, as for a container runtime.
    """
    written = (r"(/+\.)*/+".join(map(re.escape, path.strip("/").split("/"))) for path in paths)
    return rf"^(\.?/+)*({'|'.join(written)}){end}"


def _selections() -> str:
    """Return a regular expression for where a mount selects GPUs.

    Where ``..`` leads is not followed: a path with it that names the directory is one.
    """
    name = re.escape(PurePosixPath(bypass_rules.DEVICE_MOUNTS).name)
    above = (rf"(^|/)\.\./(.*/)?{name}(/|$)", rf"(^|/){name}/(.*/)?\.\.(/|$)")
    return "|".join((_any_path((bypass_rules.DEVICE_MOUNTS,), "(/|$)"), *above))
