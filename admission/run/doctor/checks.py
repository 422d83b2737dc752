"""The table of checks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from admission.install import operators
from admission.kube import resources
from admission.kube.resources import Resource
from admission.run.doctor import devices, installed, queues, state
from admission.run.doctor.findings import Checked, Diagnosis, Finding, error
from admission.run.doctor.picture import NODE_LEASES, OWN_CONFIG, Picture

_RBAC: Final = (
    resources.CLUSTER_ROLES,
    resources.CLUSTER_ROLE_BINDINGS,
    resources.ROLES,
    resources.ROLE_BINDINGS,
)
_WEBHOOKS: Final = (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS)
_QUOTA: Final = (resources.CLUSTER_QUEUES, resources.COHORTS, resources.RESOURCE_FLAVORS)


def _seen(picture: Picture) -> str:
    """Return nothing: what the check needs is objects alone."""
    del picture
    return ""


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: its name in JSON and in the guide.
        find: yields the problems.
        needs: kinds of objects that it needs to read.
        unseen: another reason why it cannot be made; empty if it can.
    """

    name: str
    find: Callable[[Picture], Iterator[Finding]]
    needs: tuple[Resource, ...] = ()
    unseen: Callable[[Picture], str] = _seen

    def look(self, picture: Picture) -> Checked:
        """Return what it finds, errors first, or why it cannot look."""
        why = [picture.unseen[one] for one in self.needs if one in picture.unseen]
        unseen = "; ".join(dict.fromkeys(why)) or self.unseen(picture)
        if unseen:
            return Checked(check=self.name, unseen=unseen)
        found = sorted(self.find(picture), key=lambda one: one.severity.value)
        return Checked(check=self.name, findings=tuple(found))


CHECKS: Final = (
    Check("crds", installed.definitions, (resources.CRDS,)),
    Check("configuration", installed.settings, (OWN_CONFIG,)),
    Check("webhook-configurations", installed.configurations, _WEBHOOKS),
    Check("webhook-answers", installed.answers, _WEBHOOKS, installed.unanswered),
    Check("webhook-trust", installed.trust, _WEBHOOKS, installed.uncertain),
    Check("certificate", installed.certificate, _WEBHOOKS, installed.uncertain),
    Check("processes", installed.processes, (*_WEBHOOKS, resources.DEPLOYMENTS)),
    Check("leader", installed.leader, (*_WEBHOOKS, resources.LEASES)),
    Check("rights", installed.rights, (*_WEBHOOKS, *_RBAC)),
    Check(
        "policies",
        installed.policies,
        (resources.VALIDATING_POLICIES, resources.VALIDATING_POLICY_BINDINGS),
    ),
    Check("visibility", installed.visibility, (resources.API_SERVICES,)),
    Check("other-quota-systems", installed.beside, _WEBHOOKS),
    Check("queue-flavors", queues.flavors, _QUOTA),
    Check("queue-admits", queues.inactive, _QUOTA),
    Check("queue-idle", queues.idle, (*_QUOTA, resources.LOCAL_QUEUES, resources.WORKLOADS)),
    Check("quota-without-node", queues.without_node, (resources.CLUSTER_QUEUES,)),
    Check(
        "local-queues",
        queues.local_queues,
        (resources.LOCAL_QUEUES, resources.CLUSTER_QUEUES, resources.NAMESPACES),
    ),
    Check("flavor-resources", devices.offered, (*_QUOTA, resources.NODES)),
    Check("quota-capacity", devices.quota, (*_QUOTA, resources.NODES)),
    Check("flavor-nodes", devices.flavors_without_nodes, (*_QUOTA, resources.NODES)),
    Check("node-flavors", devices.nodes_without_flavor, (*_QUOTA, resources.NODES)),
    Check("flavor-taints", devices.taints, (*_QUOTA, resources.NODES)),
    Check("flavor-annotations", devices.annotations, (*_QUOTA, resources.NODES)),
    Check("nodes-ready", devices.ready, (resources.NODES,)),
    Check("gpu-health", devices.sick, (resources.NODES,)),
    Check("product-labels", devices.products, (resources.NODES,)),
    Check("gpu-classes", devices.uncounted, (resources.NODES, resources.DEVICE_CLASSES)),
    Check("mig-layouts", devices.layouts, (resources.NODES,)),
    Check("node-labels", devices.labels, (resources.NODES,)),
    Check(
        "gpu-configurations",
        devices.plugin_configs,
        (*_QUOTA, resources.NODES, resources.CONFIG_MAPS, operators.DAEMON_SETS),
    ),
    Check("visible-devices", devices.visible_devices, (resources.NODES, operators.DAEMON_SETS)),
    Check("gpu-limits", devices.limits, (resources.LIMIT_RANGES, resources.RESOURCE_QUOTAS)),
    Check(
        "pods-outside",
        state.outside,
        (resources.PODS, resources.NAMESPACES, resources.LOCAL_QUEUES, operators.DAEMON_SETS),
    ),
    Check("pods-held", state.gated, (resources.PODS, resources.WORKLOADS)),
    Check(
        "terminating",
        state.terminating,
        (resources.PODS, resources.WORKLOADS, resources.NAMESPACES, resources.CLUSTER_QUEUES),
    ),
    Check("clocks", state.clock, (resources.LEASES, NODE_LEASES, resources.NODES)),
    Check("throttling", state.overload, (), state.throttling_unseen),
)
"""All checks, in the order of the output."""


def diagnose(picture: Picture) -> Diagnosis:
    """Return what all checks come to; of a cluster without gpu-admission, that it has none."""
    if _is_absent(picture):
        text = "gpu-admission is not installed here"
        found = error("Cluster", "of the kubeconfig", text, "gpu-admission install")
        return Diagnosis((Checked(check="installed", findings=(found,)),))
    return Diagnosis(tuple(one.look(picture) for one in CHECKS))


def _is_absent(picture: Picture) -> bool:
    """Return whether nothing of an installation is there, and it would be seen."""
    seen = not any(one in picture.unseen for one in (resources.CRDS, *_WEBHOOKS))
    return seen and not picture.of(resources.CRDS) and not any(picture.hooks())
