"""What the reference says of labels and annotations that people set or read."""

from typing import Final, NamedTuple


class Key(NamedTuple):
    """A label, annotation or resource, by the constant of `admission.base.names`."""

    constant: str
    kind: str
    where: str
    meaning: str


WORK: Final = "pods and owners"
QUEUES: Final = "ClusterQueue, LocalQueue"
TEMPLATES: Final = "pods, pod templates"
TOPOLOGY: Final = "[topology](../guides/topology.md)"

SET: Final = (
    Key("QUEUE_LABEL", "label", WORK, "the LocalQueue"),
    Key("PRIORITY_CLASS_LABEL", "label", WORK, "the WorkloadPriorityClass"),
    Key(
        "MAX_EXEC_TIME_LABEL", "label", WORK,
        "seconds that it may run; the maximum run time of the queue bounds it",
    ),
    Key("MINIMUM_RUN_TIME", "annotation", f"{QUEUES}, {WORK}",
        "a workload that has been admitted for less is preempted only after others"),
    Key("DEFAULT_RUN_TIME", "annotation", QUEUES,
        "how long a workload may run that asks for no time"),
    Key("MAXIMUM_RUN_TIME", "annotation", QUEUES, "the longest that any workload may run"),
    Key("MAX_PER_USER", "annotation", QUEUES,
        "the most that one user may hold: `nvidia.com/gpu=8, cpu=64`"),
    Key("MAX_IN_USE", "annotation", "LocalQueue",
        "the most that all its workloads together may hold, in the same form"),
    Key("PREEMPTION_NOTICE", "annotation", f"{QUEUES}, {WORK}",
        "how long a preempted workload continues to run"),
    Key("MIG_PROFILE", "annotation", "pods, pod templates",
        "MIG profile of each GPU; with `.CONTAINER` for one container"),
    Key("MIG_PROFILE", "annotation", "ResourceFlavor", "the profile that its nodes offer"),
    Key("GPU_MEMORY", "annotation", "pods, pod templates",
        "minimum memory of each GPU; with `.CONTAINER` for one container"),
    Key("GPU_MEMORY", "resource", "ClusterQueue", "memory of GPUs, instances and shares"),
    Key("GPU_SLICES", "resource", "ClusterQueue", "compute slices of GPUs, instances and shares"),
    Key("MIN_GPU_MEMORY", "resource", "LimitRange", "minimum memory of the GPUs of a container"),
    Key("FLAVOR_PRODUCT", "annotation", "ResourceFlavor",
        "product of its GPUs, if `nodeLabels` do not name it"),
    Key("FLAVOR_SHARING", "annotation", "ResourceFlavor", "`time-slicing`, `mps` or `none`"),
    Key("FLAVOR_REPLICAS", "annotation", "ResourceFlavor", "shares of each device"),
    Key("FAIL_ABOVE_ONE", "annotation", "ResourceFlavor",
        "`true`: its nodes refuse more than one share for a container"),
    Key("PLACEMENT", "annotation", "ResourceFlavor",
        "`Enforce`: a workload waits until its nodes have room for all its pods; `Tell`; `Off`"),
    Key("SPARE_NODES", "annotation", "ResourceFlavor",
        "`LEVEL=COUNT`: nodes of each domain of a level that only replace nodes that are lost;"
        " [topology](../guides/topology.md)"),
    Key("CAPACITY_GUARD", "annotation", "ClusterQueue",
        "`Enforce`: admits only as many GPUs as exist; `Off`"),
    Key("SURGE_QUOTA", "annotation", "ClusterQueue",
        "quota that only pods beyond the replicas use during a rolling update"),
    Key("ENFORCE_LABEL", "label", "Namespace",
        "`true`: GPU pods and Jobs without a queue are refused"),
    Key("BYPASS_LABEL", "label", "Namespace",
        "`deny`, `deny-strict`, `warn` or `audit`: what to do about pods that get GPUs without "
        "requesting them"),
    Key("POD_GROUP_NAME", "label, annotation", "pods", "the group; its pods start together"),
    Key("POD_GROUP_TOTAL_COUNT", "annotation", "pods", "how many pods the group has"),
    Key("POD_GROUP_FAST_ADMISSION", "annotation", "pods",
        "`true`: the group is admitted when its first pod exists"),
    Key("POD_GROUP_SERVING", "annotation", "pods", "`true`: the group never ends"),
    Key("RETRIABLE_IN_GROUP", "annotation", "pods", "`false`: the group ends when its pods fail"),
    Key("PREBUILT_WORKLOAD", "label, annotation", WORK, "an existing Workload to use"),
    Key("ADMISSION_GATED_BY", "annotation", WORK,
        "names of admission gates, separated by commas; while there is one, it is not admitted"),
    Key("JOB_MIN_PARALLELISM", "annotation", "Job",
        "the minimum number of pods with which it may start"),
    Key("JOB_SYNC_COMPLETIONS", "annotation", "Job",
        "`true`: `completions` equal `parallelism`, also if fewer pods were admitted"),
    Key("ELASTIC_JOB", "annotation", "Job, PyTorchJob, RayCluster",
        "`true`: it may change its size while it runs"),
    Key("REQUIRED_TOPOLOGY", "annotation", TEMPLATES,
        f"label of a level: all pods in one domain of it, else it waits; {TOPOLOGY}"),
    Key("PREFERRED_TOPOLOGY", "annotation", TEMPLATES,
        f"label of a level: one domain of it that has room, else few; {TOPOLOGY}"),
    Key("UNCONSTRAINED_TOPOLOGY", "annotation", TEMPLATES,
        f"`true`: any domains, those with the least room first; {TOPOLOGY}"),
    Key("SLICE_REQUIRED_TOPOLOGY", "annotation", TEMPLATES,
        f"label of a level: each slice of the pods in one domain of it; {TOPOLOGY}"),
    Key("PODSET_SLICE_SIZE", "annotation", TEMPLATES, f"pods of such a slice; {TOPOLOGY}"),
    Key("PODSET_SLICE_CONSTRAINTS", "annotation", TEMPLATES,
        f"slices within slices: a JSON list of levels and sizes, the widest first; {TOPOLOGY}"),
    Key("PODSET_GROUP_NAME", "annotation", TEMPLATES,
        f"pod sets of the same name, a leader and its workers, in one domain; {TOPOLOGY}"),
    Key("PROVISIONING_PREFIX", "annotations with this prefix", WORK,
        "parameters of a ProvisioningRequest"),
)  # fmt: skip
"""Keys that people set."""

READ: Final = (
    Key("MANAGED_LABEL", "label", "pods", "`true`: admitted by a queue"),
    Key("ORIGINAL_RESOURCES", "annotation", "pods", "the request before it was rewritten"),
    Key("REQUESTER", "annotation", f"{WORK}, Workloads", "who created the owner"),
    Key("CLUSTER_QUEUE_NAME_LABEL", "label", "pods", "the ClusterQueue that admitted it"),
    Key("LOCAL_QUEUE_NAME_LABEL", "label", "pods", "the LocalQueue that admitted it"),
    Key("PODSET_LABEL", "label", "pods", "its pod set"),
    Key("WORKLOAD_ANNOTATION", "annotation", "pods", "its Workload"),
    Key("SLICE_NAME", "annotation", "pods", "the first Workload of an owner that may grow"),
    Key("JOB_UID_LABEL", "label", "Workloads", "the uid of the owner"),
    Key("STOPS_AT", "annotation", "pods", "when the preempted pod is stopped"),
    Key("RUNS_SINCE", "annotation", "pods", "since when a pod that its owner has left is charged"),
    Key("POD_CONTROLLER", "annotation", "Workloads", "the UID of the controller of the pod"),
    Key(
        "PREEMPTED_BY",
        "annotation",
        "Workloads",
        "which Workloads preempted the pod that this one replaces, and how often",
    ),
    Key(
        "LARGEST_NODE",
        "annotation",
        "ResourceFlavor",
        "the most of each device, of cpu and of memory that one of its nodes with GPUs has; absent"
        " where larger nodes may come",
    ),
    Key("HAS_QUEUE_LABEL", "label", "Namespace", "it has a LocalQueue"),
    Key("ADMISSION_GATE", "scheduling gate", "pods", "held until there is quota"),
)
"""Keys that the program writes and that people read or select by."""

CONDITIONS: Final = {
    "QUOTA_RESERVED": ("Workload", "it has quota"),
    "ADMITTED": ("Workload", "it has quota, and all admission checks are ready"),
    "EVICTED": ("Workload", "it lost its quota; the reason says why"),
    "PREEMPTED": ("Workload", "it lost its quota to another one"),
    "REQUEUED": ("Workload", "it waits again after an eviction"),
    "FINISHED": ("Workload", "its pods have ended"),
    "PODS_READY": ("Workload", "its pods are ready"),
    "DEACTIVATION_TARGET": ("Workload", "it is about to be deactivated"),
    "WAITING_FOR_REPLACEMENT_PODS": ("Workload", "pods of its group are missing"),
    "RUN_TIME_LIMITED": ("Workload", "a queue limits how long it may run"),
    "USES_SURGE_QUOTA": ("Workload", "it was admitted on surge quota"),
    "PREEMPTION_NOTICE": ("Workload", "it is preempted, and continues to run for a while"),
    "STOP_HELD_BACK": ("Workload", "it is to be stopped, but its stop is held back"),
    "START_REFUSED": ("Workload", "the API server refuses to start it"),
    "ACTIVE": (QUEUES, "it can admit Workloads"),
    "CAPACITY_SUFFICIENT": ("ClusterQueue", "as many GPUs exist as its quota promises"),
    "RELEASING": ("ClusterQueue", "pods hold quota that others wait for"),
    "SURGE_QUOTA_IN_USE": ("ClusterQueue", "pods of rolling updates use its surge quota"),
    "COSTS_EXACT": ("ClusterQueue", "False: what some GPUs cost is only an upper bound"),
    "FLAVORS_CONSISTENT": (
        "ClusterQueue",
        "False: no node is in a flavor of each of two resource groups",
    ),
    "SPEC_SUPPORTED": ("ClusterQueue", "False: part of it has no effect, or cannot be read"),
    "POD_ADMITTED": ("Pod", "False: it waits; the message says why"),
    "POD_REVIEWED": ("Pod", "False: the API server held it, because no review was made"),
    "TERMINATION_TARGET": ("Pod", "it is about to be deleted; the message says why"),
}
"""Types of conditions by their constant in `admission.base.conditions`: on what, and meaning."""
