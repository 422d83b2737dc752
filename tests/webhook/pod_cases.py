"""Cases of Kueue's rules for the labels and annotations of pods."""

from typing import Any

from tests.builders.pods import make_pod
from tests.objects.case import NAME_RULE, SUBDOMAIN_RULE, Case, Document

K = "kueue.x-k8s.io"
GATES = [{"name": f"{K}/admission"}]
LABELS = "metadata.labels"
ANNOTATIONS = "metadata.annotations"
IMMUTABLE = "field is immutable"
BOTH = f"both the '{K}/pod-group-total-count' annotation and the '{K}/pod-group-name'"


def labelled(**labels: str) -> Document:
    return make_pod(labels=keys(labels), schedulingGates=GATES)


def annotated(**annotations: str) -> Document:
    return make_pod(annotations=keys(annotations), schedulingGates=GATES)


def keys(values: dict[str, str]) -> dict[str, str]:
    return {f"{K}/{name.replace('_', '-')}": value for name, value in values.items()}


def grouped(name: str = "", annotation: str = "", **annotations: str) -> Document:
    labels = {f"{K}/pod-group-name": name} if name else {}
    named = {"pod_group_name": annotation} if annotation else {}
    return make_pod(
        labels=labels, annotations=keys({**named, **annotations}), schedulingGates=GATES
    )


def running(pod: Document) -> Document:
    return {**pod, "spec": {**pod["spec"], "schedulingGates": []}}


def ended(pod: Document) -> Document:
    return {**pod, "status": {"phase": "Succeeded"}}


def placed(**annotations: str) -> Document:
    """A pod that asks for a topology; keywords are keys below ``podset-``."""
    return annotated(**{f"podset_{name}": value for name, value in annotations.items()})


def at(path: str, key: str, text: str) -> str:
    return f"{path}[{K}/{key}]: {text}"


def all_of(*texts: str) -> str:
    return f"[{', '.join(texts)}]"


def po(rule: str, new: Document, message: str = "", **fields: Any) -> Case:
    return Case(rule=f"Pod {rule}", kind="Pod", new=new, message=message, **fields)


QUEUE = f"{LABELS}[{K}/queue-name]"
PREBUILT = f"{LABELS}[{K}/prebuilt-workload-name]"
TIME = f"{LABELS}[{K}/max-exec-time-seconds]"
GATED = f"{ANNOTATIONS}[{K}/admission-gated-by]"
COUNT = f"{ANNOTATIONS}[{K}/pod-group-total-count]"
GROUP = f"{LABELS}[{K}/pod-group-name]"
TOO_LONG = "a" * 254

CREATED = [
    po(
        "that is right", labelled(queue_name="team.a-1", max_exec_time_seconds="7", managed="true")
    ),
    po("1", labelled(queue_name="A_b"), f'{QUEUE}: Invalid value: "A_b": {SUBDOMAIN_RULE}'),
    po("1 empty", labelled(queue_name=""), f'{QUEUE}: Invalid value: "": {SUBDOMAIN_RULE}'),
    po(
        "2 label", labelled(prebuilt_workload_name="A"),
        f'{PREBUILT}: Invalid value: "A": {SUBDOMAIN_RULE}',
    ),
    po(
        "2 annotation", annotated(prebuilt_workload_name="A"),
        at(ANNOTATIONS, "prebuilt-workload-name", f'Invalid value: "A": {SUBDOMAIN_RULE}'),
    ),
    po(
        "2 long annotation", annotated(prebuilt_workload_name=TOO_LONG),
        at(ANNOTATIONS, "prebuilt-workload-name",
           f'Invalid value: "{TOO_LONG}": must be no more than 253 characters'),
    ),
    po(
        "4 no number", labelled(max_exec_time_seconds="soon"),
        f'{TIME}: Invalid value: "soon": strconv.Atoi: parsing "soon": invalid syntax',
    ),
    po(
        "4 no such number", labelled(max_exec_time_seconds="9223372036854775808"),
        f'{TIME}: Invalid value: "9223372036854775808":'
        ' strconv.Atoi: parsing "9223372036854775808": value out of range',
    ),
    po(
        "4 zero", labelled(max_exec_time_seconds="0"),
        f"{TIME}: Invalid value: 0: should be greater than 0",
    ),
    po(
        "10", annotated(elastic_job="true"),
        at(ANNOTATIONS, "elastic-job",
           'Forbidden: elastic job is not supported for "/v1, Kind=Pod"'),
    ),
    po("10 not elastic", annotated(elastic_job="false")),
    po(
        "12 empty gate", annotated(admission_gated_by="a.io/x,,b.io/y"),
        f'{GATED}: Invalid value: "a.io/x,,b.io/y": cannot contain empty gate names',
    ),
    po(
        "12 twice", annotated(admission_gated_by="a.io/x, a.io/x"),
        f'{GATED}: Invalid value: "a.io/x, a.io/x": duplicate gate name: a.io/x',
    ),
    po(
        "12 no path", annotated(admission_gated_by="plain"),
        f'{GATED}: Invalid value: "plain": must be a domain-prefixed path (such as'
        ' "acme.io/foo")',
    ),
    po(
        "12 host", annotated(admission_gated_by="A/x"),
        f'{GATED}: Invalid value: "A": {SUBDOMAIN_RULE}',
    ),
    po(
        "12 path", annotated(admission_gated_by="a.io/x y"),
        f'{GATED}: Invalid value: "x y": Invalid path (regex used for validation is'
        " '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
    ),
    po(
        "12 long", annotated(admission_gated_by=f"a.io/{'x' * 59}"),
        f"{GATED}: Too long: may not be more than 63 bytes",
    ),
    po("12 blank", annotated(admission_gated_by=" ")),
    po("12 several", annotated(admission_gated_by=f"a.io/x,b.io/y/z, c.io/{'x' * 58}")),
    po(
        "13", labelled(managed="yes"),
        at(LABELS, "managed", "Forbidden: managed label value can only be 'true'"),
    ),
    po(
        "14", grouped(pod_group_total_count="2"),
        f"{GROUP}: Required value: {BOTH} label should be set",
    ),
    po(
        "15 label", grouped("G", pod_group_total_count="2"),
        f'{GROUP}: Invalid value: "G": {SUBDOMAIN_RULE}',
    ),
    po(
        "15 the annotation wins", grouped("g", annotation="G", pod_group_total_count="2"),
        at(ANNOTATIONS, "pod-group-name", f'Invalid value: "G": {SUBDOMAIN_RULE}'),
    ),
    po("16 label", grouped("g"), f"{COUNT}: Required value: {BOTH} label should be set"),
    po(
        "16 annotation", grouped(annotation="g"),
        f"{COUNT}: Required value: {BOTH} annotation should be set",
    ),
    po(
        "17 no number", grouped("g", pod_group_total_count="two"),
        f'{COUNT}: Invalid value: "two": strconv.Atoi: parsing "two": invalid syntax',
    ),
    po(
        "17 zero", grouped("g", pod_group_total_count="0"),
        f'{COUNT}: Invalid value: "0": incorrect annotation value'
        f" '{K}/pod-group-total-count=0': group total count should be greater than zero",
    ),
    po(
        "19", grouped("g", pod_group_total_count="2", prebuilt_workload_name="h"),
        at(ANNOTATIONS, "prebuilt-workload-name",
           'Invalid value: "h": prebuilt workload and pod group should be equal'),
    ),
    po("19 equal", grouped("g", pod_group_total_count="2", prebuilt_workload_name="g")),
    po(
        "10 beside 13 and 4",
        make_pod(
            labels=keys({"managed": "no", "max_exec_time_seconds": "0"}),
            annotations=keys({"elastic_job": "true"}),
        ),
        all_of(
            at(ANNOTATIONS, "elastic-job",
               'Forbidden: elastic job is not supported for "/v1, Kind=Pod"'),
            at(LABELS, "managed", "Forbidden: managed label value can only be 'true'"),
            f"{TIME}: Invalid value: 0: should be greater than 0",
        ),
    ),
]  # fmt: skip

P = f"{K}/podset-"
REQUIRED, PREFERRED, FREE = (
    f"{P}{n}-topology" for n in ("required", "preferred", "unconstrained")
)
SLICE, SIZE, GROUPED = f"{P}slice-required-topology", f"{P}slice-size", f"{P}group-name"
LAYERS = f"{SLICE}-constraints"


def told(key: str, text: str, below: str = "") -> str:
    return f"{ANNOTATIONS}[{key}]{below}: {text}"


TOPOLOGIES = [
    po("18 that is right", placed(required_topology="cloud.example.com/rack")),
    po("18 right in slices", placed(required_topology="block", slice_required_topology="rack",
                                    slice_size="4")),
    po("18 right in a group", placed(preferred_topology="rack", group_name="g1")),
    po("18 right and free", placed(unconstrained_topology="T")),
    po("18 right in layers", placed(slice_required_topology_constraints='[{"topology":"block",'
                                    '"size":8},{"topology":"rack","size":4}]')),
    po(
        "18 two at once", placed(required_topology="a", unconstrained_topology="true"),
        f'{ANNOTATIONS}: Invalid value: {{"{REQUIRED}":"a","{FREE}":"true"}}: must not'
        f' contain more than one topology annotation: ["{REQUIRED}", "{PREFERRED}", "{FREE}"]',
    ),
    po(
        "18 required", placed(required_topology="a b"),
        told(REQUIRED, f'Invalid value: "a b": {NAME_RULE}'),
    ),
    po(
        "18 required too long", placed(required_topology="x" * 64),
        told(REQUIRED, f'Invalid value: "{"x" * 64}": name part must be no more than 63 bytes'),
    ),
    po(
        "18 preferred", placed(preferred_topology="/x"),
        told(PREFERRED, 'Invalid value: "/x": prefix part must be non-empty'),
    ),
    po(
        "18 preferred without a name", placed(preferred_topology="x/"),
        all_of(
            told(PREFERRED, 'Invalid value: "x/": name part must be non-empty'),
            told(PREFERRED, f'Invalid value: "x/": {NAME_RULE}'),
        ),
    ),
    po(
        "18 slices", placed(slice_required_topology="@", slice_size="1"),
        told(SLICE, f'Invalid value: "@": {NAME_RULE}'),
    ),
    po(
        "18 free or not", placed(unconstrained_topology="yes"),
        told(FREE, 'Invalid value: "yes": must be a boolean value'),
    ),
    po(
        "18 group of a number", placed(group_name="7", required_topology="a"),
        told(GROUPED, 'Invalid value: "7": must not be a number'),
    ),
    po(
        "18 group without a topology", placed(group_name="g"),
        told(GROUPED, f"Forbidden: may not be set when neither '{PREFERRED}' nor '{REQUIRED}' is"
                      " specified"),
    ),
    po(
        "18 group of slices",
        placed(group_name="g", required_topology="a", slice_size="1", slice_required_topology="b"),
        all_of(
            told(GROUPED, f"Forbidden: may not be set when '{SLICE}' is specified"),
            told(GROUPED, f"Forbidden: may not be set when '{SIZE}' is specified"),
        ),
    ),
    po(
        "18 slices without a size", placed(slice_required_topology="a"),
        told(SIZE, f"Required value: must be set when '{SLICE}' is specified"),
    ),
    po(
        "18 size without slices", placed(slice_size="1"),
        told(SIZE, f"Forbidden: may not be set when '{SLICE}' is not specified"),
    ),
    po(
        "18 size too large", placed(slice_required_topology="a", slice_size="2147483648"),
        told(SIZE, 'Invalid value: "2147483648": must be a numeric value'),
    ),
    po(
        "18 size of nothing", placed(slice_required_topology="a", slice_size="0"),
        told(SIZE, 'Invalid value: "0": must be greater than or equal to 1'),
    ),
    po(
        "18 no layers", placed(slice_required_topology_constraints="[]"),
        told(LAYERS, 'Invalid value: "[]": topology constraints must contain between 1 and 3'
                     " entries"),
    ),
    po(
        "18 layers that repeat or do not divide",
        placed(slice_required_topology_constraints='[{"topology":"a","size":4},{"topology":"a",'
               '"size":3}]'),
        all_of(
            told(LAYERS, "Invalid value: 3: must evenly divide the parent layer size 4",
                 "[1].size"),
            told(LAYERS, 'Duplicate value: "a"', "[1].topology"),
        ),
    ),
    po(
        "18 layers that are no list", placed(slice_required_topology_constraints="{}"),
        told(LAYERS, 'Invalid value: "{}": must be a JSON list of layers: Expected `array`, got'
                     " `object`"),
    ),
    po(
        "18 layer of nothing",
        placed(slice_required_topology_constraints='[{"topology":"a","size":0}]'),
        told(LAYERS, "Invalid value: 0: must be greater than or equal to 1", "[0].size"),
    ),
    po(
        "18 layer of no label",
        placed(slice_required_topology_constraints='[{"topology":"@","size":1}]'),
        told(LAYERS, f'Invalid value: "@": {NAME_RULE}', "[0].topology"),
    ),
    po(
        "18 layers and a size",
        placed(slice_required_topology_constraints='[{"topology":"a","size":1}]', slice_size="1"),
        told(LAYERS, f"Forbidden: may not be set when '{SIZE}' is specified"),
    ),
]  # fmt: skip

GROUP_OF_TWO = grouped("g", pod_group_total_count="2")

CHANGED = [
    po("that is changed", labelled(queue_name="b"), old=labelled(queue_name="a")),
    po(
        "2 on an update", annotated(prebuilt_workload_name="A"),
        at(ANNOTATIONS, "prebuilt-workload-name", f'Invalid value: "A": {SUBDOMAIN_RULE}'),
        old=annotated(prebuilt_workload_name="a"),
    ),
    po("2 while it waits", labelled(prebuilt_workload_name="b"),
       old=labelled(prebuilt_workload_name="a")),
    po(
        "3", running(labelled(prebuilt_workload_name="b")),
        f'{PREBUILT}: Invalid value: "b": {IMMUTABLE}',
        old=running(labelled(prebuilt_workload_name="a")),
    ),
    po(
        "5", running(labelled(max_exec_time_seconds="2")),
        f'{TIME}: Invalid value: "2": {IMMUTABLE}', old=labelled(max_exec_time_seconds="1"),
    ),
    po("5 while it waits", labelled(max_exec_time_seconds="2"),
       old=labelled(max_exec_time_seconds="1")),
    po(
        "6", running(labelled(queue_name="b")), f'{QUEUE}: Invalid value: "b": {IMMUTABLE}',
        old=labelled(queue_name="a"),
    ),
    po("6 with the mark of a pod that is charged from now on",
       make_pod(labels=keys({"queue_name": "b"}), annotations=keys({"workload": "pod-a"})),
       old=make_pod()),
    po("6 at its end", ended(running(labelled(queue_name="b"))),
       old=ended(labelled(queue_name="a"))),
    po(
        "7", labelled(),
        f'{QUEUE}: Invalid value: "": queue-name must not be empty in namespace with default'
        " queue",
        old=labelled(queue_name="a"), has_default_queue=True,
    ),
    po("7 without a default", labelled(), old=labelled(queue_name="a")),
    po(
        "8", running(labelled(priority_class="high")),
        at(LABELS, "priority-class",
           'Invalid value: "high": WorkloadPriorityClass cannot be added to a non-suspended'
           " workload"),
        old=running(labelled()),
    ),
    po("8 while it waits", labelled(priority_class="high"), old=labelled()),
    po("8 another", running(labelled(priority_class="high")),
       old=running(labelled(priority_class="low"))),
    po(
        "9", labelled(),
        at(LABELS, "priority-class",
           'Invalid value: "": WorkloadPriorityClass cannot be removed from a workload'),
        old=labelled(priority_class="high"),
    ),
    po(
        "11", annotated(elastic_job="true"),
        at(ANNOTATIONS, "elastic-job", f'Invalid value: "true": {IMMUTABLE}'), old=annotated(),
    ),
    po(
        "12 added", annotated(admission_gated_by="a.io/x"),
        f"{GATED}: Forbidden: cannot add admission gate after creation", old=annotated(),
    ),
    po(
        "12 another", annotated(admission_gated_by="a.io/x,b.io/y"),
        f"{GATED}: Forbidden: can only remove gates, not add new ones",
        old=annotated(admission_gated_by="a.io/x"),
    ),
    po("12 removed", annotated(admission_gated_by="b.io/y"),
       old=annotated(admission_gated_by="a.io/x,b.io/y")),
    po("12 blank instead", annotated(admission_gated_by=" "),
       old=annotated(admission_gated_by="a.io/x")),
    po(
        "13 on an update", labelled(managed="no"),
        at(LABELS, "managed", "Forbidden: managed label value can only be 'true'"),
        old=labelled(managed="true"),
    ),
    po(
        "16 on an update", grouped("g"), f"{COUNT}: Required value: {BOTH} label should be set",
        old=GROUP_OF_TWO,
    ),
    po(
        "18 on an update", placed(slice_size="1"),
        told(SIZE, f"Forbidden: may not be set when '{SLICE}' is not specified"), old=annotated(),
    ),
    po(
        "20", GROUP_OF_TWO,
        at(ANNOTATIONS, "retriable-in-group",
           "Forbidden: unretriable pod group can't be converted to retriable"),
        old=grouped("g", pod_group_total_count="2", retriable_in_group="false"),
    ),
    po(
        "21", grouped("h", pod_group_total_count="2"), f'{GROUP}: Invalid value: "h": {IMMUTABLE}',
        old=GROUP_OF_TWO,
    ),
    po("21 moved to the annotation", grouped(annotation="g", pod_group_total_count="2"),
       old=GROUP_OF_TWO),
    po("21 assigned later", GROUP_OF_TWO, old=labelled()),
]  # fmt: skip

VOLCANO = "scheduling.k8s.io/group-name"
MARK = "gpu-admission.dev/pod-group"
NOT_SET = "is set at creation to the PodGroup that the pod names: leave it out"


def of_podgroup(gpus: int = 0, **annotations: str) -> Document:
    """A pod with a mark, and the name of a PodGroup of Volcano."""
    found = {MARK: annotations.get("mark", ""), VOLCANO: annotations.get("volcano", "")}
    given = {key: value for key, value in found.items() if value}
    return make_pod(annotations=given, schedulingGates=GATES, gpus=gpus)


PODGROUPS: list[Case] = [
    po("22 of none", of_podgroup(mark="podgroups.scheduling.volcano.sh/a"),
       f'{ANNOTATIONS}[{MARK}]: Invalid value: "podgroups.scheduling.volcano.sh/a": {NOT_SET}'),
    po("22 of another", of_podgroup(mark="podgroups.scheduling.volcano.sh/a", volcano="b"),
       f'{ANNOTATIONS}[{MARK}]: Invalid value: "podgroups.scheduling.volcano.sh/a": {NOT_SET}'),
    po("22 its own", of_podgroup(mark="podgroups.scheduling.volcano.sh/a", volcano="a")),
    po("23", of_podgroup(gpus=1, volcano="No Name"),
       f'{ANNOTATIONS}[{VOLCANO}]: Invalid value: "No Name": {SUBDOMAIN_RULE}'),
]  # fmt: skip

BEYOND = "gpu-admission.dev/beyond-pod-group"
BEYONDS: list[Case] = [
    po("25", make_pod(annotations={BEYOND: "podgroups.scheduling.volcano.sh/a"},
                      schedulingGates=GATES),
       f'{ANNOTATIONS}[{BEYOND}]: Invalid value: "podgroups.scheduling.volcano.sh/a": is set when'
       " a pod is admitted beyond the others of its PodGroup: leave it out", is_legacy=True),
]  # fmt: skip

NO_DURATION = "must be a duration such as 500ms, 15s or 1h30m"
MINIMUM, MAXIMUM = "gpu-admission.dev/minimum-run-time", "gpu-admission.dev/maximum-run-time"
NOTICE = "gpu-admission.dev/preemption-notice"


def timed(value: str, key: str = MINIMUM) -> Document:
    return make_pod(annotations={key: value}, schedulingGates=GATES)


RUN_TIMES: list[Case] = [
    po("24 that is right", timed("1h30m")),
    po("24", timed("soon"), told(MINIMUM, f'Invalid value: "soon": {NO_DURATION}')),
    po("24 of a notice", timed("soon", NOTICE),
       told(NOTICE, f'Invalid value: "soon": {NO_DURATION}')),
    po("24 of queues", timed("1h", MAXIMUM),
       told(MAXIMUM, "Forbidden: has an effect on queues only; the label"
            f" {K}/max-exec-time-seconds limits a workload")),
    po("24 changed", timed("soon"), told(MINIMUM, f'Invalid value: "soon": {NO_DURATION}'),
       old=timed("1h")),
    po("24 as it was", timed("soon"), old=timed("soon"), is_legacy=True),
]  # fmt: skip

CASES = CREATED + TOPOLOGIES + CHANGED + PODGROUPS + BEYONDS + RUN_TIMES
