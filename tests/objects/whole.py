"""One object of every kind and version in which every field has a value.

``NEW`` and ``OLD`` are what is written; ``UP`` and ``DOWN`` is what the other version then shows,
where it is not the same; ``BACK`` is what v1beta1 shows of what v1beta1 wrote.
"""

from typing import Any, Final

Document = dict[str, Any]

TIME: Final = "2026-01-02T03:04:05Z"
ACTIVE: Final = {
    "type": "Active", "status": "True", "reason": "Ready", "message": "Can admit new workloads",
    "lastTransitionTime": TIME, "observedGeneration": 1,
}  # fmt: skip

_TOLERATION: Final = {
    "key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5,
}  # fmt: skip
_TAINT: Final = {"key": "a", "value": "b", "effect": "NoSchedule", "timeAdded": TIME}
_GROUPS: Final = [{
    "coveredResources": ["cpu"],
    "flavors": [{
        "name": "f",
        "resources": [
            {"name": "cpu", "nominalQuota": 4, "borrowingLimit": "2", "lendingLimit": "500m"}
        ],
    }],
}]  # fmt: skip
_COUNTS: Final = {"pendingWorkloads": 3, "reservingWorkloads": 2, "admittedWorkloads": 1}
_BORROWED: Final = [{"name": "f", "resources": [{"name": "cpu", "total": "3", "borrowed": "1"}]}]
_USED: Final = [{"name": "f", "resources": [{"name": "cpu", "total": "3"}]}]
_DECAYED: Final = {"consumedResources": {"cpu": "1500m"}, "lastUpdate": TIME}
_SHARE: Final = {"weightedShare": 7}
_PAST_SHARE: Final = {**_SHARE, "admissionFairSharingStatus": _DECAYED}

_QUEUE: Final = {
    "resourceGroups": _GROUPS,
    "queueingStrategy": "StrictFIFO",
    "namespaceSelector": {
        "matchLabels": {"team": "a"},
        "matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}],
    },
    "flavorFungibility": {
        "whenCanBorrow": "TryNextFlavor",
        "whenCanPreempt": "TryNextFlavor",
        "preference": "PreemptionOverBorrowing",
    },
    "preemption": {
        "reclaimWithinCohort": "Any",
        "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100},
        "withinClusterQueue": "LowerOrNewerEqualPriority",
    },
    "stopPolicy": "HoldAndDrain",
    "fairSharing": {"weight": "2"},
    "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
}
_WITHOUT_NODE: Final = [{"name": "f", "resources": [{"name": "cpu", "total": "1", "since": TIME}]}]
_QUEUE_STATUS: Final = {
    "conditions": [ACTIVE], **_COUNTS,
    "flavorsReservation": _BORROWED, "flavorsUsage": _BORROWED, "fairSharing": _SHARE,
    "withoutNode": _WITHOUT_NODE,
    "gpus": "9 of 16",
}  # fmt: skip
_PENDING: Final = {
    "pendingWorkloadsStatus": {
        "clusterQueuePendingWorkload": [{"name": "w", "namespace": "n"}], "lastChangeTime": TIME,
    }
}  # fmt: skip
_STRATEGY: Final = {"admissionChecks": [{"name": "check", "onFlavors": ["f"]}]}
_MIGRATION: Final = {
    "mode": "TryPreferredFlavors", "constraints": {"lastAcceptableFlavorName": "f"},
}  # fmt: skip
_COHORT: Final = {
    "parentName": "root", "resourceGroups": _GROUPS, "fairSharing": {"weight": "2"},
}  # fmt: skip
_LOCAL: Final = {"clusterQueue": "cq", "stopPolicy": "Hold", "fairSharing": {"weight": "2"}}
_LOCAL_STATUS: Final = {
    "conditions": [ACTIVE], **_COUNTS, "flavorsReservation": _USED, "fairSharing": _PAST_SHARE,
    "nominalQuota": _USED,
    "clusterQueueMaxPerUser": {"cpu": "2"},
}  # fmt: skip
_CHECK: Final = {
    "controllerName": "example.com/controller",
    "parameters": {"apiGroup": "example.com", "kind": "Config", "name": "config"},
}

_TEMPLATE: Final = {
    "metadata": {"labels": {"app": "train"}, "annotations": {"a": "b"}},
    "spec": {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        "restartPolicy": "Never",
    },
}
_CLOSENESS: Final = {
    "required": "rack", "preferred": "rack", "unconstrained": False,
    "podIndexLabel": "index", "subGroupIndexLabel": "group", "subGroupCount": 2,
    "podSetGroupName": "together", "podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2,
}  # fmt: skip
_LAYERS: Final = {"podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 2}]}
_WORKLOAD: Final = {
    "queueName": "lq", "priority": 5, "active": True, "maximumExecutionTimeSeconds": 60,
}  # fmt: skip
_NEW_CLASS: Final = {
    "priorityClassRef": {
        "group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high",
    }
}  # fmt: skip
_OLD_CLASS: Final = {
    "priorityClassName": "high",
    "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
}
_LEVELS: Final = ["rack", "kubernetes.io/hostname"]
_SLICES: Final = [
    {
        "domainCount": 2,
        "valuesPerLevel": [
            {"universal": "r1"},
            {"individual": {"prefix": "node-", "suffix": ".x", "roots": ["1", "2"]}},
        ],
        "podCounts": {"individual": [2, 1]},
    },
    {
        "domainCount": 1,
        "valuesPerLevel": [{"universal": "r2"}, {"universal": "node-3"}],
        "podCounts": {"universal": 1},
    },
]
_DOMAINS: Final = [
    {"values": ["r1", "node-1.x"], "count": 2},
    {"values": ["r1", "node-2.x"], "count": 1},
    {"values": ["r2", "node-3"], "count": 1},
]
_PACKED: Final = [
    {
        "domainCount": 3,
        "valuesPerLevel": [
            {"individual": {"prefix": "r", "roots": ["1", "1", "2"]}},
            {"individual": {"prefix": "node-", "roots": ["1.x", "2.x", "3"]}},
        ],
        "podCounts": {"individual": [2, 1, 1]},
    }
]
_GATE: Final = {"name": "gate", "position": "Closed", "lastTransitionTime": TIME}


def _pod_sets(more: Document) -> list[Document]:
    closeness = {**_CLOSENESS, **more}
    return [{
        "name": "main", "count": 4, "minCount": 2, "template": _TEMPLATE,
        "topologyRequest": closeness,
    }]  # fmt: skip


def _workload_status(topology: Document, seconds: str) -> Document:
    assignment = {
        "name": "main", "count": 4, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "4"},
        "topologyAssignment": {"levels": _LEVELS, **topology}, "delayedTopologyRequest": "Ready",
    }  # fmt: skip
    update = {
        "name": "main", "labels": {"a": "b"}, "annotations": {"a": "b"},
        "nodeSelector": {"a": "b"}, "tolerations": [_TOLERATION],
    }  # fmt: skip
    check = {
        "name": "check", "state": "Ready", "lastTransitionTime": TIME, "message": "",
        "requeueAfterSeconds": 1, "retryCount": 2, "podSetUpdates": [update],
    }  # fmt: skip
    eviction = {"reason": "Preempted", "underlyingCause": "", "count": 3}
    return {
        "conditions": [
            {**ACTIVE, "type": kind, "reason": kind} for kind in ("QuotaReserved", "Admitted")
        ],
        "admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]},
        "requeueState": {"count": 1, "requeueAt": TIME},
        "reclaimablePods": [{"name": "main", "count": 1}],
        "admissionChecks": [check],
        "resourceRequests": [{"name": "main", "resources": {"cpu": "4"}}],
        seconds: 30,
        "schedulingStats": {"evictions": [eviction]},
        "nominatedClusterNames": [],
        "clusterName": "cluster",
        "unhealthyNodes": [{"name": "node-1"}],
    }


_NEW_SECONDS: Final = "accumulatedPastExecutionTimeSeconds"
_OLD_SECONDS: Final = "accumulatedPastExexcutionTimeSeconds"

NEW: Final[dict[str, Document]] = {
    "AdmissionCheck": {"spec": _CHECK, "status": {"conditions": [ACTIVE]}},
    "ClusterQueue": {
        "spec": {
            **_QUEUE, "cohortName": "all", "admissionChecksStrategy": _STRATEGY,
            "concurrentAdmissionPolicy": {"migration": _MIGRATION},
        },
        "status": _QUEUE_STATUS,
    },
    "Cohort": {"spec": _COHORT, "status": {"fairSharing": _SHARE}},
    "LocalQueue": {"spec": _LOCAL, "status": {**_LOCAL_STATUS, "flavorsUsage": _USED}},
    "ResourceFlavor": {
        "spec": {
            "nodeLabels": {"a": "b"}, "nodeTaints": [_TAINT], "tolerations": [_TOLERATION],
            "topologyName": "racks",
        },
    },
    "Topology": {"spec": {"levels": [{"nodeLabel": level} for level in _LEVELS]}},
    "WorkloadPriorityClass": {"value": 100, "description": "For what cannot wait."},
    "Workload": {
        "spec": {
            **_WORKLOAD, **_NEW_CLASS, "podSets": _pod_sets(_LAYERS),
            "preemptionGates": [{"name": "gate"}],
        },
        "status": {
            **_workload_status({"slices": _SLICES}, _NEW_SECONDS), "preemptionGates": [_GATE],
        },
    },
}  # fmt: skip

DOWN: Final[dict[str, Document]] = {
    **NEW,
    "ClusterQueue": {
        "spec": {**_QUEUE, "cohort": "all", "admissionChecksStrategy": _STRATEGY},
        "status": _QUEUE_STATUS,
    },
    "LocalQueue": {"spec": _LOCAL, "status": {**_LOCAL_STATUS, "flavorUsage": _USED}},
    "Workload": {
        "spec": {**_WORKLOAD, **_OLD_CLASS, "podSets": _pod_sets({})},
        "status": _workload_status({"domains": _DOMAINS}, _OLD_SECONDS),
    },
}  # fmt: skip

OLD: Final[dict[str, Document]] = {
    **DOWN,
    "AdmissionCheck": {**NEW["AdmissionCheck"], "spec": {**_CHECK, "retryDelayMinutes": 3}},
    "ClusterQueue": {
        "spec": {
            **_QUEUE, "cohort": "all", "admissionChecks": ["other"],
            "admissionChecksStrategy": _STRATEGY,
        },
        "status": {**_QUEUE_STATUS, **_PENDING, "fairSharing": _PAST_SHARE},
    },
    "Cohort": {"spec": _COHORT, "status": {"fairSharing": _PAST_SHARE}},
    "LocalQueue": {
        "spec": _LOCAL,
        "status": {
            **_LOCAL_STATUS, "flavorUsage": _USED,
            "flavors": [{
                "name": "f", "resources": ["cpu"], "nodeLabels": {"a": "b"},
                "nodeTaints": [_TAINT], "topology": {"name": "racks", "levels": _LEVELS},
            }],
        },
    },
}  # fmt: skip

UP: Final[dict[str, Document]] = {
    **NEW,
    "ClusterQueue": {
        "spec": {
            **_QUEUE, "cohortName": "all",
            "admissionChecksStrategy": {"admissionChecks": [{"name": "other"}]},
        },
        "status": _QUEUE_STATUS,
    },
    "Workload": {
        "spec": {**_WORKLOAD, **_NEW_CLASS, "podSets": _pod_sets({})},
        "status": _workload_status({"slices": _PACKED}, _NEW_SECONDS),
    },
}  # fmt: skip

BACK: Final[dict[str, Document]] = {
    **DOWN,
    "ClusterQueue": {
        "spec": {
            **_QUEUE, "cohort": "all",
            "admissionChecksStrategy": {"admissionChecks": [{"name": "other"}]},
        },
        "status": _QUEUE_STATUS,
    },
}  # fmt: skip

WRITTEN: Final = {"v1beta1": OLD, "v1beta2": NEW}
