"""Which pods of one owner are told their domains next, from what its Workload says now."""

from collections.abc import Iterator, Mapping

from admission.objects import views
from admission.objects.workload import Workload, assigned_domains
from admission.owners import topology_domains


class OwnerTellings:
    """Who is told its domain next, of the pods of one owner.

    Attributes:
        version: of the Workload that says where the pods go.
        tellings: what is known of each pod set; None where no domains are assigned: then the gate
            is another controller's.
    """

    def __init__(
        self, version: tuple[str, str], workload: Workload, before: "OwnerTellings | None"
    ) -> None:
        """Take a Workload, and keep of an earlier one what is as it was."""
        self.version = version
        self._workload = workload
        self._before = {} if before is None else before.tellings
        self.tellings: dict[str, topology_domains.Telling | None] = {}

    def of(self, pod_set: str) -> tuple[topology_domains.Telling | None, bool]:
        """Return what is known of a pod set, and whether it knows no pod yet."""
        if pod_set in self.tellings:
            return self.tellings[pod_set], False
        domains = assigned_domains(self._workload, pod_set)
        if domains is None:
            self.tellings[pod_set] = None
            return None, False
        count = sum(count for _, count in domains.counts)
        where = topology_domains.placement(
            domains, topology_domains.numbering(self._workload, pod_set, count)
        )
        kept = self._before.pop(pod_set, None)
        is_new = kept is None or kept.placement != where
        telling = topology_domains.Telling(where) if kept is None or is_new else kept
        self.tellings[pod_set] = telling
        return telling, is_new

    def next_of(self, pod_set: str) -> tuple[views.Pod, Mapping[str, str]] | None:
        """Return a pod that waits, with the node selector of its domain; None for none."""
        telling, _ = self.of(pod_set)
        return None if telling is None else telling.next_pod()

    def strays(self) -> Iterator[str]:
        """Yield the UIDs of pods that were told a domain which is none any more."""
        for telling in self.tellings.values():
            yield from () if telling is None else telling.strays()

    def lose(self, pod_set: str, uid: str) -> bool:
        """Take that a pod has ended, and return whether others of its pod set wait."""
        telling, _ = self.of(pod_set)
        if telling is None:
            return False
        telling.lose(uid)
        return telling.is_waiting()
