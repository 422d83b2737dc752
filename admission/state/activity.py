"""Why a ClusterQueue admits nothing: what it is made of, and which of that is missing.

Source: kueue pkg/cache/scheduler/clusterqueue.go (updateQueueStatus, inactiveReason).
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from admission.base.names import FlavorName
from admission.engine.model import AdmissionCheckRule, ClusterQueue, ResourceFlavor, StopPolicy

MULTI_KUEUE: Final = "kueue.x-k8s.io/multikueue"
PROVISIONING: Final = "kueue.x-k8s.io/provisioning-request"

Blockers = tuple[tuple[str, str], ...]
"""Why a ClusterQueue admits nothing: pairs of reason and part of the message."""


class Check(NamedTuple):
    """An admission check that exists.

    Attributes:
        active: whether somebody answers it.
        controller: name of who does.
    """

    active: bool
    controller: str = ""


class Supplies:
    """What ClusterQueues refer to.

    Attributes:
        flavors: ResourceFlavors that exist.
        checks: AdmissionChecks that exist.
        topologies: names of Topologies that exist.
    """

    def __init__(self) -> None:
        self.flavors: dict[FlavorName, ResourceFlavor] = {}
        self.checks: dict[str, Check] = {}
        self.topologies: set[str] = set()

    def blockers(self, queue: ClusterQueue) -> Blockers:
        """Why a ClusterQueue admits nothing, the first one first; none if it does."""
        found = (
            ("Terminating", "is terminating" if queue.terminating else ""),
            ("Stopped", "is stopped" if queue.stop_policy != StopPolicy.NONE else ""),
            ("FlavorNotFound", self._missing_flavors(queue)),
            *self._about_checks(queue),
            ("TopologyNotFound", self._missing_topologies(queue)),
        )
        return tuple((reason, part) for reason, part in found if part)

    def _missing_flavors(self, queue: ClusterQueue) -> str:
        missing = [name for name in _flavors(queue) if name not in self.flavors]
        return _listed("references missing ResourceFlavor(s): ", missing)

    def _about_checks(self, queue: ClusterQueue) -> Iterator[tuple[str, str]]:
        if not queue.admission_checks:
            return
        required = sorted({rule.name for rule in queue.admission_checks})
        missing = [name for name in required if name not in self.checks]
        yield (
            "AdmissionCheckNotFound",
            _listed("references missing AdmissionCheck(s): ", missing),
        )
        idle = [name for name in required if name in self.checks and not self.checks[name].active]
        yield "AdmissionCheckInactive", _listed("references inactive AdmissionCheck(s): ", idle)
        remote = self._run_by(MULTI_KUEUE, required)
        yield (
            "MultipleMultiKueueAdmissionChecks",
            _listed(
                "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: ",
                remote if len(remote) > 1 else (),
            ),
        )
        yield (
            "MultiKueueAdmissionCheckAppliedPerFlavor",
            _listed(
                "Cannot specify MultiKueue AdmissionCheck per flavor, found: ",
                [name for name in remote if _is_per_flavor(name, queue)],
            ),
        )
        provisioned = self._run_by(PROVISIONING, required)
        yield (
            "MultiKueueWithProvisioningRequest",
            _listed(
                "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, "
                f"found: {','.join(remote)}, ",
                provisioned if remote else (),
            ),
        )

    def _missing_topologies(self, queue: ClusterQueue) -> str:
        """Parts of the message; another cluster places the pods where MultiKueue is asked."""
        if self._run_by(MULTI_KUEUE, sorted({rule.name for rule in queue.admission_checks})):
            return ""
        present = (self.flavors[name] for name in _flavors(queue) if name in self.flavors)
        return ", ".join(
            f'there is no Topology "{flavor.topology}" for TAS flavor "{flavor.name}"'
            for flavor in present
            if flavor.topology and flavor.topology not in self.topologies
        )

    def _run_by(self, controller: str, checks: Iterable[str]) -> list[str]:
        known = ((name, self.checks.get(name)) for name in checks)
        return [name for name, check in known if check and check.controller == controller]


def _flavors(queue: ClusterQueue) -> Iterable[FlavorName]:
    """Flavors of the spec, in its order."""
    return dict.fromkeys(f.name for group in queue.resource_groups for f in group.flavors)


def _is_per_flavor(name: str, queue: ClusterQueue) -> bool:
    """Whether the check leaves out a flavor of the queue."""
    rules: Iterable[AdmissionCheckRule] = queue.admission_checks
    flavors = set(_flavors(queue))
    return any(r.name == name and r.on_flavors and not flavors <= r.on_flavors for r in rules)


def _listed(text: str, found: Iterable[str]) -> str:
    """The text with the names; empty without any."""
    names = ",".join(found)
    return text + names if names else ""
