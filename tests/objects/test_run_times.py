"""How long a Workload may run, from what it and its queues say."""

import pytest

from admission.base import names
from admission.base.errors import InvalidValueError
from admission.objects import run_times, views
from admission.objects.run_times import SECOND_US

HOUR = 3600


def metadata(name: str, **said: str) -> views.ObjectMeta:
    keys = {
        "default": names.DEFAULT_RUN_TIME,
        "maximum": names.MAXIMUM_RUN_TIME,
        "notice": names.PREEMPTION_NOTICE,
    }
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


@pytest.mark.parametrize(
    ("cluster", "local", "own", "seconds"),
    [
        (None, None, None, 0),
        ("5m", None, None, 300),
        (None, "5m", None, 0),
        (None, None, "5m", 0),
        (None, "5m", "5m", 0),
        ("5m", "1m", None, 60),
        ("5m", None, "1m", 60),
        ("5m", "2m", "1m", 60),
        ("5m", "1m", "2m", 60),
        ("5m", "1h", "1h", 300),
        ("5m", "0s", None, 0),
        ("5m", None, "0s", 0),
        ("0s", "5m", "5m", 0),
        ("5m", "soon", "-1s", 300),
        ("soon", "5m", "5m", 0),
    ],
)
def test_the_cluster_queue_gives_a_notice_and_others_only_shorten_it(cluster, local, own, seconds):
    cluster_queue, local_queue, workload = (
        metadata("x", **({} if said is None else {"notice": said}))
        for said in (cluster, local, own)
    )
    assert run_times.notice(cluster_queue, local_queue, workload) == seconds * SECOND_US


def test_without_a_cluster_queue_there_is_no_notice():
    own = metadata("x", notice="5m")
    assert run_times.notice(None, own, own) == 0
    assert run_times.notice(metadata("x", notice="5m"), None, own) == 300 * SECOND_US


def test_a_notice_that_cannot_be_read_is_named_with_its_rule():
    with pytest.raises(InvalidValueError, match=r"preemption-notice.*must not be negative"):
        run_times.read(metadata("gpus", notice="-5m"))
