"""Hold the Lease of a controller, so that it does not decide meanwhile.

A Lease that is held so does not expire: what was begun stays safe if the command ends.
"""

from dataclasses import dataclass
from typing import Final

from admission.base import clock as clocks
from admission.base import names, patches
from admission.base.clock import Clock
from admission.kube import errors, resources
from admission.kube.api import Api, Document

_FOREVER_SECONDS: Final = 10 * 365 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLease:
    """A Lease that a command holds, or may hold.

    Attributes:
        name: of the Lease.
        namespace: of the Lease.
        holder: who holds it: the command.
    """

    name: str
    namespace: str
    holder: str

    def take(self, api: Api, clock: Clock) -> None:
        """Hold the Lease until it is released, whether this process lives or not.

        Raises:
            KubeError: the API server refused.
        """
        while True:
            lease = self._read(api)
            now = clocks.to_wire_micro(clock.now())
            spec = {
                "holderIdentity": self.holder,
                "leaseDurationSeconds": _FOREVER_SECONDS,
                "acquireTime": now,
                "renewTime": now,
            }
            try:
                if lease is None:
                    metadata = {"name": self.name, "namespace": self.namespace}
                    new_lease = {"metadata": metadata, "spec": {**spec, "leaseTransitions": 0}}
                    api.create(resources.LEASES, new_lease, self.namespace)
                    return
                before = lease.get("spec") or {}
                if before.get("holderIdentity") == self.holder:
                    return
                spec["leaseTransitions"] = before.get("leaseTransitions", 0) + 1
                version = {"resourceVersion": lease["metadata"]["resourceVersion"]}
                change = patches.merge({"metadata": version, "spec": spec})
                api.patch(resources.LEASES, self.name, change, self.namespace)
            except (errors.AlreadyExistsError, errors.ConflictError):
                continue  # its leader renewed it meanwhile
            return

    def release(self, api: Api) -> None:
        """Give up the Lease if it is held; its next holder need not wait for any request."""
        lease = self._read(api)
        if lease is None or (lease.get("spec") or {}).get("holderIdentity") != self.holder:
            return
        term = str(lease["spec"].get("leaseTransitions", 0))
        change = {
            "metadata": {"annotations": {names.RELEASED_TERM: term}},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
        }
        api.patch(resources.LEASES, self.name, patches.merge(change), self.namespace)

    def held_by(self, api: Api) -> str:
        """Return who holds the Lease; empty for nobody."""
        lease = self._read(api) or {}
        return str((lease.get("spec") or {}).get("holderIdentity") or "")

    def _read(self, api: Api) -> Document | None:
        try:
            return api.get(resources.LEASES, self.name, self.namespace)
        except errors.NotFoundError:
            return None
