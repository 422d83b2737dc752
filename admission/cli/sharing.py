"""How the teams of ``init`` share quota that others do not use."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from admission.admin import fair_sharing, manifests
from admission.admin.fair_sharing import HTTPS, QuotaSharing, SharingState
from admission.admin.proposal import Document
from admission.config.derived import Settings
from admission.kube.api import Api

_SEVERAL: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamSharing:
    """How several teams share what others do not use.

    Attributes:
        now: how they do, and who says so; None where there are not several teams.
        file: the configuration file that says so; empty for the installation.
        namespace: of the installation.
        is_wanted: whether it is to be turned on.
    """

    now: QuotaSharing | None
    file: str
    namespace: str
    is_wanted: bool

    @classmethod
    def of(
        cls,
        api: Api,
        settings: Settings,
        queues: Sequence[Document],
        config_file: Path | None,
        *,
        is_wanted: bool,
    ) -> Self:
        """Return what the file says that the user names, else the installation."""
        now = None
        if len(queues) >= _SEVERAL:
            is_on = settings.kueue.fair_sharing is not None
            now = (
                fair_sharing.look(api, settings.namespace)
                if config_file is None
                else QuotaSharing(state=SharingState.ON if is_on else SharingState.OFF)
            )
        return cls(
            now=now, file=str(config_file or ""), namespace=settings.namespace, is_wanted=is_wanted
        )

    @property
    def is_turned_on(self) -> bool:
        """Return whether --apply turns it on."""
        if self.now is None or self.now.state is not SharingState.OFF or self.file:
            return False
        return self.is_wanted and not self.now.keeper

    def state(self, *, applies: bool) -> str | None:
        """Return ``on``, ``off`` or ``unknown`` as it is at the end; None for a single team."""
        if self.now is None:
            return None
        return (SharingState.ON if applies and self.is_turned_on else self.now.state).value

    def text(self, *, applies: bool) -> Iterator[str]:
        """Yield how unused quota is shared, and how it comes back."""
        if self.now is None:
            return
        if self.is_turned_on:
            turned = "is turned on now" if applies else "is off; --apply turns it on"
            yield (
                f"Fair sharing {turned}: what others do not use is shared evenly, by "
                "spec.fairSharing.weight of the ClusterQueues. --no-fair-sharing leaves it off."
            )
        elif self.now.state is SharingState.UNKNOWN:
            yield "Whether fair sharing is on is not known: the configuration cannot be read."
        elif self.now.state is SharingState.ON:
            yield (
                "Fair sharing is on: what others do not use is shared evenly, by "
                "spec.fairSharing.weight of the ClusterQueues."
            )
        else:
            off = "Fair sharing is off: whoever asks first borrows what others do not use."
            yield f"{off} To share it evenly: {self._step()}"
        yield (
            "Who needs its nominal quota gets it back: running work of queues that borrow is "
            "stopped for it (reclaimWithinCohort: Any). Jobs start again later; a pod without an "
            "owner is deleted and does not come back."
        )

    def _step(self) -> str:
        keeper = "" if self.now is None else self.now.keeper
        again = "start webhook and controller again"
        if self.file:
            return f"put fairSharing: {{}} into {self.file}, and {again}"
        if keeper.startswith(HTTPS):
            return (
                f"put fairSharing: {{}} into the file of --config of the program at {keeper}, and "
                f"{again}"
            )
        if keeper:
            return (
                f"put fairSharing: {{}} into the configuration that {keeper} applies as ConfigMap "
                f"{manifests.CONFIG_MAP}"
            )
        return "leave out --no-fair-sharing"
