"""Cases of Workloads: creations, updates, and updates of the status."""

from typing import Any

from tests.objects.case import (
    NAME_RULE,
    SUBDOMAIN_RULE,
    VALUE_RULE,
    Case,
    Document,
    admission,
    assigned,
    check,
    condition,
    holding,
    pod_set,
    template,
    workload,
)

GATED = "kueue.x-k8s.io/admission-gated-by"
GATED_PATH = f"metadata.annotations[{GATED}]"
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"
TEMPLATE = "spec.podSets[0].template"
RESERVED = 'Invalid value: "pods": the key is reserved for internal kueue use'
SLICE = "spec.podSets[0].topologyRequest.podSetSliceSize"


def wl(rule: str, new: Document, message: str = "", *schema: str, **fields: Any) -> Case:
    told = frozenset(schema) if schema else None
    return Case(
        rule=f"Workload {rule}", kind="Workload", new=new, message=message, schema=told, **fields
    )


def asks(amounts: Document | None = None, **spec: Any) -> Document:
    return workload(pod_set(template=template(amounts, **spec)))


def sliced(**request: Any) -> Document:
    return workload(pod_set(topologyRequest=request))


def labelled(**metadata: Any) -> Document:
    return workload(pod_set(template={**template(), "metadata": metadata}))


CREATED = [
    wl("that is right", workload(queueName="q", annotations={GATED: "acme.io/a,acme.io/b"})),
    wl("without pod sets", {"spec": {}}),
    wl(
        "1 label", labelled(labels={"@": "a"}),
        f'{TEMPLATE}.metadata.labels: Invalid value: "@": {NAME_RULE}',
    ),
    wl(
        "1 label value", labelled(labels={"a": "@"}),
        f'{TEMPLATE}.metadata.labels: Invalid value: "@": {VALUE_RULE}',
    ),
    wl(
        "1 annotation", labelled(annotations={"@": "anything @ all"}),
        f'{TEMPLATE}.metadata.annotations: Invalid value: "@": {NAME_RULE}',
    ),
    wl("1 annotation in capitals", labelled(annotations={"ACME.io/Notes": "@"})),
    wl(
        "1 long annotations", labelled(annotations={"a": "v" * (256 * 1024)}),
        f"{TEMPLATE}.metadata.annotations: Too long: may not be more than 262144 bytes",
    ),
    wl(
        "2 requests", asks({"requests": {"pods": "1"}}),
        f"{TEMPLATE}.spec.containers[0].resources.requests[pods]: {RESERVED}",
    ),
    wl(
        "2 limits of an init container",
        asks(initContainers=[{"name": "i", "resources": {"limits": {"pods": 1}}}]),
        f"{TEMPLATE}.spec.initContainers[0].resources.limits[pods]: {RESERVED}",
    ),
    wl(
        "2 of the pod",
        asks(resources={"requests": {"pods": "1"}}),
        f"{TEMPLATE}.spec.resources.requests[pods]: {RESERVED}",
    ),
    wl(
        "2 limits of the pod",
        asks(resources={"limits": {"pods": "1"}}),
        f"{TEMPLATE}.spec.resources.limits[pods]: {RESERVED}",
    ),
    wl(
        "3 of an init container and of the pod",
        asks(
            initContainers=[{"name": "i", "resources": {"requests": {"memory": "-1Gi"}}}],
            resources={"limits": {"cpu": "-100m"}},
        ),
        f'[{TEMPLATE}.spec.initContainers[0].resources.requests[memory]: Invalid value: "-1Gi":'
        f' {NEGATIVE}, {TEMPLATE}.spec.resources.limits[cpu]: Invalid value: "-100m": {NEGATIVE}]',
    ),
    wl(
        "3", asks({"requests": {"cpu": "-1"}, "limits": {"nvidia.com/gpu": -2}}),
        f'[{TEMPLATE}.spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "-2":'
        f" {NEGATIVE}, {TEMPLATE}.spec.containers[0].resources.requests[cpu]: Invalid value:"
        f' "-1": {NEGATIVE}]',
    ),
    wl(
        "4", sliced(podSetSliceRequiredTopology="rack"),
        f"{SLICE}: Required value: must be set when podSetSliceRequiredTopology is specified",
    ),
    wl(
        "5", sliced(podSetSliceRequiredTopology="rack", podSetSliceSize=0),
        f"{SLICE}: Invalid value: 0: must be greater than 0",
        f"{SLICE}: Invalid value: 0: {SLICE} in body should be greater than or equal to 1",
    ),
    wl(
        "6", sliced(podSetSliceSize=2),
        f"{SLICE}: Forbidden: may not be set when podSetSliceRequiredTopology is not specified",
    ),
    wl(
        "7", sliced(podsetSliceRequiredTopologyConstraints=[{"topology": "rack", "size": 0}]),
        "spec.podSets[0].topologyRequest.podsetSliceRequiredTopologyConstraints[0].size: Invalid"
        " value: 0: must be greater than 0",
        "spec.podSets[0].topologyRequest.podsetSliceRequiredTopologyConstraints[0].size: Invalid"
        " value: 0: spec.podSets[0].topologyRequest.podsetSliceRequiredTopologyConstraints[0].size"
        " in body should be greater than or equal to 1",
    ),
    wl(
        "8", workload(pod_set("a", 2, minCount=1), pod_set("b", 2, minCount=1)),
        "spec.podSets: Invalid value: 2: at most one podSet can use minCount",
    ),
    wl(
        "9", workload(pod_set("a", 2, minCount=1), annotations=ELASTIC),
        "spec.podSets: Invalid value: 1: partial admission and elastic job cannot be used"
        " together",
    ),
    wl("9 elastic alone", workload(annotations=ELASTIC)),
    wl(
        "19 empty", workload(annotations={GATED: "acme.io/a,"}),
        f'{GATED_PATH}: Invalid value: "acme.io/a,": cannot contain empty gate names',
    ),
    wl(
        "19 twice", workload(annotations={GATED: "acme.io/a, acme.io/a"}),
        f'{GATED_PATH}: Invalid value: "acme.io/a, acme.io/a": duplicate gate name: acme.io/a',
    ),
    wl(
        "19 no path", workload(annotations={GATED: "acme"}),
        f'{GATED_PATH}: Invalid value: "acme": must be a domain-prefixed path (such as'
        ' "acme.io/foo")',
    ),
    wl(
        "19 host", workload(annotations={GATED: "A/x"}),
        f'{GATED_PATH}: Invalid value: "A": {SUBDOMAIN_RULE}',
    ),
    wl(
        "19 path", workload(annotations={GATED: "a.io/x y"}),
        f'{GATED_PATH}: Invalid value: "x y": Invalid path (regex used for validation is'
        " '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
    ),
    wl("19 blank", workload(annotations={GATED: " "})),
    wl(
        "19 long", workload(annotations={GATED: f"acme.io/{'a' * 60}"}),
        f"{GATED_PATH}: Too long: may not be more than 63 bytes",
    ),
]  # fmt: skip

PLAIN = workload()
TWO = workload(pod_set("a", 4), pod_set("b", 4))


def st(
    rule: str,
    status: Document,
    message: str = "",
    *schema: str,
    before: Document | None = None,
    of: Document = PLAIN,
    is_legacy: bool = False,
) -> Case:
    """An update of the status of a Workload."""
    old = of if before is None else {**of, "status": before}
    return wl(
        rule, {**of, "status": status}, message, *schema, old=old, is_status=True,
        is_legacy=is_legacy,
    )  # fmt: skip


USED = "status.admission.podSetAssignments[0].resourceUsage"
UPDATES = "status.admissionChecks[0].podSetUpdates"
NAMED = [{"name": "main"}]

STATUSES = [
    st("that is right", holding(assigned(resourceUsage={"cpu": "3"}))),
    st(
        "10", {"conditions": [condition()]},
        "status.admission: Required value: must be set while the QuotaReserved condition is true",
    ),
    st(
        "10 as it was", {"conditions": [condition()], "clusterName": "c"},
        before={"conditions": [condition()], "nominatedClusterNames": ["c"]}, is_legacy=True,
    ),
    st("10 no quota", {"conditions": [condition(status="False")]}),
    st(
        "11", holding(assigned("other")),
        'status.admission.podSetAssignments[0].name: Not found: "other"',
    ),
    st("11 no quota", {"admission": admission(assigned("other"))}),
    st(
        "12 cpu", holding(assigned(count=4, resourceUsage={"cpu": "1.001"})),
        f'{USED}[cpu]: Invalid value: "1001m": is not a multiple of 4',
    ),
    st(
        "12 devices", holding(assigned(count=2, resourceUsage={"nvidia.com/gpu": 3})),
        f'{USED}[nvidia.com/gpu]: Invalid value: "3": is not a multiple of 2',
    ),
    st("12 milli", holding(assigned(count=4, resourceUsage={"cpu": "1"}))),
    st("12 rounded up", holding(assigned(count=2, resourceUsage={"memory": "1500m"}))),
    st("12 no pods", holding(assigned(count=0, resourceUsage={"cpu": "1"}))),
    st(
        "13 twice", {"conditions": [condition("A"), condition("A")]},
        'status.conditions[1].type: Duplicate value: "A"',
        'status.conditions[1]: Duplicate value: {"type":"A"}',
    ),
    st(
        "13 type", {"conditions": [condition("@")]},
        f'status.conditions[0].type: Invalid value: "@": {NAME_RULE}',
        r'status.conditions[0].type: Invalid value: "@": conditions[0].type in body should match'
        r" '^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
        r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$'",
    ),
    st(
        "13 status", {"conditions": [condition(status="Perhaps")]},
        'status.conditions[0].status: Unsupported value: "Perhaps": supported values: "False",'
        ' "True", "Unknown"',
        'status.conditions[0].status: Unsupported value: "Perhaps": supported values: "True",'
        ' "False", "Unknown"',
    ),
    st(
        "13 generation", {"conditions": [condition("A", observedGeneration=-1)]},
        "status.conditions[0].observedGeneration: Invalid value: -1: must be greater than or"
        " equal to zero",
        "status.conditions[0].observedGeneration: Invalid value: -1:"
        " conditions[0].observedGeneration in body should be greater than or equal to 0",
    ),
    st(
        "13 time and reason", {"conditions": [{"type": "A", "status": "True", "message": ""}]},
        "[status.conditions[0].lastTransitionTime: Required value,"
        " status.conditions[0].reason: Required value]",
        "status.conditions[0].lastTransitionTime: Required value",
        "status.conditions[0].reason: Required value",
    ),
    st(
        "13 reason", {"conditions": [condition("A", reason="no words")]},
        'status.conditions[0].reason: Invalid value: "no words": a condition reason must start'
        " with alphabetic character, optionally followed by a string of alphanumeric characters or"
        " '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or"
        " 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for"
        " validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')",
        'status.conditions[0].reason: Invalid value: "no words": conditions[0].reason in body'
        " should match '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$'",
    ),
    st(
        "13 long", {"conditions": [condition("A", reason="r" * 1025, message="m" * 32769)]},
        "[status.conditions[0].message: Too long: may not be more than 32768 bytes,"
        " status.conditions[0].reason: Too long: may not be more than 1024 bytes]",
        "status.conditions[0].message: Too long: may not be more than 32768 bytes",
        "status.conditions[0].reason: Too long: may not be more than 1024 bytes",
    ),
    st(
        "14", {"reclaimablePods": [{"name": "c", "count": 1}]},
        'status.reclaimablePods[c].name: Unsupported value: "c": supported values: "a", "b"',
        of=TWO,
    ),
    st(
        "15", {"reclaimablePods": [{"name": "a", "count": 5}]},
        "status.reclaimablePods[a].count: Invalid value: 5: should be less or equal to 4",
        of=TWO,
    ),
    st("15 all", {"reclaimablePods": [{"name": "a", "count": 4}]}, of=TWO),
    st(
        "15 of an elastic one as it was", {"reclaimablePods": [{"name": "main", "count": 5}]},
        before={"reclaimablePods": [{"name": "main", "count": 5}]},
        of=workload(annotations=ELASTIC), is_legacy=True,
    ),
    st(
        "16", {"admissionChecks": [check(updates=[{"name": "c"}])]},
        f'{UPDATES}[0].name: Unsupported value: "c": supported values: "a", "b"',
        of=workload(pod_set("b"), pod_set("a")),
    ),
    st(
        "17", {"admissionChecks": [check(updates=[
            {"name": "main", "tolerations": [{"key": "@", "operator": "Exists"}]}])]},
        f'{UPDATES}[0].tolerations[0].key: Invalid value: "@": {NAME_RULE}',
    ),
    st(
        "18", {"admissionChecks": [check(updates=[
            {"name": "main", "annotations": {"@": ""}, "nodeSelector": {"@": ""},
             "labels": {"a": "@"}}])]},
        f'[{UPDATES}[0].annotations: Invalid value: "@": {NAME_RULE},'
        f' {UPDATES}[0].labels: Invalid value: "@": {VALUE_RULE},'
        f' {UPDATES}[0].nodeSelector: Invalid value: "@": {NAME_RULE}]',
    ),
]  # fmt: skip

HELD = holding()
PLACED: Document = {
    "levels": ["rack"],
    "slices": [{"domainCount": 1, "valuesPerLevel": [{"universal": "r1"}],
                "podCounts": {"universal": 1}}],
}  # fmt: skip
BOTH = holding(assigned("a", 4), assigned("b", 4))


def up(rule: str, new: Document, message: str = "", *schema: str, old: Document) -> Case:
    """An update of a Workload."""
    return wl(rule, new, message, *schema, old=old)


def gives(**reclaimed: int) -> Document:
    pods = [{"name": name, "count": count} for name, count in reclaimed.items()]
    return {**BOTH, "reclaimablePods": pods}


LABELLED = pod_set(template={**template(), "metadata": {"labels": {"a": "b"}}})

CHANGES = [
    up(
        "21", {**workload(pod_set(), pod_set("b")), "status": HELD},
        'spec.podSets: Invalid value: [{"count":1,"name":"main","template":{"spec":{"containers":'
        '[{"name":"c"}]}}},{"count":1,"name":"b","template":{"spec":{"containers":[{"name":"c"}'
        "]}}}]: field is immutable",
        "<nil>: Invalid value: podSetAssignments must have the same number of podSets as the spec",
        old=workload(status=HELD),
    ),
    up(
        "22", {**workload(LABELLED), "status": HELD},
        'spec.podSets.0: Invalid value: {"count":1,"name":"main","template":{"metadata":{"labels":'
        '{"a":"b"}},"spec":{"containers":[{"name":"c"}]}}}: field is immutable',
        old=workload(status=HELD),
    ),
    up(
        "22 more pods", {**workload(pod_set(count=2)), "status": HELD},
        'spec.podSets.0: Invalid value: {"count":2,"name":"main","template":{"spec":{"containers":'
        '[{"name":"c"}]}}}: field is immutable',
        old=workload(status=HELD),
    ),
    up("22 fewer pods", {**workload(pod_set(count=1)), "status": holding(assigned(count=2))},
       old=workload(pod_set(count=2), status=holding(assigned(count=2)))),
    up(
        "22 the same amount",
        {**asks({"requests": {"cpu": "1000m"}}), "status": HELD},
        old={**asks({"requests": {"cpu": "1"}}), "status": HELD},
    ),
    up("22 before quota", workload(LABELLED), old=workload()),
    st(
        "23", gives(a=1, b=1),
        "status.reclaimablePods[a].count: Invalid value: 1: cannot be less than 2",
        before=gives(a=2), of=TWO,
    ),
    st(
        "24", gives(b=1),
        "status.reclaimablePods[a]: Required value: cannot be removed",
        before=gives(a=2), of=TWO,
    ),
    st("24 quota given back", {"reclaimablePods": []}, before=gives(a=2), of=TWO),
    st(
        "23 of an elastic one that shrinks",
        {**holding(assigned(count=4)), "reclaimablePods": [{"name": "main", "count": 1}]},
        before={**holding(assigned(count=4)), "reclaimablePods": [{"name": "main", "count": 2}]},
        of=workload(pod_set(count=3), annotations=ELASTIC),
    ),
    st(
        "24 of an elastic one that shrinks",
        holding(assigned(count=4)),
        before={**holding(assigned(count=4)), "reclaimablePods": [{"name": "main", "count": 2}]},
        of=workload(pod_set(count=3), annotations=ELASTIC),
    ),
    st(
        "24 of an elastic one that does not shrink",
        holding(assigned(count=4)),
        "status.reclaimablePods[main]: Required value: cannot be removed",
        before={**holding(assigned(count=4)), "reclaimablePods": [{"name": "main", "count": 2}]},
        of=workload(pod_set(count=4), annotations=ELASTIC),
    ),
    st(
        "25", {**HELD, "admission": admission(queue="other")},
        'status.admission: Invalid value: {"clusterQueue":"other","podSetAssignments":[{"count":'
        '1,"name":"main"}]}: field is immutable',
        before=HELD,
    ),
    st(
        "25 one more", holding(assigned(), assigned("b")),
        '[status.admission: Invalid value: {"clusterQueue":"cq","podSetAssignments":[{"count":'
        '1,"name":"main"},{"count":1,"name":"b"}]}: field is immutable,'
        ' status.admission.podSetAssignments[1].name: Not found: "b"]',
        "<nil>: Invalid value: podSetAssignments must have the same number of podSets as the spec",
        before=HELD,
    ),
    st("25 placed", holding(assigned(topologyAssignment=PLACED)), before=holding()),
    st("25 given", {"conditions": [condition(status="False")],
                                       "admission": admission(queue="other")},
       before={"conditions": [condition(status="False")]}),
    st("25 delayed topology", holding(assigned(delayedTopologyRequest="Ready")),
       before=holding(assigned(delayedTopologyRequest="Pending"))),
    st("25 cleared", {"conditions": [condition(status="False")]}, before=HELD),
    st(
        "26", {"admissionChecks": [check(updates=[{"name": "main", "labels": {"a": "b"}}])]},
        f'{UPDATES}: Invalid value: [{{"labels":{{"a":"b"}},"name":"main"}}]: {IMMUTABLE}',
        before={"admissionChecks": [check(updates=NAMED)]},
    ),
    st(
        "26 found by its name",
        {"admissionChecks": [check(name="b", updates=[{"name": "main", "labels": {"a": "b"}}]),
                             check(name="a", updates=NAMED)]},
        f'status.admissionChecks[1].podSetUpdates: Invalid value: [{{"labels":{{"a":"b"}},"name":'
        f'"main"}}]: {IMMUTABLE}',
        before={"admissionChecks": [check(name="a", updates=NAMED),
                                    check(name="b", updates=NAMED)]},
    ),
    st("26 not ready now",
       {"admissionChecks": [check("Retry", updates=[{"name": "main", "labels": {"a": "b"}}])]},
       before={"admissionChecks": [check(updates=NAMED)]}),
    st("26 not ready before",
       {"admissionChecks": [check(updates=[{"name": "main", "labels": {"a": "b"}}])]},
       before={"admissionChecks": [check("Pending", updates=NAMED)]}),
    st(
        "27", {"clusterName": "c"},
        'status.clusterName: Invalid value: "c": when setting clusterName it must be one of the'
        " nominatedClusterNames",
        before={"nominatedClusterNames": ["a", "b"]},
    ),
    st("27 nominated", {"clusterName": "a"}, before={"nominatedClusterNames": ["a", "b"]}),
    st(
        "27 of a slice", {"clusterName": "c"}, before={},
        of=workload(annotations={"kueue.x-k8s.io/workload-slice-replacement-for": "w"}),
    ),
    up(
        "28 added", workload(annotations={GATED: "acme.io/a"}),
        f"{GATED_PATH}: Forbidden: cannot add admission gate after creation",
        old=workload(),
    ),
    up(
        "28 another", workload(annotations={GATED: "acme.io/b"}),
        f"{GATED_PATH}: Forbidden: can only remove gates, not add new ones",
        old=workload(annotations={GATED: "acme.io/a"}),
    ),
    up(
        "28 a blank one added", workload(annotations={GATED: " "}),
        f"{GATED_PATH}: Forbidden: cannot add admission gate after creation",
        old=workload(),
    ),
    up(
        "19 on an update", workload(annotations={GATED: "acme.io/a,"}),
        f'{GATED_PATH}: Invalid value: "acme.io/a,": cannot contain empty gate names',
        old=workload(annotations={GATED: "acme.io/a,acme.io/b"}),
    ),
    up("28 all removed", workload(), old=workload(annotations={GATED: "acme.io/a"})),
    up("28 removed", workload(annotations={GATED: "acme.io/b"}),
       old=workload(annotations={GATED: "acme.io/a,acme.io/b"})),
]  # fmt: skip

CASES = CREATED + STATUSES + CHANGES
