"""Each check finds the fault that it is about, and names the mend; a healthy cluster has none."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from admission.admin import break_glass, holding, manifests, operators
from admission.admin.doctor import checks, devices, queues
from admission.admin.doctor import picture as pictures
from admission.admin.doctor.findings import Severity
from admission.admin.doctor.picture import Overload, Trial
from admission.admin.passing import Passing
from admission.base import conditions, names
from admission.base.causes import ChecksInactive
from admission.config.derived import Settings
from admission.config.gpu_configuration import GpuConfiguration
from admission.installed.cabundles import MUTATING_NAME, VALIDATING_NAME
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import broken_glass
from admission.reasons import added_conditions, kueue
from tests.admin.doctor.clusters import NOW, PRODUCT, SYSTEM, Broken, at, issued
from tests.builders.metadata import make_condition
from tests.builders.pods import make_pod
from tests.builders.queues import make_cluster_queue, make_cohort, make_flavor, make_local_queue
from tests.builders.workloads import make_admission, make_workload

REFUSED = (
    'Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: Post '
    '"https://gpu-admission-webhook.gpu-admission-system.svc:443/mutate--v1-pod?timeout=5s": '
)


@dataclass(frozen=True)
class Fault:
    """A fault, and what is said of it.

    Attributes:
        id: of the case.
        check: that finds it.
        does: brings it about.
        severity: of the finding.
        names: what is found, or its beginning.
        what: part of what is said.
        mend: part of the mend.
        also: other checks that find something, too.
    """

    id: str
    check: str
    does: Callable[[Broken], object]
    severity: Severity
    names: tuple[str, ...]
    what: str
    mend: str
    also: tuple[str, ...] = ()


FAULTS: list[Fault] = []


def fault(
    check: str,
    severity: Severity,
    named: str | tuple[str, ...],
    what: str,
    mend: str,
    also: tuple[str, ...] = (),
) -> Callable[[Callable[[Broken], object]], Callable[[Broken], object]]:
    """Registers what a function brings about."""

    def register(does: Callable[[Broken], object]) -> Callable[[Broken], object]:
        listed = (named,) if isinstance(named, str) else named
        FAULTS.append(Fault(does.__name__, check, does, severity, listed, what, mend, also))
        return does

    return register


ERROR, WARNING = Severity.ERROR, Severity.WARNING


def _not_ready(
    status: str, *, message: str = "Kubelet stopped posting node status.", since: str
) -> dict[str, str]:
    """The condition of a node that is not Ready."""
    return {"type": "Ready", "status": status, "message": message, "lastTransitionTime": since}


# -------------------------------------------------------------------------------- installation


@fault("crds", ERROR, "workloads.kueue.x-k8s.io", "missing, so no object", "install")
def a_definition_is_missing(broken: Broken) -> None:
    broken.drop(resources.CRDS, "workloads.kueue.x-k8s.io")


@fault("crds", ERROR, "cohorts.kueue.x-k8s.io", "does not serve it: names clash", "describe crd")
def a_definition_is_not_established(broken: Broken) -> None:
    broken.one(resources.CRDS, "cohorts.kueue.x-k8s.io")["status"] = {
        "conditions": [{"type": "NamesAccepted", "status": "False", "message": "names clash"}]
    }


@fault("crds", ERROR, "cohorts.kueue.x-k8s.io", "v1beta2 is not served", "install")
def a_definition_was_replaced_by_an_older_one(broken: Broken) -> None:
    spec = broken.one(resources.CRDS, "cohorts.kueue.x-k8s.io")["spec"]
    spec["versions"] = [{"name": "v1beta1", "served": True}]


@fault("configuration", ERROR, f"{SYSTEM}/gpu-admission-config", "cannot be read", "--config FILE")
def the_configuration_cannot_be_read(broken: Broken) -> None:
    broken.more["settings_problem"] = "config.yaml: threads: must be at least 1"


@fault("configuration", WARNING, f"{SYSTEM}/gpu-admission-config", "Paused", "admission: Active")
def admission_is_paused(broken: Broken) -> None:
    broken.more["settings"] = Settings(gpu=GpuConfiguration(admission="Paused"))


@fault("webhook-configurations", ERROR, MUTATING_NAME, "without a scheduling gate", "install")
def the_mutating_configuration_is_missing(broken: Broken) -> None:
    broken.drop(resources.MUTATING_WEBHOOKS, MUTATING_NAME)


@fault("webhook-configurations", ERROR, VALIDATING_NAME, "vpod.kb.io", "install")
def a_webhook_is_not_in_its_configuration(broken: Broken) -> None:
    found = broken.one(resources.VALIDATING_WEBHOOKS, VALIDATING_NAME)
    found["webhooks"] = [one for one in found["webhooks"] if one["name"] != "vpod.kb.io"]


@fault("webhook-configurations", WARNING, MUTATING_NAME, "pass quota while", "install")
def a_failing_webhook_lets_pods_pass(broken: Broken) -> None:
    hooks = broken.one(resources.MUTATING_WEBHOOKS, MUTATING_NAME)["webhooks"]
    next(one for one in hooks if one["name"] == "mpod.kb.io")["failurePolicy"] = "Ignore"


@fault("break-glass", ERROR, f"{SYSTEM}/{broken_glass.RECORD}", "run without quota", "glass off")
def the_glass_is_broken(broken: Broken) -> None:
    broken.more["glass"] = break_glass.Status(since="2026-03-01T11:00:00Z")


@fault(
    "break-glass",
    WARNING,
    "of the kubeconfig",
    "run outside of quota: 2 (ml/a, ml/job/b)",
    "status",
)
def an_administrator_let_pods_run(broken: Broken) -> None:
    let_run = tuple(
        Passing(kind=kind, namespace="ml", name=name, gpus={})
        for kind, name in (("Pod", "a"), ("Job", "b"))
    )
    broken.more["glass"] = break_glass.Status(let_run=let_run)


@fault(
    "break-glass",
    ERROR,
    f"{SYSTEM}/{broken_glass.RECORD}",
    "GPU pods created so, now or before: 1",
    "glass off",
)
def a_pod_is_created_while_the_glass_is_broken(broken: Broken) -> None:
    created = Passing(kind="Pod", namespace="ml", name="a", gpus={}, is_charged=False)
    broken.more["glass"] = break_glass.Status(
        since="2026-03-01T11:00:00Z", created_meanwhile=(created,)
    )


@fault(
    "break-glass",
    WARNING,
    "of the kubeconfig",
    "created while break-glass was on: 1 (ml/a)",
    "glass status",
)
def a_pod_goes_on_that_was_created_while_the_glass_was_broken(broken: Broken) -> None:
    created = Passing(kind="Pod", namespace="ml", name="a", gpus={}, is_charged=False)
    broken.more["glass"] = break_glass.Status(created_meanwhile=(created,))


@fault("break-glass", WARNING, f"{SYSTEM}/{broken_glass.TIMES}", "cannot be read", "delete conf")
def nobody_can_read_when_the_glass_was_broken(broken: Broken) -> None:
    broken.more["glass"] = break_glass.Status(broken_before=None)


@pytest.fixture
def broken() -> Broken:
    return Broken()


def _answers(text: str) -> Callable[[Broken], None]:
    def does(broken: Broken) -> None:
        broken.more["trial"] = Trial(namespace="team", refusal=REFUSED + text)

    return does


for id_, said, cause, mend in (
    ("nothing_listens", "dial tcp 10.0.0.1:443: connect: connection refused",
     "nothing listens there", "get pods,endpointslices"),
    ("no_pod_is_ready", "no endpoints available for service", "none of its pods is ready", "logs"),
    ("its_service_is_gone", 'service "gpu-admission-webhook" not found', "its Service is gone",
     "endpointslices"),
    ("it_is_slow", "context deadline exceeded", "did not answer in time", "logs"),
    ("its_chain_is_wrong", "x509: certificate signed by unknown authority",
     "does not trust its certificate", "writes a new caBundle"),
):  # fmt: skip
    FAULTS.append(
        Fault(id_, "webhook-answers", _answers(said), ERROR, (MUTATING_NAME,), cause, mend)
    )


@fault(
    "webhook-answers", ERROR, "other.example.com", "another program fails", "delete its webhook"
)
def a_webhook_of_somebody_else_fails(broken: Broken) -> None:
    text = REFUSED.replace("mpod.kb.io", "other.example.com") + "context deadline exceeded"
    broken.more["trial"] = Trial(namespace="team", refusal=text)


@fault("webhook-answers", ERROR, "team", "without a scheduling gate", "namespaceSelector")
def the_webhook_is_not_asked(broken: Broken) -> None:
    broken.more["trial"] = Trial(namespace="team", pod={"spec": {}})


@fault("webhook-trust", ERROR, MUTATING_NAME, "caBundle does not match", "a new caBundle")
def a_configuration_trusts_another_authority(broken: Broken) -> None:
    other = Broken()
    other.trust(issued(1)["ca.crt"])
    found = other.one(resources.MUTATING_WEBHOOKS, MUTATING_NAME)
    broken.objects[resources.MUTATING_WEBHOOKS] = [found]


@fault("webhook-trust", ERROR, "workloads.kueue.x-k8s.io", "v1beta1 of this kind", "new caBundle")
def a_conversion_has_no_bundle(broken: Broken) -> None:
    spec = broken.one(resources.CRDS, "workloads.kueue.x-k8s.io")["spec"]
    del spec["conversion"]["webhook"]["clientConfig"]["caBundle"]


def _holds(days_ago: float) -> Callable[[Broken], None]:
    def does(broken: Broken) -> None:
        content = issued(days_ago)
        broken.trust(content["ca.crt"])
        broken.more["secret"] = {name: content[name] for name in ("ca.crt", "tls.crt")}

    return does


SECRET = (f"{SYSTEM}/gpu-admission-webhook-tls",)
FAULTS += [
    Fault("the_certificate_ends_soon", "certificate", _holds(350), WARNING, SECRET,
          "in 15 day(s), and was not renewed", "describe certificate"),
    Fault("the_certificate_has_expired", "certificate", _holds(370), ERROR, SECRET,
          "no GPU pod can be created", "install"),
]  # fmt: skip


@fault("certificate", ERROR, SECRET, "holds no certificate", "install")
def there_is_no_certificate(broken: Broken) -> None:
    broken.more["secret"] = {}


@fault("certificate", ERROR, SECRET, "is not a certificate", "delete the Secret")
def the_certificate_cannot_be_read(broken: Broken) -> None:
    broken.more["secret"] = {"tls.crt": b"nonsense"}


@fault(
    "processes", WARNING, (f"{SYSTEM}/{manifests.WEBHOOK}", f"{SYSTEM}/{manifests.CONTROLLER}"),
    "asks the webhook at https://10.0.0.1:9443, outside", "without --webhook-url",
)  # fmt: skip
def a_webhook_outside_leaves_deployments_unused(broken: Broken) -> None:
    for resource, name in pictures.OURS:
        for hook in broken.one(resource, name)["webhooks"]:
            hook["clientConfig"] = {"url": "https://10.0.0.1:9443/mutate", "caBundle": ""}


@fault("processes", ERROR, f"{SYSTEM}/gpu-admission-webhook", "missing", "install")
def a_deployment_is_missing(broken: Broken) -> None:
    broken.drop(resources.DEPLOYMENTS, manifests.WEBHOOK)


@fault("processes", ERROR, f"{SYSTEM}/gpu-admission-webhook", "ImagePullBackOff: no such image",
       "describe pods")  # fmt: skip
def no_pod_of_ours_is_ready(broken: Broken) -> None:
    broken.one(resources.DEPLOYMENTS, manifests.WEBHOOK)["status"] = {}
    pod = broken.add(pictures.OWN_PODS, "w-1", SYSTEM)
    pod["metadata"]["labels"] = {"app.kubernetes.io/component": "webhook"}
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    pod["status"] = {"containerStatuses": [{"state": {"waiting": waiting}}]}


@fault("processes", WARNING, f"{SYSTEM}/gpu-admission-controller", "1 of 2 pods", "describe pods")
def one_replica_is_not_ready(broken: Broken) -> None:
    broken.one(resources.DEPLOYMENTS, manifests.CONTROLLER)["status"] = {"readyReplicas": 1}


@fault("processes", WARNING, f"{SYSTEM}/gpu-admission-controller", "its rollout is stuck: 1 of 2 "
       "pods are of the new version, and pods of the old one still serve: c-2: 0 of 1 containers "
       "ready, restarts 4; (ended before with exit code 1)", "rollout undo")  # fmt: skip
def a_new_pod_restarts_beside_the_old_ones(broken: Broken) -> None:
    status = broken.one(resources.DEPLOYMENTS, manifests.CONTROLLER)["status"]
    status.update(updatedReplicas=1, unavailableReplicas=1)
    pod = broken.add(pictures.OWN_PODS, "c-2", SYSTEM)
    pod["metadata"]["labels"] = {"app.kubernetes.io/component": "controller"}
    container = {
        "ready": False,
        "restartCount": 4,
        "state": {"running": {}},
        "lastState": {"terminated": {"exitCode": 1}},
    }
    pod["status"] = {"containerStatuses": [container]}


@fault("processes", WARNING, f"{SYSTEM}/gpu-admission-webhook", "old one still serve: ReplicaSet "
       "has timed out progressing", "logs -l")  # fmt: skip
def a_rollout_has_timed_out(broken: Broken) -> None:
    broken.one(resources.DEPLOYMENTS, manifests.WEBHOOK)["status"]["conditions"] = [
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
         "message": "ReplicaSet has timed out progressing"}
    ]  # fmt: skip


@fault("processes", WARNING, f"{SYSTEM}/gpu-admission-webhook", "different images", "--image")
def versions_differ(broken: Broken) -> None:
    spec = broken.one(resources.DEPLOYMENTS, manifests.CONTROLLER)["spec"]["template"]["spec"]
    spec["containers"][0]["image"] = "gpu-admission:0.0.9"


@fault("leader", ERROR, f"{SYSTEM}/gpu-admission", "last renewed it 600 s ago", "logs deploy/")
def the_leader_is_gone(broken: Broken) -> None:
    broken.one(resources.LEASES)["spec"]["renewTime"] = at(600)


@fault("leader", ERROR, f"{SYSTEM}/gpu-admission", "no controller leads", "logs deploy/")
def nobody_has_ever_led(broken: Broken) -> None:
    broken.objects[resources.LEASES] = []


@fault("leader", ERROR, "new", "no controller has processed them", "logs deploy/")
def a_queue_is_not_looked_at(broken: Broken) -> None:
    queue = make_cluster_queue("new", quota=0)
    queue["metadata"]["creationTimestamp"] = at(600)
    broken.objects[resources.CLUSTER_QUEUES].append(queue)


@fault("rights", ERROR, "gpu-admission-controller", "lack its rights", "install")
def a_role_is_missing(broken: Broken) -> None:
    broken.drop(resources.CLUSTER_ROLES, "gpu-admission-controller")


@fault("rights", ERROR, "gpu-admission-controller", "patch pods/status", "install")
def a_role_lacks_a_rule(broken: Broken) -> None:
    role = broken.one(resources.CLUSTER_ROLES, "gpu-admission-controller")
    role["rules"] = [one for one in role["rules"] if one["resources"] != ["pods/status"]]


@fault("rights", ERROR, "gpu-admission-webhook", "service account", "install")
def a_binding_names_somebody_else(broken: Broken) -> None:
    binding = broken.one(resources.CLUSTER_ROLE_BINDINGS, "gpu-admission-webhook")
    binding["subjects"][0]["namespace"] = "elsewhere"


@fault("policies", WARNING, "gpu-admission-protect-pods", "counted by", "install")
def a_policy_is_missing(broken: Broken) -> None:
    broken.drop(resources.VALIDATING_POLICIES, "gpu-admission-protect-pods")


def _hold_while_down(broken: Broken) -> None:
    """Make it an installation that holds pods while its webhook is down."""
    gpu = GpuConfiguration(while_webhook_down="Hold")
    broken.more["settings"] = settings = Settings(gpu=gpu)
    for document in manifests.webhook_configurations({"url": ""}, settings):
        resource = resources.of_kind(document["apiVersion"], document["kind"])
        assert resource is not None
        hooks = broken.one(resource, document["metadata"]["name"])["webhooks"]
        hooks[:] = [
            {**hook, "clientConfig": hooks[0]["clientConfig"]} for hook in document["webhooks"]
        ]


@fault("policies", WARNING, "gpu-admission-hold-pods", "pass quota while", "install")
def what_holds_pods_while_the_webhook_is_down_is_missing(broken: Broken) -> None:
    _hold_while_down(broken)
    bindings = resources.MUTATING_POLICY_BINDINGS
    for name in (holding.PODS_POLICY, holding.JOBS_POLICY):
        broken.add(bindings, name)


@fault("webhook-answers", ERROR, MUTATING_NAME, "the API server holds", "break-glass.md")
def the_api_server_holds_pods_as_the_webhook_does_not_answer(broken: Broken) -> None:
    pod = make_pod(gates=(names.ADMISSION_GATE,), annotations={names.UNREVIEWED: "gate"})
    broken.more["trial"] = Trial(namespace="team", pod=pod)


@fault("visibility", ERROR, "v1beta2.visibility.kueue.x-k8s.io", "no namespace", "--no-visibility")
def the_visibility_server_is_not_reached(broken: Broken) -> None:
    broken.add(
        resources.API_SERVICES, "v1beta2.visibility.kueue.x-k8s.io",
        status={"conditions": [{"type": "Available", "status": "False", "message": "no answer"}]},
    )  # fmt: skip


@fault("other-quota-systems", ERROR, "kueue-mutating-webhook-configuration", "granted twice",
       "coming-from.md")  # fmt: skip
def kueue_is_there(broken: Broken) -> None:
    broken.add(
        resources.MUTATING_WEBHOOKS, "kueue-mutating-webhook-configuration",
        webhooks=[{"rules": [{"apiGroups": ["kueue.x-k8s.io"]}]}],
    )  # fmt: skip


@fault("other-quota-systems", WARNING, "hami-webhook", "HAMi", "excludedNamespaces")
def hami_is_there(broken: Broken) -> None:
    broken.add(resources.MUTATING_WEBHOOKS, "hami-webhook", webhooks=[])


@fault("other-quota-systems", WARNING, "team", "limit GPUs in addition", "let only one of the two")
def another_quota_is_there(broken: Broken) -> None:
    broken.add(pictures.QUOTA_SYSTEMS[0], "team")


@fault("other-quota-systems", WARNING, "gpus", "Volcano", "spec.capability")
def volcano_limits_gpus(broken: Broken) -> None:
    spec = {"capability": {"nvidia.com/gpu": "8"}}
    broken.add(resources.VOLCANO_QUEUES, "gpus", spec=spec)


# --------------------------------------------------------------------------------------- queues


@fault("queue-flavors", ERROR, "research", "until ResourceFlavor a100 exists",
       "create it with spec.nodeLabels of its nodes",
       also=("node-flavors",))  # fmt: skip
def a_flavor_is_missing(broken: Broken) -> None:
    broken.objects[resources.RESOURCE_FLAVORS] = []


@fault("queue-flavors", ERROR, "research", "until ResourceFlavor a10 exists",
       "did you mean a100? If so, correct it: kubectl edit clusterqueue research",
       also=("node-flavors",))  # fmt: skip
def a_flavor_is_misspelled(broken: Broken) -> None:
    (group,) = broken.one(resources.CLUSTER_QUEUES)["spec"]["resourceGroups"]
    group["flavors"][0]["name"] = "a10"


@fault("queue-flavors", WARNING, "pool", "for nobody until ResourceFlavor a10 exists",
       "did you mean a100? If so, correct it: kubectl edit cohort pool")  # fmt: skip
def a_flavor_of_a_cohort_is_misspelled(broken: Broken) -> None:
    groups = make_cluster_queue(flavors=("a10",))["spec"]["resourceGroups"]
    broken.objects[resources.COHORTS] = [make_cohort("pool", resourceGroups=groups)]


@fault("quota-capacity", WARNING, "a10", "it has no nodeLabels, so it selects all nodes, those of "
       "a100 too", "kubectl edit resourceflavor a10")  # fmt: skip
def a_misspelled_flavor_is_created_without_node_labels(broken: Broken) -> None:
    a_flavor_is_misspelled(broken)
    flavor = make_flavor("a10", product=PRODUCT)
    flavor["spec"]["nodeLabels"] = {}
    broken.objects[resources.RESOURCE_FLAVORS].append(flavor)


@fault("queue-admits", WARNING, "research", "stopPolicy is Hold", "kubectl patch clusterqueue")
def a_cluster_queue_is_held(broken: Broken) -> None:
    broken.one(resources.CLUSTER_QUEUES)["spec"]["stopPolicy"] = "Hold"


@fault("queue-admits", WARNING, "research", "admits nothing: spec.namespaceSelector is not set",
       "set it: kubectl edit clusterqueue research")  # fmt: skip
def a_cluster_queue_selects_no_namespace(broken: Broken) -> None:
    del broken.one(resources.CLUSTER_QUEUES)["spec"]["namespaceSelector"]


@fault("queue-admits", WARNING, "team/default", "stopPolicy is Hold", "kubectl patch localqueue")
def a_local_queue_is_held(broken: Broken) -> None:
    broken.one(resources.LOCAL_QUEUES)["spec"]["stopPolicy"] = "Hold"


@fault("queue-admits", ERROR, "research", "it admits nothing: it references inactive",
       "kubectl describe admissionchecks")  # fmt: skip
def a_cluster_queue_is_inactive(broken: Broken) -> None:
    condition = broken.one(resources.CLUSTER_QUEUES)["status"]["conditions"][0]
    said = kueue.blocker(ChecksInactive(("budget",)))
    condition |= {"status": "False", "reason": said.reason, "message": said.message}


@fault("quota-without-node", WARNING, "research", "4 nvidia.com/gpu in flavor a100 are held by "
       "pods of ClusterQueue research that are on no node; ", "kubectl gpu who")  # fmt: skip
def pods_of_a_queue_have_no_node(broken: Broken) -> None:
    held = {"name": "nvidia.com/gpu", "total": "4", "since": at(600)}
    listed = [{"name": "a100", "resources": [held]}]
    broken.one(resources.CLUSTER_QUEUES)["status"]["withoutNode"] = listed


def _reserve(queue: dict[str, Any], gpus: int) -> None:
    held = {"name": "nvidia.com/gpu", "total": str(gpus), "borrowed": "0"}
    listed = [{"name": "a100", "resources": [held]}]
    queue.setdefault("status", {})["flavorsReservation"] = listed


@fault("quota-reserved", WARNING, "gpus", "its queues have reserved 17 nvidia.com/gpu of flavor "
       "a100, and the nominal quota is 16; above their own: vision",
       "kubectl gpu who vision")  # fmt: skip
def queues_of_a_cohort_have_reserved_more_than_there_is(broken: Broken) -> None:
    research = broken.one(resources.CLUSTER_QUEUES)
    vision = make_cluster_queue("vision", quota=4, cohortName="ours")
    group = research["spec"]["resourceGroups"][0]["flavors"][0]
    group["resources"][0]["nominalQuota"] = 10
    research["spec"]["cohortName"] = "ours"
    _reserve(research, 10)
    _reserve(vision, 7)
    broken.objects[resources.CLUSTER_QUEUES].append(vision)
    lent = make_cluster_queue(quota=2)["spec"]["resourceGroups"]
    broken.objects[resources.COHORTS] = [
        make_cohort("ours", parentName="gpus"), make_cohort("gpus", resourceGroups=lent)
    ]  # fmt: skip


@fault("quota-reserved", WARNING, "research", "it has reserved 17 nvidia.com/gpu of flavor a100, "
       "and the nominal quota is 16", "kubectl gpu who research")  # fmt: skip
def a_queue_without_cohort_has_reserved_more_than_its_quota(broken: Broken) -> None:
    _reserve(broken.one(resources.CLUSTER_QUEUES), 17)


@fault("queue-idle", WARNING, "research", "1 Workload(s) wait, and none has quota; team/train has "
       "waited longest: ", "ask for less, or have the quota raised")  # fmt: skip
def nothing_of_a_queue_goes(broken: Broken) -> None:
    waiting = make_workload("train", namespace="team", queue="default")
    waiting["metadata"]["creationTimestamp"] = at(3600)
    message = (
        "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor "
        "a100, previously considered podsets requests (0) + current podset request (32) > maximum "
        "capacity (16)"
    )
    waiting["status"] = {
        "conditions": [
            {"type": "QuotaReserved", "status": "False", "reason": "ExceedsMaxQuota",
             "message": message},
        ]
    }  # fmt: skip
    broken.workloads.append(waiting)


@fault("queue-flavors", WARNING, "a100", "it is being deleted, and ClusterQueue research names it",
       "remove it from spec.resourceGroups of research")  # fmt: skip
def a_flavor_in_use_is_being_deleted(broken: Broken) -> None:
    _ends(resources.RESOURCE_FLAVORS, names.RESOURCE_IN_USE)(broken)


@fault(
    "flavor-resources", ERROR, "research", "misspelled: a GPU is nvidia.com/gpu", "kubectl edit"
)
def a_queue_has_quota_of_a_misspelled_gpu(broken: Broken) -> None:
    (group,) = broken.one(resources.CLUSTER_QUEUES)["spec"]["resourceGroups"]
    group["coveredResources"].append("nvidia.com/gpus")
    group["flavors"][0]["resources"].append({"name": "nvidia.com/gpus", "nominalQuota": "8"})


@fault(
    "flavor-resources", WARNING, "research", "did you mean nvidia.com/gpu?", "edit clusterqueue"
)
def a_queue_has_quota_of_a_resource_that_resembles_a_gpu(broken: Broken) -> None:
    (group,) = broken.one(resources.CLUSTER_QUEUES)["spec"]["resourceGroups"]
    group["coveredResources"].append("nvidia.com/gqu")
    group["flavors"][0]["resources"].append({"name": "nvidia.com/gqu", "nominalQuota": "8"})


@fault("cohort-names", WARNING, "other", "did you mean research?", "correct spec.cohortName")
def a_queue_names_a_cohort_that_resembles_another(broken: Broken) -> None:
    broken.objects[resources.COHORTS] = [make_cohort("research")]
    queue = make_cluster_queue("other", quota=0, cohortName="reserch")
    broken.objects[resources.CLUSTER_QUEUES].append(queue)


@fault(
    "queue-annotations", WARNING, "team/default", "cap max-per-user does not limit gpu",
    "name one of nvidia.com/gpu",
)  # fmt: skip
def a_cap_limits_a_resource_that_the_queue_has_no_quota_of(broken: Broken) -> None:
    metadata = broken.one(resources.LOCAL_QUEUES)["metadata"]
    metadata["annotations"] = {names.MAX_PER_USER: "gpu=6"}


@fault(
    "queue-annotations", WARNING, "research", "capacity-gard has no effect on a ClusterQueue",
    f"did you mean {names.CAPACITY_GUARD}?",
)  # fmt: skip
def an_annotation_of_a_queue_is_misspelled(broken: Broken) -> None:
    metadata = broken.one(resources.CLUSTER_QUEUES)["metadata"]
    metadata["annotations"] = {f"{names.OWN_DOMAIN}/capacity-gard": "Enforce"}


@fault("local-queues", ERROR, "team/lost", "until ClusterQueue gone exists", "create the Cluster")
def a_local_queue_leads_nowhere(broken: Broken) -> None:
    broken.objects[resources.LOCAL_QUEUES].append(make_local_queue("lost", "gone", "team"))


@fault("local-queues", ERROR, "team/default", "does not select the namespace",
       "kubectl label namespace team team=yes")  # fmt: skip
def a_cluster_queue_does_not_take_the_namespace(broken: Broken) -> None:
    spec = broken.one(resources.CLUSTER_QUEUES)["spec"]
    spec["namespaceSelector"] = {"matchLabels": {"team": "yes"}}


# --------------------------------------------------------------------------------------- devices


@fault("quota-capacity", WARNING, "a100", "promise 40 nvidia.com/gpu of it, its nodes have 16",
       "lower the nominalQuota in research")  # fmt: skip
def quota_exceeds_what_exists(broken: Broken) -> None:
    broken.objects[resources.CLUSTER_QUEUES] = [
        {**make_cluster_queue("research", quota=40), "status": {"conditions": [
            {"type": "Active", "status": "True", "reason": "Ready", "message": ""}]}}
    ]  # fmt: skip


def _guard(broken: Broken, **exist: int) -> None:
    """The guard is in force; the controller says of queues how much of their quota exists."""
    for queue in broken.objects[resources.CLUSTER_QUEUES]:
        metadata = queue["metadata"]
        metadata["annotations"] = {names.CAPACITY_GUARD: names.CAPACITY_GUARD_ENFORCE}
        count = exist.get(metadata["name"])
        sentence = added_conditions.shortage(
            names.GPU_RESOURCE, "a100", promised="100", exist=str(count), healthy=str(count),
            kept="", sick="", outside="", other_holders="",
        )  # fmt: skip
        text = (
            added_conditions.capacity_sufficient(())
            if count is None
            else added_conditions.quota_exceeds_capacity([sentence], ())
        )
        status = "True" if count is None else "False"
        stated = make_condition(conditions.CAPACITY_SUFFICIENT, status, text.reason, text.message)
        queue.setdefault("status", {}).setdefault("conditions", []).append(stated)


@fault("quota-capacity", WARNING, "research", "the capacity guard holds the nominal quota of "
       "nvidia.com/gpu in flavor a100 to what exists: research 16 of 40; its nodes have 16; 24 "
       "more are on no node: nodes are gone", "kubectl edit clusterqueue research")  # fmt: skip
def quota_is_held_to_what_exists(broken: Broken) -> None:
    quota_exceeds_what_exists(broken)
    _guard(broken, research=16)


@fault("quota-capacity", WARNING, "research", "to what exists: research ? of 40; its nodes have",
       "kubectl edit clusterqueue research")  # fmt: skip
def quota_is_held_and_the_controller_has_not_said_to_what(broken: Broken) -> None:
    quota_exceeds_what_exists(broken)
    annotations = {names.CAPACITY_GUARD: names.CAPACITY_GUARD_ENFORCE}
    broken.one(resources.CLUSTER_QUEUES)["metadata"]["annotations"] = annotations


@fault("quota-capacity", WARNING, "research", "research 8 of 16; its nodes have 8; 8 more cannot "
       "be used: 8 on gpu-0 (cordoned)", "kubectl uncordon NODE")  # fmt: skip
def quota_is_held_because_of_a_cordon(broken: Broken) -> None:
    _cordon(broken.nodes[0])
    _guard(broken, research=8)


@fault("quota-capacity", WARNING, "research", "research 14 of 16; its nodes have 14; 2 more "
       "cannot be used: 2 on gpu-0 (the device plugin offers fewer than the node has)",
       "repair or add nodes: the quota counts again by itself", also=("gpu-health",))  # fmt: skip
def quota_is_held_because_of_sick_gpus(broken: Broken) -> None:
    the_device_plugin_has_taken_gpus_off(broken)
    _guard(broken, research=14)


def test_all_queues_that_are_held_below_their_quota_are_named_with_what_the_guard_says() -> None:
    broken = Broken()
    broken.objects[resources.CLUSTER_QUEUES] = [
        make_cluster_queue(name, quota=quota) for name, quota in (("a", 6), ("b", 6), ("c", 4))
    ]
    _guard(broken, b=5, c=1)
    _cordon(broken.nodes[1])
    (finding,) = devices.quota(broken.picture())
    assert (finding.kind, finding.names) == ("ClusterQueue", ("b", "c"))
    assert "to what exists: b 5 of 6, c 1 of 4; its nodes have 8" in finding.what


def test_quota_is_not_held_where_running_pods_keep_what_is_cordoned() -> None:
    broken = Broken()
    _cordon(broken.nodes[1])
    _guard(broken)
    assert not list(devices.quota(broken.picture()))


@fault("node-flavors", WARNING, "a100", "6 nvidia.com/gpu are in no queue's quota, so no queue "
       "gives them out: its nodes have 16, queues promise 10",
       "gpu-admission init --team")  # fmt: skip
def a_team_was_removed(broken: Broken) -> None:
    broken.one(resources.CLUSTER_QUEUES)["spec"] = make_cluster_queue(quota=10)["spec"]


@fault("node-flavors", WARNING, ("gpu-0", "gpu-1"), "no queue has quota for their GPUs (16 nvidia",
       "gpu-admission init")  # fmt: skip
def the_only_team_with_quota_of_a_flavor_was_removed(broken: Broken) -> None:
    broken.one(resources.CLUSTER_QUEUES)["spec"] = make_cluster_queue(quota=0)["spec"]


def test_gpus_that_a_cohort_lends_to_all_are_in_quota() -> None:
    broken = Broken()
    a_team_was_removed(broken)
    groups = make_cluster_queue(quota=6)["spec"]["resourceGroups"]
    broken.objects[resources.COHORTS] = [make_cohort("gpus", resourceGroups=groups)]
    assert not list(devices.nodes_without_flavor(broken.picture()))


@pytest.mark.parametrize("resource", [names.GPU_MEMORY, names.GPU_SLICES])
def test_gpus_that_are_promised_as_memory_or_slices_are_in_quota(resource: str) -> None:
    broken = Broken()
    a_team_was_removed(broken)
    memory = make_cluster_queue("parts", quotas={"a100": {resource: "40"}})
    broken.objects[resources.CLUSTER_QUEUES].append(memory)
    assert not list(devices.nodes_without_flavor(broken.picture()))


def test_surge_quota_is_quota() -> None:
    broken = Broken()
    a_team_was_removed(broken)
    metadata = broken.one(resources.CLUSTER_QUEUES)["metadata"]
    metadata["annotations"] = {names.SURGE_QUOTA: f"a100/{names.GPU_RESOURCE}=4"}
    (finding,) = devices.nodes_without_flavor(broken.picture())
    assert finding.what.startswith("2 nvidia.com/gpu are in no queue's quota")
    assert "queues promise 14" in finding.what
    metadata["annotations"] = {names.SURGE_QUOTA: f"a100/{names.GPU_RESOURCE}=6"}
    assert not list(devices.nodes_without_flavor(broken.picture()))


@fault("quota-capacity", WARNING, "a100", "it selects nodes that everything selects too: queues "
       "promise 24 nvidia.com/gpu of these flavors together, their nodes have 16",
       "have each node selected by one flavor")  # fmt: skip
def two_flavors_select_the_same_nodes(broken: Broken) -> None:
    flavors = broken.objects[resources.RESOURCE_FLAVORS]
    everything = copy.deepcopy(flavors[0])
    everything["metadata"]["name"] = "everything"
    flavors.append(everything)
    quotas = {one: {names.GPU_RESOURCE: 12} for one in ("a100", "everything")}
    broken.objects[resources.CLUSTER_QUEUES] = [
        {**make_cluster_queue("research", quotas=quotas), "status": {"conditions": [
            {"type": "Active", "status": "True", "reason": "Ready", "message": ""}]}}
    ]  # fmt: skip


@fault("quota-capacity", WARNING, "a100", "it selects nodes that everything selects too: a pod of "
       "one flavor takes what the quota of the other promises",
       "have each node selected by one flavor")  # fmt: skip
def two_flavors_select_the_same_nodes_which_have_enough(broken: Broken) -> None:
    two_flavors_select_the_same_nodes(broken)
    quotas = {one: {names.GPU_RESOURCE: 8} for one in ("a100", "everything")}
    (queue,) = broken.objects[resources.CLUSTER_QUEUES]
    queue["spec"] = make_cluster_queue("research", quotas=quotas)["spec"]


@fault("quota-capacity", WARNING, "a100", "8 more cannot be used: 8 on gpu-0 (pods do not "
       "tolerate the taint karpenter.sh/disrupted:NoSchedule)", "add nodes")  # fmt: skip
def a_node_is_about_to_be_removed(broken: Broken) -> None:
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    broken.nodes[0]["spec"]["taints"] = [taint]


def _cordon(node: dict[str, Any]) -> None:
    """As Kubernetes does it: the taint follows the field."""
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    node["spec"] |= {"unschedulable": True, "taints": [taint]}


@fault("quota-capacity", WARNING, "a100", "its nodes have 8; 8 more cannot be used: 8 on gpu-0 "
       "(cordoned)", "whose maintenance is over (kubectl uncordon NODE)")  # fmt: skip
def a_node_is_cordoned(broken: Broken) -> None:
    _cordon(broken.nodes[0])


@fault("quota-capacity", WARNING, "a100", "its nodes have 0; 16 more cannot be used: 16 on gpu-0, "
       "gpu-1 (cordoned)", "kubectl uncordon")  # fmt: skip
def all_nodes_are_cordoned(broken: Broken) -> None:
    for node in broken.nodes:
        _cordon(node)


@fault("flavor-resources", ERROR, "a100", "offer nvidia.com/gpu.shared only", "resourceGroups")
def the_plugin_renames_shared_gpus(broken: Broken) -> None:
    for node in broken.nodes:
        for part in ("capacity", "allocatable"):
            node["status"][part] = {"nvidia.com/gpu.shared": "8"}


@fault("flavor-resources", ERROR, "a100", "offer no GPU at all", "device plugin")
def the_device_plugin_does_not_run(broken: Broken) -> None:
    for node in broken.nodes:
        for part in ("capacity", "allocatable"):
            node["status"][part] = {"cpu": "8"}


@fault("nodes-ready", WARNING, "gpu-1", "Kubelet stopped posting node status",
       "kubectl describe node gpu-1", also=("quota-capacity",))  # fmt: skip
def a_node_does_not_answer(broken: Broken) -> None:
    broken.nodes[1]["status"]["conditions"] = [_not_ready("Unknown", since=at(600))]


@fault("nodes-ready", WARNING, ("gpu-0", "gpu-1"), "no runtime", "kubectl describe node gpu-0",
       also=("quota-capacity",))  # fmt: skip
def nodes_are_not_ready(broken: Broken) -> None:
    for node in broken.nodes:
        node["status"]["conditions"] = [_not_ready("False", message="no runtime", since=at(600))]


@fault("gpu-health", WARNING, "gpu-1", "8 nvidia.com/gpu cannot be used: ",
       "kubectl describe node gpu-1", also=("quota-capacity",))  # fmt: skip
def the_gpus_of_a_node_are_sick(broken: Broken) -> None:
    broken.nodes[1]["status"]["conditions"].append(
        {"type": "XIDErrors", "status": "True", "reason": "Xid79"}
    )


@fault("gpu-health", WARNING, "gpu-0", "2 nvidia.com/gpu cannot be used: the device plugin offers",
       "kubectl cordon gpu-0", also=("quota-capacity",))  # fmt: skip
def the_device_plugin_has_taken_gpus_off(broken: Broken) -> None:
    status = broken.nodes[0]["status"]
    status["allocatable"] = {**status["allocatable"], "nvidia.com/gpu": "6"}


@fault("gpu-health", WARNING, "gpu-0", "cannot be used: label gpu-health=unhealthy",
       "kubectl describe node gpu-0", also=("quota-capacity",))  # fmt: skip
def a_label_says_that_the_gpus_of_a_node_are_sick(broken: Broken) -> None:
    broken.nodes[0]["metadata"]["labels"]["gpu-health"] = "unhealthy"


@fault("quota-capacity", WARNING, "a100", "8 on gpu-0 (cordoned)", "add nodes")
def a_sick_node_is_named_where_quota_lacks(broken: Broken) -> None:
    broken.nodes[0]["spec"]["unschedulable"] = True


@fault("product-labels", WARNING, "gpu-2", "no label nvidia.com/gpu.product",
       "kubectl label node gpu-2 nvidia.com/gpu.product=PRODUCT",
       also=("node-flavors",))  # fmt: skip
def a_node_does_not_say_its_product(broken: Broken) -> None:
    node = broken.make_node("gpu-2")
    del node["metadata"]["labels"][names.GPU_PRODUCT_LABEL]
    broken.nodes.append(node)


@fault("gpu-classes", WARNING, "cpu-0", "they offer amd.com/gpu, which is not counted",
       "add amd.com/gpu to managedResources")  # fmt: skip
def gpus_of_another_vendor_are_not_managed(broken: Broken) -> None:
    node = broken.make_node("cpu-0")
    for part in ("capacity", "allocatable"):
        node["status"][part] = {"cpu": "8", "amd.com/gpu": "8"}
    broken.nodes.append(node)


@fault("gpu-classes", WARNING, "gpu.example.com", "it may hand out GPUs", "deviceClassMappings")
def a_class_of_gpus_is_not_counted(broken: Broken) -> None:
    expression = "device.driver == 'gpu.example.com'"
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    broken.add(resources.DEVICE_CLASSES, "gpu.example.com", spec=spec)


@fault("gpu-classes", WARNING, "everything", "it may hand out GPUs", "deviceClassMappings")
def a_class_without_selectors_hands_out_every_device(broken: Broken) -> None:
    broken.add(resources.DEVICE_CLASSES, "everything", spec={})


@fault("flavor-nodes", WARNING, "h100", "no node has its nodeLabels", "kubectl get nodes -L")
def a_flavor_selects_no_node(broken: Broken) -> None:
    flavor = make_flavor("h100", product="NVIDIA-H100-80GB-HBM3")
    broken.objects[resources.RESOURCE_FLAVORS].append(flavor)


@fault("node-flavors", WARNING, "t4-0", "no queue has quota for their GPUs (8 nvidia.com/gpu)",
       "{nvidia.com/gpu.product: Tesla-T4}")  # fmt: skip
def no_flavor_selects_a_node(broken: Broken) -> None:
    broken.nodes.append(broken.make_node("t4-0", product="Tesla-T4"))


@fault("flavor-taints", WARNING, "a100", "workload=training:NoSchedule", "spec.tolerations",
       also=("quota-capacity",))  # fmt: skip
def nodes_have_a_taint_that_nobody_tolerates(broken: Broken) -> None:
    taint = {"key": "workload", "value": "training", "effect": "NoSchedule"}
    broken.nodes[1]["spec"]["taints"] = [taint]


@fault("flavor-taints", WARNING, "any-node", "1 of its nodes (gpu-1) have the taint team=",
       "then all pods of ClusterQueue research, vision that get it may start on these nodes, "
       "unless another flavor or a selector keeps them on others. If the nodes are for some teams "
       "only, this flavor opens them to all of these queues")  # fmt: skip
def a_flavor_of_all_teams_does_not_tolerate_the_taint_of_a_node_of_one(broken: Broken) -> None:
    taint = {"key": "team", "value": "research", "effect": "NoSchedule"}
    broken.nodes[1]["spec"]["taints"] = [taint]
    (gpus,) = broken.objects[resources.RESOURCE_FLAVORS]
    gpus["spec"]["tolerations"].append({"key": "team", "operator": "Exists"})
    any_node = make_flavor("any-node")
    any_node["spec"] = {}
    broken.objects[resources.RESOURCE_FLAVORS].append(any_node)
    research = broken.one(resources.CLUSTER_QUEUES)
    group = make_cluster_queue(quotas={"any-node": {"cpu": "8"}})["spec"]["resourceGroups"]
    research["spec"]["resourceGroups"] += group
    vision = make_cluster_queue("vision", quota=0)
    vision["spec"]["resourceGroups"] += group
    vision["status"] = research["status"]
    broken.objects[resources.CLUSTER_QUEUES].append(vision)


def test_node_taints_are_proposed_only_where_all_nodes_of_the_flavor_have_the_taint() -> None:
    broken = Broken()
    nodes_have_a_taint_that_nobody_tolerates(broken)
    (of_one,) = devices.taints(broken.picture())
    assert "nodeTaints" not in of_one.mend
    broken.nodes[0]["spec"]["taints"] = broken.nodes[1]["spec"]["taints"]
    (of_all,) = devices.taints(broken.picture())
    assert "Or add the taint to spec.nodeTaints, so that only pods that tolerate it" in of_all.mend


BLOCK, RACK = "topology.kubernetes.io/block", "topology.kubernetes.io/rack"


def topology(broken: Broken, *levels: str, nodes: tuple[tuple[str, ...], ...]) -> None:
    """Give the flavor a Topology, and the nodes, of which there are as many, these values."""
    broken.add(
        resources.TOPOLOGIES, "racks", spec={"levels": [{"nodeLabel": level} for level in levels]}
    )
    broken.one(resources.RESOURCE_FLAVORS)["spec"]["topologyName"] = "racks"
    broken.nodes[:] = [broken.make_node(f"gpu-{number}") for number in range(len(nodes))]
    for node, values in zip(broken.nodes, nodes, strict=True):
        labels = {level: v for level, v in zip(levels, values, strict=True) if v}
        node["metadata"]["labels"] |= labels


@fault("topology-levels", WARNING, "racks",
       f"1 of 3 nodes of its flavors have no label {RACK} (gpu-2)",
       f"kubectl label node gpu-2 {RACK}=", also=("node-flavors",))  # fmt: skip
def a_node_has_no_rack(broken: Broken) -> None:
    topology(broken, RACK, nodes=(("r0",), ("r0",), ("",)))


@fault("topology-levels", ERROR, "racks", f"no node of its flavors has the label {RACK}",
       f"kubectl label node gpu-0 {RACK}=")  # fmt: skip
def no_node_has_a_rack(broken: Broken) -> None:
    topology(broken, RACK, nodes=(("",), ("",)))


@fault("topology-levels", WARNING, "racks", f"level {RACK} stands above {BLOCK}", "comes first")
def levels_are_in_the_wrong_order(broken: Broken) -> None:
    nodes = tuple((f"r{number}", f"b{number // 2}") for number in (0, 0, 1, 1, 2, 2, 3, 3))
    topology(broken, RACK, BLOCK, nodes=nodes)
    for queue in broken.objects[resources.CLUSTER_QUEUES]:
        queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "64"


@fault("topology-levels", WARNING, "racks", f"each of the 2 domains of level {RACK} has one node",
       "kubernetes.io/hostname")  # fmt: skip
def each_rack_has_one_node(broken: Broken) -> None:
    topology(broken, RACK, nodes=(("r0",), ("r1",)))


@fault("topology-levels", WARNING, "a100", f"spare-nodes names {BLOCK}, which is no level",
       "LEVEL=COUNT", also=("node-flavors",))  # fmt: skip
def spare_nodes_of_a_level_that_is_none(broken: Broken) -> None:
    racks = tuple((rack, f"h{number}") for number, rack in enumerate(("r0", "r0", "r1", "r1")))
    topology(broken, RACK, "kubernetes.io/hostname", nodes=racks)
    _annotated(names.SPARE_NODES, f"{BLOCK}=1")(broken)


@fault("topology-levels", WARNING, "a100", "keeps no node: it has no Topology", "remove it")
def spare_nodes_without_a_topology(broken: Broken) -> None:
    _annotated(names.SPARE_NODES, f"{RACK}=1")(broken)


@fault("topology-assignments", WARNING, "team/train", "no node is in b0/r9", "labels back")
def a_workload_is_assigned_a_rack_that_is_gone(broken: Broken) -> None:
    topology(broken, BLOCK, RACK, nodes=(("b0", "r0"), ("b0", "r0")))
    admission = make_admission("research", "a100", 2)
    admission["podSetAssignments"][0]["topologyAssignment"] = {
        "levels": [BLOCK, RACK],
        "slices": [
            {
                "domainCount": 1, "podCounts": {"universal": 2},
                "valuesPerLevel": [{"universal": "b0"}, {"universal": "r9"}],
            }
        ],
    }  # fmt: skip
    status = {"conditions": [make_condition("Admitted")], "admission": admission}
    broken.workloads.append(make_workload("train", namespace="team", status=status))


def _annotated(key: str, value: str) -> Callable[[Broken], None]:
    def does(broken: Broken) -> None:
        broken.one(resources.RESOURCE_FLAVORS)["metadata"]["annotations"] = {key: value}

    return does


FAULTS.append(
    Fault("a_flavor_says_another_product", "flavor-annotations",
          _annotated(names.FLAVOR_PRODUCT, "T4"), ERROR, ("a100",), "says T4", "kubectl edit")
)  # fmt: skip


def _share(broken: Broken, replicas: int) -> None:
    """The nodes share each GPU by time-slicing."""
    for node in broken.nodes:
        node["metadata"]["labels"] |= {
            "nvidia.com/gpu.replicas": str(replicas),
            "nvidia.com/gpu.sharing-strategy": "time-slicing",
            "nvidia.com/gpu.count": "8",
        }
        for part in ("capacity", "allocatable"):
            node["status"][part] = {"nvidia.com/gpu": str(8 * replicas)}


@fault("flavor-annotations", ERROR, "a100", "nodes give 8 shares", "kubectl edit resourceflavor",
       also=("node-flavors",))  # fmt: skip
def a_flavor_says_other_replicas(broken: Broken) -> None:
    _share(broken, 8)
    _annotated(names.FLAVOR_REPLICAS, "4")(broken)


@fault("flavor-annotations", ERROR, "a100", "says mps, nodes share by time-slicing",
       "kubectl edit", also=("node-flavors",))  # fmt: skip
def a_flavor_says_another_strategy(broken: Broken) -> None:
    _share(broken, 4)
    _annotated(names.FLAVOR_SHARING, "mps")(broken)


@fault("mig-layouts", ERROR, "gpu-0", "mig.config.state is failed", "log of the MIG manager",
       also=("quota-capacity",))  # fmt: skip
def a_mig_layout_failed(broken: Broken) -> None:
    broken.nodes[0]["metadata"]["labels"][names.MIG_CONFIG_STATE_LABEL] = "failed"


@fault("mig-layouts", WARNING, "gpu-0", "mig.config.state is pending", "wait",
       also=("quota-capacity",))  # fmt: skip
def a_mig_layout_is_being_made(broken: Broken) -> None:
    broken.nodes[0]["metadata"]["labels"][names.MIG_CONFIG_STATE_LABEL] = "pending"


@fault("mig-layouts", ERROR, "gpu-0", "MIG-INVALID", "nvidia.com/mig.config",
       also=("quota-capacity", "node-flavors"))  # fmt: skip
def a_mig_layout_is_invalid(broken: Broken) -> None:
    label = f"{PRODUCT}-MIG-INVALID"
    broken.nodes[0]["metadata"]["labels"][names.GPU_PRODUCT_LABEL] = label


@fault("node-labels", WARNING, "gpu-1", "says 8, the node has 6", "GPU feature discovery",
       also=("quota-capacity",))  # fmt: skip
def labels_say_more_than_there_is(broken: Broken) -> None:
    for part in ("capacity", "allocatable"):
        broken.nodes[1]["status"][part]["nvidia.com/gpu"] = "6"


def _operator(broken: Broken, data: dict[str, str], **container: Any) -> None:
    """A device plugin, and its ConfigMap."""
    image = "nvcr.io/nvidia/k8s-device-plugin:v0.17"
    path = "/var/lib/kubelet/device-plugins"
    containers = [{"name": "plugin", "image": image, **container}]
    spec = {"containers": containers, "volumes": [{"name": "d", "hostPath": {"path": path}}]}
    broken.add(operators.DAEMON_SETS, "plugin", "gpu-operator", spec={"template": {"spec": spec}})
    broken.add(resources.CONFIG_MAPS, "plugin-configs", "gpu-operator", data=data)


NO_VARIABLE = {"env": [{"name": "DEVICE_LIST_STRATEGY", "value": "volume-mounts"}]}
SLICED = (
    "version: v1\nsharing:\n  timeSlicing:\n{more}    resources:\n    - name: nvidia.com/gpu\n"
    "      replicas: 4\n"
)
CONFIGS = "gpu-operator/plugin-configs"


@fault("gpu-configurations", ERROR, CONFIGS, "renameBy: unknown key", "kubectl edit configmap")
def a_sharing_configuration_has_an_unknown_key(broken: Broken) -> None:
    _operator(broken, {"any": SLICED.format(more="    renameBy: true\n")}, **NO_VARIABLE)


@fault("gpu-configurations", ERROR, CONFIGS, "stay pending there", "kubectl edit configmap")
def a_sharing_configuration_renames_what_pods_ask_for(broken: Broken) -> None:
    _operator(broken, {"any": SLICED.format(more="    renameByDefault: true\n")}, **NO_VARIABLE)


@fault("gpu-configurations", WARNING, CONFIGS, "mig-configs.all-3g", "gpu check-config")
def a_mig_configuration_cannot_be_cut(broken: Broken) -> None:
    devices = "mig-devices: {3g.40gb: 2, 1g.10gb: 1}"
    text = f"version: v1\nmig-configs:\n  all-3g:\n  - {{mig-enabled: true, {devices}}}\n"
    _operator(broken, {"config.yaml": text}, **NO_VARIABLE)


@fault("gpu-configurations", ERROR, "gpu-0", "chooses inference, which no configuration",
       "there are any", also=("node-flavors",))  # fmt: skip
def a_node_chooses_a_configuration_that_is_not_there(broken: Broken) -> None:
    _share(broken, 4)
    _operator(broken, {"any": SLICED.format(more="")}, **NO_VARIABLE)
    broken.nodes[0]["metadata"]["labels"]["nvidia.com/device-plugin.config"] = "inference"


@fault("gpu-configurations", ERROR, "gpu-0", "makes 4 shares of a GPU, the labels say 1",
       "restart the device plugin")  # fmt: skip
def a_node_has_not_taken_its_configuration(broken: Broken) -> None:
    _operator(broken, {"any": SLICED.format(more="")}, **NO_VARIABLE)
    broken.nodes[0]["metadata"]["labels"]["nvidia.com/device-plugin.config"] = "any"


@fault("visible-devices", WARNING, "gpu-operator/plugin", "NVIDIA_VISIBLE_DEVICES",
       "volume-mounts")  # fmt: skip
def a_variable_shows_gpus(broken: Broken) -> None:
    _operator(broken, {})


@fault("gpu-limits", WARNING, "team/limits", "spec.limits[0]", "kubectl edit limitrange")
def a_limit_range_gives_every_container_gpus(broken: Broken) -> None:
    item = {"type": "Container", "max": {"nvidia.com/gpu": "8"}}
    broken.add(resources.LIMIT_RANGES, "limits", "team", spec={"limits": [item]})


@fault("gpu-limits", WARNING, "team/quota", "never counted", "kubectl edit resourcequota")
def a_resource_quota_counts_nothing(broken: Broken) -> None:
    spec = {"hard": {"limits.nvidia.com/gpu": "8"}}
    broken.add(resources.RESOURCE_QUOTAS, "quota", "team", spec=spec)


# ------------------------------------------------------------------------------------------ state


def _runs(broken: Broken, namespace: str, **metadata: Any) -> None:
    pod = make_pod("stray", namespace=namespace, gpus=2, nodeName="gpu-0")
    pod["metadata"] |= {"creationTimestamp": at(7200), **metadata}
    pod["status"] = {"phase": "Running", "startTime": at(7200)}
    broken.pods.append(pod)


@fault("pods-outside", WARNING, "other", "2 nvidia.com/gpu outside every queue, 4.0 GPU-hours",
       "create one called default")  # fmt: skip
def a_namespace_has_no_queue(broken: Broken) -> None:
    broken.add(resources.NAMESPACES, "other")
    _runs(broken, "other")


@fault("pods-outside", WARNING, "kube-system", "never managed", "another namespace")
def a_gpu_pod_is_in_a_namespace_that_is_never_managed(broken: Broken) -> None:
    _runs(broken, "kube-system")


@fault("pods-outside", WARNING, "sandbox", "excludes the namespace", "excludedNamespaces")
def a_gpu_pod_is_in_an_excluded_namespace(broken: Broken) -> None:
    own = GpuConfiguration(excluded_namespaces=["sandbox"])
    broken.more |= {"settings": Settings(gpu=own), "settings_known": False}
    broken.add(resources.NAMESPACES, "sandbox")
    _runs(broken, "sandbox")


@fault(
    "pods-outside", WARNING, "team", "before the namespace had a LocalQueue", "create them again"
)
def a_gpu_pod_is_older_than_the_queue(broken: Broken) -> None:
    broken.one(resources.LOCAL_QUEUES)["metadata"]["creationTimestamp"] = at(60)
    _runs(broken, "team")


@fault("pods-outside", WARNING, "team", "no label kueue.x-k8s.io/queue-name", "pod templates")
def a_gpu_pod_names_no_queue(broken: Broken) -> None:
    broken.one(resources.LOCAL_QUEUES)["metadata"]["name"] = "special"
    _runs(broken, "team")


@fault("pods-outside", WARNING, "team", "webhook did not see them", "create them again")
def a_gpu_pod_was_not_reviewed(broken: Broken) -> None:
    _runs(broken, "team")


@fault("pods-held", ERROR, "team/train", "no controller handles them", "kubectl gpu why")
def a_pod_is_held_by_nobody(broken: Broken) -> None:
    _waits(broken, names.ADMISSION_GATE)


@fault("pods-held", ERROR, "team/train", "no controller handles them", "kubectl gpu why")
def a_pod_that_an_elastic_job_has_left_is_held_by_nobody(broken: Broken) -> None:
    _waits(broken, names.ELASTIC_JOB_GATE)


def _waits(broken: Broken, gate: str) -> None:
    pod = make_pod("train", namespace="team", gpus=1, gates=[gate])
    pod["metadata"] |= {"creationTimestamp": at(900), "uid": "u1"}
    broken.pods.append(pod)


def _ends(resource: Resource, *finalizers: str) -> Callable[[Broken], None]:
    def does(broken: Broken) -> None:
        metadata = broken.objects[resource][-1]["metadata"]
        metadata |= {"deletionTimestamp": at(3600), "finalizers": list(finalizers)}

    return does


@fault("terminating", ERROR, "team", "2 Workloads remain", "delete what its conditions name")
def a_namespace_does_not_end(broken: Broken) -> None:
    _ends(resources.NAMESPACES)(broken)
    condition = {"type": "NamespaceContentRemaining", "status": "True"}
    broken.objects[resources.NAMESPACES][-1]["status"] = {
        "conditions": [{**condition, "message": "2 Workloads remain"}]
    }


@fault("queue-admits", WARNING, "research", "it is being deleted, and goes when nothing holds its "
       "quota any more: 1 Workload(s) (team/train)", "kubectl gpu who research")  # fmt: skip
def a_cluster_queue_in_use_does_not_end(broken: Broken) -> None:
    broken.one(resources.CLUSTER_QUEUES)["spec"]["stopPolicy"] = "Hold"
    _ends(resources.CLUSTER_QUEUES, names.RESOURCE_IN_USE)(broken)
    broken.workloads.append({
        "metadata": {"name": "train", "namespace": "team"}, "spec": {"podSets": []},
        "status": {"admission": {"clusterQueue": "research", "podSetAssignments": []}},
    })  # fmt: skip


FAULTS += [
    Fault("a_definition_does_not_end", "terminating",
          _ends(resources.CRDS, "customresourcecleanup.apiextensions.k8s.io"), ERROR, ("",),
          "held by customresourcecleanup", "finalizers"),
]  # fmt: skip


@fault("terminating", ERROR, "team/train", "held by example.com/mine", "kubectl patch workload")
def a_workload_does_not_end(broken: Broken) -> None:
    metadata = {"deletionTimestamp": at(3600), "finalizers": ["example.com/mine"]}
    broken.workloads.append({
        "metadata": {"name": "train", "namespace": "team", **metadata}, "spec": {"podSets": []},
    })  # fmt: skip


@fault("terminating", ERROR, "team/stray", "node gpu-0 does not answer", "--force",
       also=("quota-capacity", "nodes-ready"))  # fmt: skip
def a_pod_on_a_dead_node_does_not_end(broken: Broken) -> None:
    labels = {names.MANAGED_LABEL: "true"}
    _runs(broken, "team", deletionTimestamp=at(3600), labels=labels)
    broken.nodes[0]["status"]["conditions"][0]["status"] = "Unknown"


@fault("clocks", WARNING, "this one", "60 s behind", "time server")
def this_machine_is_behind(broken: Broken) -> None:
    broken.more["here"] = NOW - timedelta(seconds=60)


@fault("clocks", ERROR, f"{SYSTEM}/gpu-admission", "the clock of a is 30 s ahead", "time server")
def the_controller_is_ahead(broken: Broken) -> None:
    broken.one(resources.LEASES)["spec"]["renewTime"] = at(-30)


@fault("clocks", WARNING, "gpu-1", "ahead of", "time server")
def a_node_is_ahead(broken: Broken) -> None:
    broken.one(pictures.NODE_LEASES, "gpu-1")["spec"]["renewTime"] = at(-90)


@fault("clocks", WARNING, "gpu-1", "behind", "time server")
def a_node_is_behind(broken: Broken) -> None:
    broken.one(pictures.NODE_LEASES, "gpu-1")["spec"]["renewTime"] = at(900)


@fault("throttling", WARNING, "itself", "12 of level workload-low", "FlowSchema")
def the_api_server_refuses_requests(broken: Broken) -> None:
    broken.more["overload"] = Overload(refused={"workload-low": 12, "system": 0})


@fault("throttling", ERROR, "itself", "refused 2 of our requests", "FlowSchema")
def the_api_server_refuses_ours(broken: Broken) -> None:
    broken.more["overload"] = Overload(met=2)


# ------------------------------------------------------------------------------------------ tests


def test_a_local_queue_of_a_namespace_that_is_being_deleted_is_no_finding(broken: Broken) -> None:
    a_local_queue_leads_nowhere(broken)
    namespaces = broken.objects[resources.NAMESPACES]
    team = next(each for each in namespaces if each["metadata"]["name"] == "team")
    team["metadata"]["deletionTimestamp"] = at(5)
    assert not list(queues.local_queues(broken.picture()))


def test_a_healthy_cluster_has_no_finding(broken: Broken) -> None:
    found = checks.diagnose(broken.picture())
    assert found.document()["findings"] == []
    assert found.unseen == ()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: one.id)
def test_a_fault_is_found_with_its_mend_and_nothing_else(fault: Fault, broken: Broken) -> None:
    fault.does(broken)
    found = checks.diagnose(broken.picture())
    checked = {one.check: one.findings for one in found.checked if one.findings}
    assert checked.keys() == {fault.check, *fault.also}
    assert len(checked[fault.check]) == 1, checked[fault.check]
    (finding,) = checked[fault.check]
    assert finding.severity is fault.severity
    assert finding.names[: len(fault.names)] == fault.names or fault.names == ("",)
    assert fault.what in finding.what
    assert fault.mend in finding.mend


def test_a_node_that_has_just_joined_is_no_finding(broken: Broken) -> None:
    node = broken.make_node("gpu-2")
    node["status"]["conditions"] = [_not_ready("False", message="starts", since=at(30))]
    broken.nodes.append(node)
    assert checks.diagnose(broken.picture()).document()["findings"] == []


def test_a_lease_that_is_renewed_while_the_cluster_is_read_is_no_finding(broken: Broken) -> None:
    broken.more["read_seconds"] = 30.0
    broken.one(resources.LEASES)["spec"]["renewTime"] = at(-28)
    broken.one(pictures.NODE_LEASES, "gpu-1")["spec"]["renewTime"] = at(-28)
    assert checks.diagnose(broken.picture()).document()["findings"] == []
    broken.one(resources.LEASES)["spec"]["renewTime"] = at(-60)
    (finding,) = checks.diagnose(broken.picture()).document()["findings"]
    assert finding["names"] == [f"{SYSTEM}/gpu-admission"]


def test_a_node_without_gpus_is_not_looked_at(broken: Broken) -> None:
    node = broken.make_node("cpu-0")
    for part in ("capacity", "allocatable"):
        node["status"][part] = {"cpu": "8"}
    node["status"]["conditions"] = [_not_ready("Unknown", since=at(600))]
    broken.nodes.append(node)
    checked = {one.check: one.findings for one in checks.diagnose(broken.picture()).checked}
    assert checked["nodes-ready"] == ()


def test_every_check_has_a_fault_that_it_finds() -> None:
    assert {one.check for one in FAULTS} == {one.name for one in checks.CHECKS}
    assert len({one.name for one in checks.CHECKS}) == len(checks.CHECKS)


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda one: one.name)
def test_a_check_says_what_it_may_not_read(check: checks.DoctorCheck, broken: Broken) -> None:
    if not check.needs:
        return
    broken.more["unseen"] = {check.needs[0]: "you may not list these"}
    found = check.look(broken.picture())
    assert (found.unseen, found.findings) == ("you may not list these", ())


def test_a_refusal_for_another_reason_is_no_finding(broken: Broken) -> None:
    broken.more["trial"] = Trial(namespace="team", refusal="pods is forbidden: exceeded quota")
    found = checks.diagnose(broken.picture())
    assert [one.check for one in found.unseen] == ["webhook-answers"]
    assert found.document()["findings"] == []


def test_a_denial_of_our_own_webhook_is_an_answer(broken: Broken) -> None:
    text = 'admission webhook "vpod.kb.io" denied the request: no'
    broken.more["trial"] = Trial(namespace="team", refusal=text)
    assert checks.diagnose(broken.picture()).unseen == ()


def test_a_cluster_without_us_has_one_finding() -> None:
    found = checks.diagnose(pictures.Picture(now=NOW))
    ((check, finding),) = found.of(ERROR)
    assert (check, finding.mend) == ("installed", "gpu-admission install")


def test_the_definitions_that_are_looked_for_are_those_of_an_installation(broken: Broken) -> None:
    listed = (one["metadata"]["name"] for one in broken.objects[resources.CRDS])
    assert sorted(pictures.DEFINITIONS) == sorted(listed)


def test_the_mend_of_quota_without_nodes_names_cohorts_and_all_queues_that_are_not_limited() -> (
    None
):
    broken = Broken()
    groups = make_cluster_queue(quota=8)["spec"]["resourceGroups"]
    broken.objects[resources.COHORTS] = [make_cohort("gpus", resourceGroups=groups)]
    limited = {names.CAPACITY_GUARD: names.CAPACITY_GUARD_ENFORCE}
    broken.objects[resources.CLUSTER_QUEUES] += [
        make_cluster_queue("vision", quota=8, cohortName="gpus"),
        make_cluster_queue("limited", quota=8, cohortName="gpus", annotations=limited),
    ]
    (finding,) = devices.quota(broken.picture())
    assert finding.mend == (
        "lower the nominalQuota in research, vision, limited, Cohort gpus, or add nodes; or limit"
        " the quota to what exists (this takes nominal quota of"
        " nvidia.com/gpu from research 8 of 16, vision 8 of 8, Cohort gpus 8 of 8: also of what"
        " they use within it): kubectl annotate clusterqueue research vision"
        " gpu-admission.dev/capacity-guard=Enforce"
    )


def _borrowing(broken: Broken, cohort: str) -> dict[str, Any]:
    """Has research hold 16 GPUs, 8 of them above its quota, in a Cohort of this name."""
    research = broken.one(resources.CLUSTER_QUEUES)
    research["spec"]["cohortName"] = cohort
    research["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = 8
    _reserve(research, 16)
    return research


@pytest.mark.parametrize(
    ("cohort", "cause", "mend"),
    [
        ("", "; it borrows from no one: spec.cohortName is not set", "wait until work"),
        (
            "own",
            "; it shares with nobody: no other queue or Cohort names Cohort own",
            "wait until",
        ),
        (
            "poool",
            (
                "; it shares with nobody: no other queue or Cohort names Cohort poool; did you"
                " mean pool?"
            ),
            "if so, correct spec.cohortName where it is misspelled; else wait until work",
        ),
    ],
    ids=["none", "alone", "misspelled"],
)
def test_a_queue_above_its_quota_is_told_that_it_borrows_from_no_one(
    cohort: str, cause: str, mend: str
) -> None:
    broken = Broken()
    _borrowing(broken, cohort)
    broken.objects[resources.COHORTS] = [make_cohort("pool")]
    (finding,) = queues.overcommitted(broken.picture())
    assert (finding.kind, finding.names) == ("ClusterQueue", ("research",))
    assert finding.what.endswith(f"and the nominal quota is 8{cause}")
    assert finding.mend.startswith(mend)


def test_queues_above_their_quota_are_told_which_queue_names_another_cohort() -> None:
    broken = Broken()
    _borrowing(broken, "pool")
    broken.objects[resources.CLUSTER_QUEUES] += [
        make_cluster_queue("lab", quota=0, cohortName="pool"),
        make_cluster_queue("vision", quota=8, cohortName="poool"),
    ]
    (finding,) = queues.overcommitted(broken.picture())
    assert finding.names == ("pool",)
    assert finding.what.endswith(
        "above their own: research; ClusterQueue vision shares nothing with them: it names another"
        " Cohort; did you mean pool?"
    )
    assert finding.mend.startswith(
        "if so, correct its spec.cohortName: kubectl edit clusterqueue vision; else wait until"
    )


def test_what_is_borrowed_within_the_quota_of_a_cohort_is_no_fault() -> None:
    broken = Broken()
    research = broken.one(resources.CLUSTER_QUEUES)
    research["spec"]["cohortName"] = "gpus"
    research["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = 8
    lender = make_cluster_queue("vision", quota=8, cohortName="gpus")
    broken.objects[resources.CLUSTER_QUEUES].append(lender)
    _reserve(research, 16)
    found = {one.check: one for one in checks.diagnose(broken.picture()).checked}
    assert found["quota-reserved"].findings == ()
