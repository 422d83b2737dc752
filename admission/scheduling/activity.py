"""Why a ClusterQueue admits nothing: what it is made of, and which of that is missing.

Source: kueue pkg/cache/scheduler/clusterqueue.go (updateQueueStatus, inactiveReason).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from admission.base import causes, names
from admission.base.causes import QueueBlocker
from admission.base.names import ClusterQueueName, FlavorName
from admission.base.tables import Table
from admission.scheduling.model import AdmissionCheckRule, ClusterQueue, ResourceFlavor, StopPolicy

InactiveReasons = tuple[QueueBlocker, ...]
"""Why a ClusterQueue admits nothing."""


class CheckInfo(NamedTuple):
    """An admission check that exists.

    Attributes:
        active: whether somebody answers it.
        controller: name of who does.
    """

    active: bool
    controller: str = ""


class Dependencies:
    """What ClusterQueues refer to, and which of them a change of that may stop or let go on.

    Attributes:
        flavors: ResourceFlavors that exist, by name.
        checks: AdmissionChecks that exist.
        topologies: names of Topologies that exist.
        in_doubt: ClusterQueues of which something has changed that they refer to.
    """

    def __init__(self) -> None:
        self._flavors: Table[FlavorName, ResourceFlavor] = Table()
        self._of_topology = self._flavors.index(lambda _, flavor: (flavor.topology,))
        self.flavors = self._flavors.by_key
        self.checks: dict[str, CheckInfo] = {}
        self.topologies: set[str] = set()
        self._queues: Table[ClusterQueueName, ClusterQueue] = Table()
        self._listing = self._queues.index(lambda _, queue: _flavors(queue))
        self._asking = self._queues.index(
            lambda _, queue: [rule.name for rule in queue.admission_checks]
        )
        self.in_doubt: set[ClusterQueueName] = set()

    def set_queue(self, queue: ClusterQueue) -> None:
        """Add or replace a ClusterQueue."""
        self._queues.put(queue.name, queue)
        self.in_doubt.add(queue.name)

    def drop_queue(self, name: ClusterQueueName) -> None:
        """Forget a ClusterQueue."""
        self._queues.pop(name)
        self.in_doubt.discard(name)

    def listing(self, flavor: FlavorName) -> tuple[ClusterQueueName, ...]:
        """Return the ClusterQueues that list a flavor."""
        return self._listing.keys(flavor)

    def set_flavor(self, flavor: ResourceFlavor) -> None:
        """Add or replace a flavor."""
        self._flavors.put(flavor.name, flavor)
        self.in_doubt.update(self._listing.keys(flavor.name))

    def drop_flavor(self, name: FlavorName) -> None:
        """Forget a flavor."""
        if self._flavors.pop(name) is not None:
            self.in_doubt.update(self._listing.keys(name))

    def set_check(self, name: str, check: CheckInfo) -> None:
        """Add or replace an admission check."""
        if self.checks.get(name) != check:
            self.checks[name] = check
            self.in_doubt.update(self._asking.keys(name))

    def drop_check(self, name: str) -> None:
        """Forget an admission check."""
        if self.checks.pop(name, None) is not None:
            self.in_doubt.update(self._asking.keys(name))

    def set_topology(self, name: str, *, exists: bool) -> None:
        """Take whether a Topology exists."""
        (self.topologies.add if exists else self.topologies.discard)(name)
        self.in_doubt.update(self.with_topology(name))

    def with_topology(self, name: str) -> tuple[ClusterQueueName, ...]:
        """Return the ClusterQueues that list a flavor with a Topology, each once."""
        flavors = self._of_topology.keys(name)
        return tuple(
            dict.fromkeys(queue for flavor in flavors for queue in self._listing.keys(flavor))
        )

    def blockers(self, queue: ClusterQueue) -> InactiveReasons:
        """Return why a ClusterQueue admits nothing, the first one first; none if it does."""
        return tuple(self._blockers(queue))

    def _blockers(self, queue: ClusterQueue) -> Iterator[QueueBlocker]:
        if queue.terminating:
            yield causes.QueueEnds()
        if queue.stop_policy != StopPolicy.NONE:
            yield causes.QueueIsStopped()
        missing = [name for name in _flavors(queue) if name not in self.flavors]
        if missing:
            yield causes.FlavorsMissing(tuple(missing))
        if queue.admission_checks:
            yield from self._about_checks(queue)
        topologies = self._missing_topologies(queue)
        if topologies:
            yield causes.TopologiesMissing(tuple(topologies))

    def _about_checks(self, queue: ClusterQueue) -> Iterator[QueueBlocker]:
        required = sorted({rule.name for rule in queue.admission_checks})
        missing = [name for name in required if name not in self.checks]
        if missing:
            yield causes.ChecksMissing(tuple(missing))
        idle = [name for name in required if name in self.checks and not self.checks[name].active]
        if idle:
            yield causes.ChecksInactive(tuple(idle))
        remote = self._run_by(names.MULTI_KUEUE, required)
        if len(remote) > 1:
            yield causes.SeveralMultiKueue(tuple(remote))
        per_flavor = [name for name in remote if _is_per_flavor(name, queue)]
        if per_flavor:
            yield causes.MultiKueuePerFlavor(tuple(per_flavor))
        provisioned = self._run_by(names.PROVISIONING, required)
        if remote and provisioned:
            yield causes.MultiKueueWithProvisioning(tuple(remote), tuple(provisioned))

    def _missing_topologies(self, queue: ClusterQueue) -> list[tuple[str, str]]:
        """Topology and flavor; another cluster places the pods where MultiKueue is asked."""
        if self._run_by(names.MULTI_KUEUE, sorted({rule.name for rule in queue.admission_checks})):
            return []
        present = (self.flavors[name] for name in _flavors(queue) if name in self.flavors)
        return [
            (flavor.topology, flavor.name)
            for flavor in present
            if flavor.topology and flavor.topology not in self.topologies
        ]

    def _run_by(self, controller: str, checks: Iterable[str]) -> list[str]:
        checks_listed = ((name, self.checks.get(name)) for name in checks)
        return [name for name, check in checks_listed if check and check.controller == controller]


def _flavors(queue: ClusterQueue) -> Iterable[FlavorName]:
    """Flavors of the spec, in its order."""
    return dict.fromkeys(f.name for group in queue.resource_groups for f in group.flavors)


def _is_per_flavor(name: str, queue: ClusterQueue) -> bool:
    """Return whether the check leaves out a flavor of the queue."""
    rules: Iterable[AdmissionCheckRule] = queue.admission_checks
    flavors = set(_flavors(queue))
    return any(r.name == name and r.on_flavors and not flavors <= r.on_flavors for r in rules)
