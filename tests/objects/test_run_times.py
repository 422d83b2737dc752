"""How long a Workload may run, from what it and its queues say."""

import pytest

from admission.base import names
from admission.objects import run_times, views
from admission.objects.run_times import SECOND_US

HOUR = 3600


def metadata(name: str, **said: str) -> views.ObjectMeta:
    keys = {"default": names.DEFAULT_RUN_TIME, "maximum": names.MAXIMUM_RUN_TIME}
    return views.ObjectMeta(name=name, annotations={keys[key]: said[key] for key in said})


@pytest.mark.parametrize(
    ("seconds", "cluster", "local", "limit"),
    [
        (None, {}, {}, None),
        (60, {}, {}, (60, "", "")),
        (None, {"default": "1h"}, {}, (HOUR, "default-run-time", "ClusterQueue")),
        (None, {}, {"default": "1h"}, (HOUR, "default-run-time", "LocalQueue")),
        (None, {"default": "2h"}, {"default": "1h"}, (HOUR, "default-run-time", "LocalQueue")),
        (None, {"default": "1h"}, {"default": "2h"}, (HOUR, "default-run-time", "ClusterQueue")),
        (2 * HOUR, {"default": "1h"}, {}, (2 * HOUR, "", "")),
        (None, {"maximum": "1h"}, {}, (HOUR, "maximum-run-time", "ClusterQueue")),
        (2 * HOUR, {"maximum": "1h"}, {}, (HOUR, "maximum-run-time", "ClusterQueue")),
        (
            2 * HOUR,
            {"maximum": "1h"},
            {"maximum": "9h"},
            (HOUR, "maximum-run-time", "ClusterQueue"),
        ),
        (2 * HOUR, {"maximum": "9h"}, {"maximum": "1h"}, (HOUR, "maximum-run-time", "LocalQueue")),
        (HOUR, {"maximum": "1h"}, {"maximum": "1h"}, (HOUR, "", "")),
        (None, {"maximum": "1h"}, {"default": "9h"}, (HOUR, "maximum-run-time", "ClusterQueue")),
        (None, {"maximum": "1h", "default": "5m"}, {}, (300, "default-run-time", "ClusterQueue")),
        (60, {"maximum": "soon"}, {}, (60, "", "")),
    ],
)
def test_the_shortest_time_counts(seconds, cluster, local, limit):
    found = run_times.limit(seconds, metadata("gpus", **cluster), metadata("team-a", **local))
    told = found and (
        found.microseconds // SECOND_US, found.annotation.partition("/")[2], found.kind
    )  # fmt: skip
    assert told == limit


def test_without_queues_the_workload_says_it():
    assert run_times.limit(None, None, None) is None
    assert run_times.limit(5, None, None) == run_times.Limit(5 * SECOND_US)
