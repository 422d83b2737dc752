"""What drivers of the bench read of Workloads that they list and watch."""

import msgspec


class Meta(msgspec.Struct, frozen=True, gc=False):
    """The name."""

    name: str = ""


class Condition(msgspec.Struct, frozen=True, gc=False):
    """A condition."""

    type: str
    status: str


class Status(msgspec.Struct, frozen=True, gc=False):
    """The conditions."""

    conditions: list[Condition] | None = None


class WatchedWorkload(msgspec.Struct, frozen=True, gc=False):
    """A Workload."""

    metadata: Meta
    status: Status = Status()


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """A line of a watch."""

    type: str
    object: WatchedWorkload
