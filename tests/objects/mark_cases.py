"""Cases of this project's own annotations on Kueue's kinds."""

from typing import Any

from admission.base import names
from tests.objects.case import Case, Document, queue, workload

GUARD = names.CAPACITY_GUARD
SHARING = '"time-slicing", "time-sharing", "mps", "none"'


def marked(kind: str, **metadata: Any) -> Document:
    body = {
        "ClusterQueue": queue(), "Cohort": queue(), "ResourceFlavor": {"spec": {}},
        "LocalQueue": {"spec": {"clusterQueue": "cq"}}, "Workload": workload(),
    }[kind]  # fmt: skip
    return {**body, "metadata": metadata}


def case(
    kind: str,
    annotations: dict[str, str],
    rule: str = "",
    *,
    was: dict[str, str] | None = None,
    is_legacy: bool = False,
) -> Case:
    """``rule`` is what follows the field; empty if nothing is wrong."""
    (key,) = annotations
    return Case(
        rule=f"{kind} {key.partition('/')[2]}={annotations[key]}",
        kind=kind,
        new=marked(kind, annotations=annotations),
        old=None if was is None else marked(kind, annotations=was),
        message=rule and f"metadata.annotations[{key}]: {rule}",
        is_legacy=is_legacy,
    )


def of_queue(value: str, rule: str = "", *, was: str | None = None, **fields: Any) -> Case:
    before = None if was is None else {GUARD: was}
    return case("ClusterQueue", {GUARD: value}, rule, was=before, **fields)


def of_surge(value: str, rule: str = "") -> Case:
    return case("ClusterQueue", {names.SURGE_QUOTA: value}, rule)


def of_flavor(key: str, value: str, rule: str = "") -> Case:
    return case("ResourceFlavor", {f"{names.OWN_DOMAIN}/{key}": value}, rule)


def unsupported(value: str, choices: str) -> str:
    return f'Unsupported value: "{value}": supported values: {choices}'


def of_times(kind: str, key: str, value: str, rule: str = "", **fields: Any) -> Case:
    return case(kind, {f"{names.OWN_DOMAIN}/{key}": value}, rule, **fields)


NO_DURATION = "must be a duration such as 500ms, 15s or 1h30m"
OF_QUEUES = (
    "Forbidden: has an effect on queues only; the label kueue.x-k8s.io/max-exec-time-seconds"
    " limits a workload"
)
RUN_TIMES = [
    *(
        of_times(kind, key, value)
        for kind in ("ClusterQueue", "LocalQueue")
        for key, value in (
            ("minimum-run-time", "0s"), ("minimum-run-time", "1h30m"),
            ("default-run-time", "8h"), ("maximum-run-time", "24h"),
            ("preemption-notice", "0s"), ("preemption-notice", "5m"),
        )
    ),
    *(
        of_times(kind, "minimum-run-time", "soon", f'Invalid value: "soon": {NO_DURATION}')
        for kind in ("ClusterQueue", "LocalQueue", "Workload")
    ),
    *(
        of_times(kind, "preemption-notice", "soon", f'Invalid value: "soon": {NO_DURATION}')
        for kind in ("ClusterQueue", "LocalQueue", "Workload")
    ),
    of_times("Workload", "minimum-run-time", "5m"),
    of_times("Workload", "preemption-notice", "5m"),
    of_times(
        "ClusterQueue", "preemption-notice", "-1s", 'Invalid value: "-1s": must not be negative'
    ),
    of_times(
        "ClusterQueue", "minimum-run-time", "-1s", 'Invalid value: "-1s": must not be negative'
    ),
    of_times(
        "LocalQueue", "maximum-run-time", "500ms", 'Invalid value: "500ms": must be at least 1s'
    ),
    of_times(
        "ClusterQueue", "minimum-run-time", "900000h",
        'Invalid value: "900000h": must be at most 876000h',
    ),
    of_times("Workload", "maximum-run-time", "1h", OF_QUEUES),
    of_times("Workload", "default-run-time", "1h", OF_QUEUES),
    Case(
        rule="ClusterQueue default-run-time above maximum-run-time",
        kind="ClusterQueue",
        new=marked(
            "ClusterQueue",
            annotations={names.DEFAULT_RUN_TIME: "2h", names.MAXIMUM_RUN_TIME: "1h"},
        ),
        message=f"metadata.annotations[{names.DEFAULT_RUN_TIME}]: Invalid value:"
        f' "2h": must not be more than {names.MAXIMUM_RUN_TIME}',
    ),
]  # fmt: skip
"""Cases of run times (`admission.objects.run_times`)."""


def of_cap(kind: str, value: str, rule: str = "", *, key: str = names.MAX_PER_USER) -> Case:
    return case(kind, {key: value}, rule)


CAP_FORM = "must be RESOURCE=QUANTITY such as nvidia.com/gpu=8, or several separated by commas"
CAPS = [
    of_cap("ClusterQueue", "cpu=2"),
    of_cap("LocalQueue", "nvidia.com/gpu=8, cpu=500m"),
    of_cap("LocalQueue", "nvidia.com/gpu=0", key=names.MAX_IN_USE),
    *(
        of_cap(kind, value, f'Invalid value: "{shown}": {rule}')
        for kind in ("ClusterQueue", "LocalQueue")
        for value, shown, rule in (
            ("", "", CAP_FORM),
            ("8", "8", CAP_FORM),
            ("cpu=", "cpu=", CAP_FORM),
            ("cpu=1,", "", CAP_FORM),
            ("cpu=-1", "cpu=-1", "must not be negative"),
            ("cpu=1, cpu=2", "cpu=2", "cpu must be listed only once"),
            ("cpu=two", "cpu=two", "must be a Kubernetes quantity such as 1, 500m or 2Gi"),
        )
    ),
    of_cap(
        "ClusterQueue", "example.com/gpu=1",
        'Invalid value: "example.com/gpu=1": spec.resourceGroups has no quota for example.com/gpu',
    ),
    of_cap(
        "ClusterQueue", "cpu=1",
        "Forbidden: has an effect on LocalQueues only; nominalQuota and borrowingLimit limit a"
        " ClusterQueue",
        key=names.MAX_IN_USE,
    ),
    of_cap("Cohort", "cpu=1", "Forbidden: has an effect on ClusterQueues and LocalQueues only"),
    of_cap(
        "Cohort", "cpu=1", "Forbidden: has an effect on LocalQueues only", key=names.MAX_IN_USE
    ),
]  # fmt: skip
"""Cases of caps (`admission.objects.caps`)."""

INVALID_SPARES = (
    'Invalid value: "{}": must be LEVEL=COUNT, such as example.com/rack=2, with a COUNT from 1 on'
)
MARKS = [
    *RUN_TIMES,
    *CAPS,
    of_queue("Enforce"),
    of_queue("Off"),
    of_queue("enforce", unsupported("enforce", '"Enforce", "Off"')),
    of_queue("", unsupported("", '"Enforce", "Off"')),
    of_queue("true", unsupported("true", '"Enforce", "Off"'), was="Enforce"),
    of_queue("enforce", was="enforce", is_legacy=True),
    Case(
        rule="ClusterQueue capacity-guard as a label",
        kind="ClusterQueue",
        new=marked("ClusterQueue", labels={GUARD: "Enforce"}),
        message=f"metadata.labels[{GUARD}]: Forbidden: is read as an annotation, not as a label",
    ),
    of_surge("f/cpu=2"),
    of_surge("f/cpu=500m, f/cpu=2", 'Invalid value: "f/cpu=2": must be listed only once'),
    of_surge("cpu=2", 'Invalid value: "cpu=2": must be FLAVOR/RESOURCE=QUANTITY'),
    of_surge("f/cpu", 'Invalid value: "f/cpu": must be FLAVOR/RESOURCE=QUANTITY'),
    of_surge("f/cpu=-1", 'Invalid value: "f/cpu=-1": must not be negative'),
    of_surge(
        "f/cpu=two",
        'Invalid value: "f/cpu=two": must be a Kubernetes quantity such as 1, 500m or 2Gi',
    ),
    of_surge("g/cpu=1", 'Invalid value: "g/cpu=1": spec.resourceGroups has no quota for cpu in'
             " flavor g"),
    case(
        "Cohort",
        {names.SURGE_QUOTA: "f/cpu=1"},
        "Forbidden: has an effect on ClusterQueues only: surge quota is not lent",
    ),
    case(
        "Cohort",
        {GUARD: "Enforce"},
        "Forbidden: has an effect on ClusterQueues only, where it applies to the whole cohort"
        " tree",
    ),
    of_flavor("spare-nodes", "example.com/rack=2"),
    of_flavor("spare-nodes", "example.com/rack", INVALID_SPARES.format("example.com/rack")),
    of_flavor("spare-nodes", "example.com/rack=0", INVALID_SPARES.format("example.com/rack=0")),
    of_flavor("spare-nodes", "=2", INVALID_SPARES.format("=2")),
    of_flavor("replicas", "4"),
    of_flavor("replicas", "0", 'Invalid value: "0": must be a whole number, 1 or more'),
    of_flavor("replicas", "four", 'Invalid value: "four": must be a whole number, 1 or more'),
    of_flavor("sharing", "mps"),
    of_flavor("sharing", "time-sharing"),
    of_flavor("sharing", "timeslicing", unsupported("timeslicing", SHARING)),
    of_flavor("fail-requests-greater-than-one", "True", unsupported("True", '"true", "false"')),
    of_flavor("mig-profile", "1g.10gb.me"),
    of_flavor(
        "mig-profile", "1g",
        'Invalid value: "1g": must be a MIG profile such as 1g.10gb, 1g.10gb+me or 1g.24gb-me',
    ),
    of_flavor(
        "mig-profile", "1c.3g.40gb",
        'Invalid value: "1c.3g.40gb": 1c.3g.40gb is a compute instance inside 3g.40gb: the NVIDIA'
        " device plugin offers whole GPU instances only; request nvidia.com/mig-3g.40gb",
    ),
]  # fmt: skip
