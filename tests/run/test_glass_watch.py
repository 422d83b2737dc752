"""A controller tells metrics whether break glass is on, and says nothing that it cannot see."""

import math
from typing import Any

from prometheus_client import REGISTRY
from typing_extensions import override

from admission.admin import break_glass
from admission.config.derived import Settings
from admission.kube import errors, resources
from admission.run.glass_watch import GlassWatch
from admission.sandbox.store import Store
from tests.builders.cluster import make_namespace
from tests.clocks import FakeClock

SETTINGS = Settings()


class Refuses(Store):
    """A server that may refuse to show ConfigMaps."""

    is_refusing = False

    @override
    def get(self, *args: Any, **named: Any) -> Any:
        if self.is_refusing:
            raise errors.ForbiddenError(403, "Forbidden", "configmaps is forbidden")
        return super().get(*args, **named)


def shown() -> float:
    value = REGISTRY.get_sample_value("gpu_admission_break_glass")
    assert value is not None
    return value


def test_the_metric_follows_the_glass_and_is_no_number_while_that_is_not_known() -> None:
    store = Refuses()
    store.create(resources.NAMESPACES, make_namespace(SETTINGS.namespace))
    watch = GlassWatch(store, SETTINGS.namespace)
    watch.step()
    assert shown() == 0
    list(break_glass.open_gates(store, SETTINGS, FakeClock()))
    watch.step()
    assert shown() == 1
    store.is_refusing = True
    watch.step()
    assert math.isnan(shown())
    store.is_refusing = False
    list(break_glass.close_gates(store, SETTINGS))
    watch.step()
    assert shown() == 0
