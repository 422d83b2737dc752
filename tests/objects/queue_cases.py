"""Cases of ClusterQueues, Cohorts and ResourceFlavors."""

from typing import Any

from tests.objects.case import (
    NAME_RULE,
    SUBDOMAIN_RULE,
    VALUE_RULE,
    Case,
    Document,
    flavor,
    group,
    queue,
    quota,
)

GROUP = "spec.resourceGroups[0]"
QUOTA = f"{GROUP}.flavors[0].resources[0]"
NEGATIVE = "must be greater than or equal to 0"


def cq(
    rule: str, new: Document, message: str = "", schema: str | None = None, **fields: Any
) -> Case:
    told = None if schema is None else frozenset({schema})
    return Case(
        rule=f"ClusterQueue {rule}", kind="ClusterQueue", new=new, message=message, schema=told,
        **fields,
    )  # fmt: skip


def co(rule: str, new: Document, message: str = "") -> Case:
    return Case(rule=f"Cohort {rule}", kind="Cohort", new=new, message=message)


def rf(rule: str, message: str = "", **spec: Any) -> Case:
    return Case(
        rule=f"ResourceFlavor {rule}", kind="ResourceFlavor", new={"spec": spec}, message=message
    )


def many(count: int, prefix: str = "r", start: int = 0) -> list[str]:
    return [f"{prefix}{number}" for number in range(start, start + count)]


def wide(names: list[str], flavors: list[str]) -> Document:
    quotas = [quota(name, 0) for name in names]
    return group(*(flavor(name, *quotas) for name in flavors), covered=names)


def checks(*rules: Document) -> Document:
    return {"admissionChecksStrategy": {"admissionChecks": list(rules)}}


ON_G: Document = {"name": "a", "onFlavors": ["g"]}
ON_F: Document = {"name": "a", "onFlavors": ["f"]}
UNKNOWN = (
    "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]:"
    ' Unsupported value: "g": supported values: "f"'
)
SELECTOR = "spec.namespaceSelector"
POLICY: Document = {"migration": {"mode": "TryPreferredFlavors"}}
LATER: Document = {"migration": {"mode": "RetainFirstAdmission"}}


def selecting(key: str = "team", operator: str = "In", values: list[str] | None = None) -> Any:
    expression: Document = {"key": key, "operator": operator}
    if values is not None:
        expression["values"] = values
    return queue(namespaceSelector={"matchExpressions": [expression]})


CLUSTER_QUEUES = [
    cq("that is right", queue(cohortName="all")),
    cq("without a spec", {}),
    cq(
        "1 no label key",
        queue(group(flavor("f", quota("@cpu")), covered=["@cpu"])),
        f'{GROUP}.coveredResources[0]: Invalid value: "@cpu": {NAME_RULE}',
    ),
    cq(
        "1 empty prefix",
        queue(group(flavor("f", quota("/a")), covered=["/a"])),
        f'{GROUP}.coveredResources[0]: Invalid value: "/a": prefix part must be non-empty',
    ),
    cq(
        "1 empty name",
        queue(group(flavor("f", quota("a/")), covered=["a/"])),
        f'[{GROUP}.coveredResources[0]: Invalid value: "a/": name part must be non-empty,'
        f' {GROUP}.coveredResources[0]: Invalid value: "a/": {NAME_RULE}]',
    ),
    cq(
        "1 long name",
        queue(group(flavor("f", quota("n" * 64)), covered=["n" * 64])),
        f'{GROUP}.coveredResources[0]: Invalid value: "{"n" * 64}": name part must be no more'
        " than 63 bytes",
    ),
    cq(
        "1 prefix",
        queue(group(flavor("f", quota("A/a")), covered=["A/a"])),
        f'{GROUP}.coveredResources[0]: Invalid value: "A/a": prefix part {SUBDOMAIN_RULE}',
    ),
    cq(
        "2 in two groups",
        queue(group(), group(flavor("g"))),
        'spec.resourceGroups[1].coveredResources[0]: Duplicate value: "cpu"',
    ),
    cq(
        "2 twice in one list",
        queue(
            group(flavor("f", quota("cpu"), quota("memory")), covered=["cpu", "cpu"]),
        ),
        f'[{GROUP}.coveredResources[1]: Duplicate value: "cpu",'
        f' {GROUP}.flavors[0].resources[1].name: Invalid value: "memory": must match the name in'
        " coveredResources]",
    ),
    cq(
        "3",
        queue(group(flavor("f", quota("memory"), quota("cpu")), covered=["cpu", "memory"])),
        f'[{QUOTA}.name: Invalid value: "memory": must match the name in coveredResources,'
        f' {GROUP}.flavors[0].resources[1].name: Invalid value: "cpu": must match the name in'
        " coveredResources]",
    ),
    cq(
        "4",
        queue(group(flavor("f", quota(nominal="-1500m")))),
        f'{QUOTA}.nominalQuota: Invalid value: "-1500m": {NEGATIVE}',
    ),
    cq(
        "5",
        queue(group(flavor("f", quota(borrowingLimit=-1))), cohortName="all"),
        f'{QUOTA}.borrowingLimit: Invalid value: "-1": {NEGATIVE}',
    ),
    cq(
        "5 without a cohort",
        queue(group(flavor("f", quota(borrowingLimit="1")))),
        f'{QUOTA}.borrowingLimit: Invalid value: "1": must be nil when cohort is empty',
        "spec: Invalid value: borrowingLimit must be nil when cohort is empty",
    ),
    cq("5 nothing may be borrowed", queue(group(flavor("f", quota(borrowingLimit=0))),
       cohortName="all")),
    cq(
        "6",
        queue(group(flavor("f", quota(lendingLimit=-1))), cohortName="all"),
        f'{QUOTA}.lendingLimit: Invalid value: "-1": {NEGATIVE}',
    ),
    cq(
        "6 without a cohort",
        queue(group(flavor("f", quota(lendingLimit=1)))),
        f'{QUOTA}.lendingLimit: Invalid value: "1": must be nil when cohort is empty',
    ),
    cq(
        "6 over nominal",
        queue(group(flavor("f", quota(nominal="4Gi", lendingLimit="4097Mi"))), cohortName="all"),
        f'{QUOTA}.lendingLimit: Invalid value: "4097Mi": must be less than or equal to the'
        " nominalQuota",
    ),
    cq(
        "6 equal to nominal",
        queue(group(flavor("f", quota(nominal="4Gi", lendingLimit="4096Mi"))), cohortName="all"),
    ),
    cq(
        "7",
        queue(group(), group(flavor("f", quota("memory")), covered=["memory"])),
        'spec.resourceGroups[1].flavors[0].name: Duplicate value: "f"',
    ),
    cq(
        "8 key",
        selecting(key="@team", operator="Exists"),
        f'{SELECTOR}.matchExpressions[0].key: Invalid value: "@team": {NAME_RULE}',
    ),
    cq(
        "8 values missing",
        selecting(),
        f"{SELECTOR}.matchExpressions[0].values: Required value: must be specified when"
        " `operator` is 'In' or 'NotIn'",
    ),
    cq(
        "8 value of DoesNotExist",
        selecting(operator="DoesNotExist", values=["a"]),
        f"{SELECTOR}.matchExpressions[0].values: Forbidden: may not be specified when"
        " `operator` is 'Exists' or 'DoesNotExist'",
    ),
    cq(
        "8 NotIn nothing",
        selecting(operator="NotIn", values=[]),
        f"{SELECTOR}.matchExpressions[0].values: Required value: must be specified when"
        " `operator` is 'In' or 'NotIn'",
    ),
    cq(
        "8 values not wanted",
        selecting(operator="Exists", values=["a"]),
        f"{SELECTOR}.matchExpressions[0].values: Forbidden: may not be specified when"
        " `operator` is 'Exists' or 'DoesNotExist'",
    ),
    cq(
        "8 operator",
        selecting(operator="Near", values=["a"]),
        f'{SELECTOR}.matchExpressions[0].operator: Invalid value: "Near": not a valid selector'
        " operator",
    ),
    cq(
        "8 value",
        selecting(values=["a", "-"]),
        f'{SELECTOR}.matchExpressions[0].values[1]: Invalid value: "-": {VALUE_RULE}',
    ),
    cq(
        "8 label key",
        queue(namespaceSelector={"matchLabels": {"@": "a"}}),
        f'{SELECTOR}.matchLabels: Invalid value: "@": {NAME_RULE}',
    ),
    cq(
        "8 label value",
        queue(namespaceSelector={"matchLabels": {"a": "-"}}),
        f'{SELECTOR}.matchLabels: Invalid value: "-": {VALUE_RULE}',
    ),
    cq("8 everything", queue(namespaceSelector={})),
    cq(
        "9",
        queue(preemption={
            "reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"},
        }),
        'spec.preemption: Invalid value: {"reclaimWithinCohort":"Never","borrowWithinCohort":'
        '{"policy":"LowerPriority"},"withinClusterQueue":"Never"}: reclaimWithinCohort=Never and'
        " borrowWithinCohort.Policy!=Never",
        "spec.preemption: Invalid value: reclaimWithinCohort=Never and"
        " borrowWithinCohort.Policy!=Never",
    ),
    cq(
        "10",
        queue(flavorFungibility={
            "whenCanBorrow": "MayStopSearch", "preference": "PreemptionOverBorrowing",
        }),
        'spec.flavorFungibility.preference: Invalid value: "PreemptionOverBorrowing": preference'
        ' "PreemptionOverBorrowing" requires both whenCanBorrow and whenCanPreempt to be'
        " TryNextFlavor",
        "spec.flavorFungibility: Invalid value: preference can only be set when both"
        " whenCanBorrow and whenCanPreempt are TryNextFlavor",
    ),
    cq(
        "11 below zero",
        queue(fairSharing={"weight": "-0.5"}),
        f'spec.fairSharing: Invalid value: "-500m": {NEGATIVE}',
    ),
    cq(
        "11 nearly zero",
        queue(fairSharing={"weight": "1n"}),
        'spec.fairSharing: Invalid value: "1n": When not 0, weight must be > 10e-9',
    ),
    cq("11 zero", queue(fairSharing={"weight": 0})),
    cq("11 two billionths", queue(fairSharing={"weight": "2n"})),
    cq(
        "12",
        queue(*(wide([f"r{n}"], many(64, "f", n * 64)) for n in range(5))),
        "spec.resourceGroups: Invalid value: 320: total number of flavors across all"
        " resourceGroups must be ≤ 256, got 320",
    ),
    cq(
        "13",
        queue(*(wide(many(64, "r", n * 64), [f"f{n}"]) for n in range(5))),
        "spec.resourceGroups: Invalid value: 320: total number of covered resources across all"
        " resourceGroups must be ≤ 256, got 320",
    ),
    cq(
        "14",
        queue(wide(many(19), many(27, "f"))),
        "spec.resourceGroups[0]: Invalid value: 513: number of flavor-resource combinations in a"
        " resourceGroup must be ≤ 512, got 513",
    ),
    cq("14 just as many", queue(wide(many(16), many(32, "f")))),
    cq("14 in two groups", queue(
        wide(many(16), many(32, "f")), wide(many(16, "s"), many(32, "g")))),
    cq("16", queue(**checks(ON_G)), UNKNOWN),
    cq("16 of the second check", queue(**checks(ON_F, {"name": "b", "onFlavors": ["f", "g"]})),
       UNKNOWN.replace("admissionChecks[0].onFlavors[0]", "admissionChecks[1].onFlavors[1]")),
    cq("16 on an update", queue(**checks(ON_G)), UNKNOWN, old=queue(**checks(ON_F))),
    cq(
        "16 as it was", queue(**checks(ON_G), stopPolicy="Hold"),
        old=queue(**checks(ON_G)), is_legacy=True,
    ),
    cq(
        "16 as it was but for the flavors", queue(**checks(ON_G)), UNKNOWN,
        old=queue(group(flavor("e")), **checks(ON_G)), is_legacy=True,
    ),
    cq(
        "17 changed", queue(concurrentAdmissionPolicy=LATER),
        'spec.concurrentAdmissionPolicy: Invalid value: {"migration":{"mode":'
        '"RetainFirstAdmission"}}: field is immutable',
        old=queue(concurrentAdmissionPolicy=POLICY),
    ),
    cq(
        "17 removed", queue(),
        "spec.concurrentAdmissionPolicy: Invalid value: null: field is immutable",
        old=queue(concurrentAdmissionPolicy=POLICY),
    ),
    cq(
        "17 added", queue(concurrentAdmissionPolicy=POLICY),
        'spec.concurrentAdmissionPolicy: Invalid value: {"migration":{"mode":'
        '"TryPreferredFlavors"}}: field is immutable',
        old=queue(),
    ),
    cq("17 as it was", queue(concurrentAdmissionPolicy=POLICY, cohortName="b"),
       old=queue(concurrentAdmissionPolicy=POLICY)),
]  # fmt: skip

COHORTS = [
    co("that is right", queue(parentName="root")),
    co(
        "11 below zero", queue(fairSharing={"weight": -1}),
        f'spec.fairSharing: Invalid value: "-1": {NEGATIVE}',
    ),
    co(
        "11 nearly zero", queue(fairSharing={"weight": "0.5n"}),
        'spec.fairSharing: Invalid value: "1n": When not 0, weight must be > 10e-9',
    ),
    co(
        "1 resource", queue(group(flavor("f", quota("a/b/c")), covered=["a/b/c"])),
        f'{GROUP}.coveredResources[0]: Invalid value: "a/b/c": a valid label key '
        + NAME_RULE.removeprefix("name part ")
        + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
    ),
    co("in a circle", queue(parentName="x")),
    co(
        "2", queue(group(), group(flavor("g"))),
        'spec.resourceGroups[1].coveredResources[0]: Duplicate value: "cpu"',
    ),
    co(
        "4", queue(group(flavor("f", quota(nominal=-1)))),
        f'{QUOTA}.nominalQuota: Invalid value: "-1": {NEGATIVE}',
    ),
    co(
        "3", queue(group(flavor("f", quota("memory")))),
        f'{QUOTA}.name: Invalid value: "memory": must match the name in coveredResources',
    ),
    co(
        "5 and 6 without a parent",
        queue(group(flavor("f", quota(borrowingLimit=1, lendingLimit=-1)))),
        f'[{QUOTA}.borrowingLimit: Invalid value: "1": must be nil when parent is empty,'
        f' {QUOTA}.lendingLimit: Invalid value: "-1": {NEGATIVE},'
        f' {QUOTA}.lendingLimit: Invalid value: "-1": must be nil when parent is empty]',
    ),
    co(
        "5", queue(group(flavor("f", quota(borrowingLimit=-1))), parentName="root"),
        f'{QUOTA}.borrowingLimit: Invalid value: "-1": {NEGATIVE}',
    ),
    co(
        "6", queue(group(flavor("f", quota(lendingLimit=-1))), parentName="root"),
        f'{QUOTA}.lendingLimit: Invalid value: "-1": {NEGATIVE}',
    ),
    co(
        "6 more than nominal",
        queue(group(flavor("f", quota(lendingLimit=9))), parentName="root"),
    ),
    co(
        "7", queue(group(), group(flavor("f", quota("memory")), covered=["memory"])),
        'spec.resourceGroups[1].flavors[0].name: Duplicate value: "f"',
    ),
    co(
        "11 is told first",
        queue(group(flavor("f", quota(nominal=-1))), fairSharing={"weight": -1}),
        f'[spec.fairSharing: Invalid value: "-1": {NEGATIVE},'
        f' {QUOTA}.nominalQuota: Invalid value: "-1": {NEGATIVE}]',
    ),
]  # fmt: skip

TAINT = {"key": "a", "value": "b", "effect": "NoSchedule"}
FLAVORS = [
    rf("that is right", nodeLabels={"a": "b"}, nodeTaints=[TAINT], tolerations=[
        {"operator": "Exists"}, {"key": "a", "operator": "Exists"},
    ]),
    rf("1 key", f'spec.nodeLabels: Invalid value: "@a": {NAME_RULE}', nodeLabels={"@a": ""}),
    rf("1 value", f'spec.nodeLabels: Invalid value: "@": {VALUE_RULE}', nodeLabels={"a": "@"}),
    rf(
        "1 long value",
        f'spec.nodeLabels: Invalid value: "{"v" * 64}": must be no more than 63 bytes',
        nodeLabels={"a": "v" * 64},
    ),
    rf(
        "2", f'[spec.nodeTaints[0].key: Invalid value: "": name part must be non-empty,'
        f' spec.nodeTaints[0].key: Invalid value: "": {NAME_RULE}]',
        nodeTaints=[{"key": "", "effect": "NoSchedule"}],
    ),
    rf(
        "3", f'spec.nodeTaints[0].value: Invalid value: "{"-" * 64}": must be no more than 63'
        f" bytes;{VALUE_RULE}",
        nodeTaints=[{**TAINT, "value": "-" * 64}],
    ),
    rf(
        "4", 'spec.nodeTaints[1]: Duplicate value: {"key":"a","effect":"NoSchedule"}: taints must'
        " be unique by key and effect pair",
        nodeTaints=[TAINT, {"key": "a", "effect": "NoSchedule"}],
    ),
    rf("4 other effect", nodeTaints=[TAINT, {**TAINT, "effect": "NoExecute"}]),
    rf(
        "5", f'spec.tolerations[1].key: Invalid value: "@": {NAME_RULE}',
        tolerations=[{"operator": "Exists"}, {"key": "@", "operator": "Exists"}],
    ),
]  # fmt: skip

CASES = CLUSTER_QUEUES + COHORTS + FLAVORS
