"""Who is to be tried again when a node changes."""

from collections.abc import Callable, Iterable

from admission.base.names import ClusterQueueName, FlavorName
from admission.scheduling.places.model import PodShape, Want


class AwaitedRoom:
    """ClusterQueues in which somebody waits for room on nodes, by flavor and shape of the pods.

    A node is in all flavors that pods were given, so it is asked for the first of them.
    """

    def __init__(self) -> None:
        self._queues: dict[FlavorName, dict[PodShape, dict[ClusterQueueName, None]]] = {}
        self._shapes: dict[ClusterQueueName, dict[tuple[FlavorName, PodShape], None]] = {}

    def note(self, queue: ClusterQueueName, want: Want) -> None:
        """Note that somebody in a queue waits for room for such pods."""
        where = want.flavors[0], want.shape
        self._shapes.setdefault(queue, {})[where] = None
        self._queues.setdefault(where[0], {}).setdefault(where[1], {})[queue] = None

    def forget(self, queue: ClusterQueueName) -> None:
        """Note that all in a queue are tried again."""
        for flavor, shape in self._shapes.pop(queue, ()):
            shapes = self._queues[flavor]
            del shapes[shape][queue]
            if not shapes[shape]:
                del shapes[shape]
            if not shapes:
                del self._queues[flavor]

    def awaits(self, flavor: FlavorName) -> bool:
        """Return whether somebody waits for room in a flavor."""
        return flavor in self._queues

    def queues(self) -> tuple[ClusterQueueName, ...]:
        """Return all queues in which somebody waits for room."""
        return tuple(self._shapes)

    def concerned(
        self, flavors: Iterable[FlavorName], may_help: Callable[[PodShape], bool]
    ) -> set[ClusterQueueName]:
        """Return the queues in which somebody waits whom a change of a node may help.

        Args:
            flavors: of the node.
            may_help: whether it may help pods of a shape.
        """
        return {
            queue
            for flavor in flavors
            for shape, queues in self._queues.get(flavor, {}).items()
            if may_help(shape)
            for queue in queues
        }
