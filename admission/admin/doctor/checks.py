"""The table of checks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from admission.admin import operators
from admission.admin.doctor import devices, installed, queues, state, topologies
from admission.admin.doctor.findings import CheckResult, Diagnosis, DoctorFinding, error
from admission.admin.doctor.picture import BROKEN_GLASS, NODE_LEASES, OWN_CONFIG, Picture
from admission.kube import resources
from admission.kube.resources import Resource

_RBAC: Final = (
    resources.CLUSTER_ROLES,
    resources.CLUSTER_ROLE_BINDINGS,
    resources.ROLES,
    resources.ROLE_BINDINGS,
)
_WEBHOOKS: Final = (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS)
_QUOTA: Final = (resources.CLUSTER_QUEUES, resources.COHORTS, resources.RESOURCE_FLAVORS)
_TOPOLOGY: Final = (resources.TOPOLOGIES, resources.RESOURCE_FLAVORS)


def _seen(picture: Picture) -> str:
    """Return nothing: what the check needs is objects alone."""
    del picture
    return ""


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One check.

    Attributes:
        name: its name in JSON and in the guide.
        find: yields the problems.
        needs: kinds of objects that it needs to read.
        unseen: another reason why it cannot be made; empty if it can.
    """

    name: str
    find: Callable[[Picture], Iterator[DoctorFinding]]
    needs: tuple[Resource, ...] = ()
    unseen: Callable[[Picture], str] = _seen

    def look(self, picture: Picture) -> CheckResult:
        """Return what it finds, errors first, or why it cannot look."""
        why = [picture.unseen[resource] for resource in self.needs if resource in picture.unseen]
        unseen = "; ".join(dict.fromkeys(why)) or self.unseen(picture)
        if unseen:
            return CheckResult(check=self.name, unseen=unseen)
        findings = sorted(self.find(picture), key=lambda finding: finding.severity.value)
        return CheckResult(check=self.name, findings=tuple(findings))


CHECKS: Final = (
    DoctorCheck("crds", installed.definitions, (resources.CRDS,)),
    DoctorCheck("configuration", installed.settings, (OWN_CONFIG,)),
    DoctorCheck("webhook-configurations", installed.configurations, _WEBHOOKS),
    DoctorCheck("break-glass", installed.glass, (BROKEN_GLASS, resources.PODS)),
    DoctorCheck("webhook-answers", installed.answers, _WEBHOOKS, installed.unanswered),
    DoctorCheck("webhook-trust", installed.trust, _WEBHOOKS, installed.uncertain),
    DoctorCheck("certificate", installed.certificate, _WEBHOOKS, installed.uncertain),
    DoctorCheck("processes", installed.processes, (*_WEBHOOKS, resources.DEPLOYMENTS)),
    DoctorCheck("leader", installed.leader, (*_WEBHOOKS, resources.LEASES)),
    DoctorCheck("rights", installed.rights, (*_WEBHOOKS, *_RBAC)),
    DoctorCheck(
        "policies",
        installed.policies,
        (resources.VALIDATING_POLICIES, resources.VALIDATING_POLICY_BINDINGS),
    ),
    DoctorCheck("visibility", installed.visibility, (resources.API_SERVICES,)),
    DoctorCheck("other-quota-systems", installed.beside, _WEBHOOKS),
    DoctorCheck("queue-flavors", queues.flavors, _QUOTA),
    DoctorCheck("queue-admits", queues.inactive, _QUOTA),
    DoctorCheck("queue-idle", queues.idle, (*_QUOTA, resources.LOCAL_QUEUES, resources.WORKLOADS)),
    DoctorCheck("quota-reserved", queues.overcommitted, _QUOTA),
    DoctorCheck("quota-without-node", queues.without_node, (resources.CLUSTER_QUEUES,)),
    DoctorCheck(
        "local-queues",
        queues.local_queues,
        (resources.LOCAL_QUEUES, resources.CLUSTER_QUEUES, resources.NAMESPACES),
    ),
    DoctorCheck("queue-annotations", queues.annotations, (*_QUOTA, resources.LOCAL_QUEUES)),
    DoctorCheck("cohort-names", queues.cohorts, _QUOTA),
    DoctorCheck("flavor-resources", devices.offered, (*_QUOTA, resources.NODES)),
    DoctorCheck("quota-capacity", devices.quota, (*_QUOTA, resources.NODES)),
    DoctorCheck("flavor-nodes", devices.flavors_without_nodes, (*_QUOTA, resources.NODES)),
    DoctorCheck("node-flavors", devices.nodes_without_flavor, (*_QUOTA, resources.NODES)),
    DoctorCheck("flavor-taints", devices.taints, (*_QUOTA, resources.NODES)),
    DoctorCheck("topology-levels", topologies.levels, (*_TOPOLOGY, resources.NODES)),
    DoctorCheck(
        "topology-assignments", topologies.assignments, (resources.WORKLOADS, resources.NODES)
    ),
    DoctorCheck("flavor-annotations", devices.annotations, (*_QUOTA, resources.NODES)),
    DoctorCheck("nodes-ready", devices.ready, (resources.NODES,)),
    DoctorCheck("gpu-health", devices.sick, (resources.NODES,)),
    DoctorCheck("product-labels", devices.products, (resources.NODES,)),
    DoctorCheck("gpu-classes", devices.uncounted, (resources.NODES, resources.DEVICE_CLASSES)),
    DoctorCheck("mig-layouts", devices.layouts, (resources.NODES,)),
    DoctorCheck("node-labels", devices.labels, (resources.NODES,)),
    DoctorCheck(
        "gpu-configurations",
        devices.plugin_configs,
        (*_QUOTA, resources.NODES, resources.CONFIG_MAPS, operators.DAEMON_SETS),
    ),
    DoctorCheck(
        "visible-devices", devices.visible_devices, (resources.NODES, operators.DAEMON_SETS)
    ),
    DoctorCheck("gpu-limits", devices.limits, (resources.LIMIT_RANGES, resources.RESOURCE_QUOTAS)),
    DoctorCheck(
        "pods-outside",
        state.outside,
        (resources.PODS, resources.NAMESPACES, resources.LOCAL_QUEUES, operators.DAEMON_SETS),
    ),
    DoctorCheck("pods-held", state.gated, (resources.PODS, resources.WORKLOADS)),
    DoctorCheck(
        "terminating",
        state.terminating,
        (resources.PODS, resources.WORKLOADS, resources.NAMESPACES, resources.CLUSTER_QUEUES),
    ),
    DoctorCheck("clocks", state.clock, (resources.LEASES, NODE_LEASES, resources.NODES)),
    DoctorCheck("throttling", state.overload, (), state.throttling_unseen),
)
"""All checks, in the order of the output."""


def diagnose(picture: Picture) -> Diagnosis:
    """Return what all checks come to; of a cluster without gpu-admission, that it has none."""
    if _is_absent(picture):
        text = "gpu-admission is not installed here"
        finding = error("Cluster", "of the kubeconfig", text, "gpu-admission install")
        return Diagnosis((CheckResult(check="installed", findings=(finding,)),))
    return Diagnosis(tuple(check.look(picture) for check in CHECKS))


def _is_absent(picture: Picture) -> bool:
    """Return whether nothing of an installation is there, and it would be seen."""
    seen = not any(resource in picture.unseen for resource in (resources.CRDS, *_WEBHOOKS))
    return seen and not picture.of(resources.CRDS) and not any(picture.hooks())
