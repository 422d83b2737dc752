"""``gpu-admission break-glass``: what it says before it lets everything run, and afterwards."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from admission.admin import bypass_policies, manifests
from admission.base import names
from admission.cli import confirming
from admission.cli.main import main
from admission.config.derived import Settings
from admission.kube import resources
from tests.builders.cluster import make_namespace
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.builders.queues import make_local_queue
from tests.cli.applying import ApplyingStore
from tests.cli.served import served

TEAM = "team"
QUEUE = {names.QUEUE_LABEL: "default"}
MANAGED = {**QUEUE, names.MANAGED_LABEL: names.MANAGED_VALUE}
PLAN = (
    "This lets 2 pods and 1 Job run (8 nvidia.com/gpu) and takes away "
    "1 MutatingWebhookConfiguration"
)


@pytest.fixture
def store() -> ApplyingStore:
    """Return a cluster with two pods and a Job that wait."""
    store, settings = ApplyingStore(), Settings()
    store.create(resources.NAMESPACES, make_namespace(TEAM))
    store.create(resources.NAMESPACES, make_namespace(settings.namespace))
    place = manifests.service_reference(settings)
    for document in (
        *manifests.webhook_configurations(place, settings),
        *bypass_policies.documents(settings),
    ):
        resource = resources.of_kind(document["apiVersion"], document["kind"])
        assert resource is not None
        store.create(resource, document)
    for name in ("first", "second"):
        pod = make_pod(name, gpus=1, labels=MANAGED, gates=[names.ADMISSION_GATE])
        store.create(resources.PODS, pod, TEAM)
    store.create(resources.JOBS, make_job("train", 3, gpus=2, labels=QUEUE, suspend=True), TEAM)
    return store


@pytest.fixture
def kubeconfig(store: ApplyingStore, tmp_path: Path) -> Iterator[Path]:
    with served(store, (*resources.BUILT_IN, *resources.CUSTOM), tmp_path) as path:
        yield path


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have somebody at a terminal."""
    monkeypatch.setattr(confirming, "has_terminal", lambda: True)


def break_glass(kubeconfig: Path, *arguments: str, answer: str = "", code: int = 0) -> Result:
    line = ["break-glass", *arguments, "--kubeconfig", str(kubeconfig)]
    result = CliRunner().invoke(main, line, input=answer)
    assert result.exit_code == code, (result.stderr, result.exception)
    return result


def waiting(store: ApplyingStore) -> set[str]:
    """Names of what still waits."""
    gated = {
        pod["metadata"]["name"]
        for pod in store.list(resources.PODS).items
        if pod["spec"].get("schedulingGates")
    }
    jobs = store.list(resources.JOBS).items
    return gated | {job["metadata"]["name"] for job in jobs if job["spec"].get("suspend")}


def is_open(store: ApplyingStore) -> bool:
    return not store.list(resources.MUTATING_WEBHOOKS).items


ALL = {"first", "second", "train"}


def test_a_dry_run_shows_what_would_pass_and_changes_nothing(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    tried = break_glass(kubeconfig, "on", "--dry-run")
    assert f"dry run: nothing was changed. {PLAN}" in tried.stderr
    assert not is_open(store)
    assert waiting(store) == ALL
    done = break_glass(kubeconfig, "on")
    *told, total = tried.stdout.splitlines()
    *changes, total_done, _, _ = done.stdout.splitlines()
    assert sorted(told) == sorted(f"{line} (dry run)" for line in changes)
    assert total == f"would be {total_done}"
    assert waiting(store) == set()


def test_a_dry_run_tells_programs_what_the_command_tells_them(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    def changes(*arguments: str) -> list[dict[str, Any]]:
        told = break_glass(kubeconfig, "on", *arguments, "-o", "json").stdout
        return sorted(json.loads(told), key=lambda change: (change["kind"], change["name"]))

    tried = changes("--dry-run")
    assert waiting(store) == ALL
    assert tried == changes()


def test_a_dry_run_of_new_pods_only_lets_nothing_run(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    tried = break_glass(kubeconfig, "on", "--dry-run", "--new-only")
    assert "This lets nothing run that waits now, and takes away 1 Mut" in tried.stderr
    assert "Job/train" not in tried.stdout
    assert not is_open(store)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("answer", ["\n", "n\n"])
def test_who_does_not_say_yes_at_a_terminal_changes_nothing(
    store: ApplyingStore, kubeconfig: Path, answer: str
) -> None:
    asked = break_glass(kubeconfig, "on", answer=answer, code=1)
    assert PLAN in asked.stderr
    assert "continue? [y/N]" in asked.stderr
    assert not is_open(store)
    assert waiting(store) == ALL


@pytest.mark.usefixtures("terminal")
def test_who_says_yes_at_a_terminal_lets_everything_run(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    break_glass(kubeconfig, "on", answer="y\n")
    assert is_open(store)
    assert waiting(store) == set()


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("option", "waits"), [("--yes", set()), ("--new-only", ALL)])
def test_nobody_is_asked_who_said_yes_or_lets_only_new_pods_pass(
    store: ApplyingStore, kubeconfig: Path, option: str, waits: set[str]
) -> None:
    assert "continue?" not in break_glass(kubeconfig, "on", option).stderr
    assert is_open(store)
    assert waiting(store) == waits


def test_what_passed_is_told_apart_and_off_says_what_goes_on(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    break_glass(kubeconfig, "on")
    store.create(resources.PODS, make_pod("new", gpus=4), TEAM)
    store.create(resources.PODS, make_pod("placed", gpus=2, nodeName="n1"), TEAM)
    passed = [
        "let run outside of quota: 3 (8 nvidia.com/gpu)",
        "  team/first: 1 nvidia.com/gpu, pending",
        "  team/job/train: 6 nvidia.com/gpu",
        "  team/second: 1 nvidia.com/gpu, pending",
        "created without admission, now or before: 2 (6 nvidia.com/gpu)",
        "  team/new: 4 nvidia.com/gpu, pending",
        "  team/placed: 2 nvidia.com/gpu, on n1",
    ]
    assert break_glass(kubeconfig, "status").stdout.splitlines()[1:] == passed
    told = json.loads(break_glass(kubeconfig, "status", "-o", "json").stdout)
    assert told["created_meanwhile"][0] == {
        "kind": "Pod",
        "namespace": TEAM,
        "name": "new",
        "gpus": {names.GPU_RESOURCE: "4"},
        "node": "",
        "is_charged": False,
    }

    lines = break_glass(kubeconfig, "off").stdout.splitlines()
    whole = "the glass is whole: new GPU pods wait for quota; does the webhook answer?"
    (begin,) = (n for n, line in enumerate(lines) if line.startswith(whole))
    assert lines[begin + 1 : -2] == passed
    charged, outside = lines[-2:]
    assert charged.startswith("of these 3 (8 nvidia.com/gpu) go on and are charged to their queue")
    assert outside.startswith("of these 2 (6 nvidia.com/gpu) go on outside of quota until they en")
    assert "kubectl gpu who --limit 0" in outside

    _, *still = break_glass(kubeconfig, "status").stdout.splitlines()
    assert still[:4] == passed[:4]
    assert still[4].startswith("created while the glass was broken, last until 20")
    assert still[4].endswith("and going on outside of quota: 2 (6 nvidia.com/gpu)")
    assert still[5:7] == passed[5:7]
    assert still[7].startswith("note: to bring one back into quota, delete it")
    (time,) = json.loads(break_glass(kubeconfig, "status", "-o", "json").stdout)["broken_before"]
    assert time["from"] <= time["to"]


def test_gpus_of_a_claim_are_not_said_to_be_none(store: ApplyingStore, kubeconfig: Path) -> None:
    break_glass(kubeconfig, "on", "--new-only")
    claim = {"name": "gpu", "resourceClaimName": "mine"}
    store.create(resources.PODS, make_pod("claims", resourceClaims=[claim]), TEAM)
    assert break_glass(kubeconfig, "status").stdout.splitlines()[-2:] == [
        "created without admission, now or before: 1 (? GPUs)",
        "  team/claims: ? GPUs, pending",
    ]


def test_a_glass_that_is_whole_is_not_said_to_have_let_anything_go_on(kubeconfig: Path) -> None:
    refused = break_glass(kubeconfig, "off", code=1)
    assert "the glass is not broken" in refused.stderr
    assert refused.stdout == ""


@pytest.mark.parametrize(
    "named", [("job", "team/train"), ("job", "train", "-n", "team")], ids=["before it", "option"]
)
def test_the_namespace_of_what_is_let_run_stands_before_its_name_or_in_an_option(
    store: ApplyingStore, kubeconfig: Path, named: tuple[str, ...]
) -> None:
    break_glass(kubeconfig, "release", *named)
    assert waiting(store) == ALL - {"train"}


@pytest.mark.parametrize(
    "named", [("job", "team/train", "-n", "other"), ("job", "train"), ("namespace", "x/team")]
)
def test_a_namespace_that_is_not_sure_lets_nothing_run(
    store: ApplyingStore, kubeconfig: Path, named: tuple[str, ...]
) -> None:
    line = ["break-glass", "release", *named, "--kubeconfig", str(kubeconfig)]
    CliRunner().invoke(main, line)
    assert waiting(store) == ALL


@pytest.mark.parametrize(
    "typed",
    [
        ("job", "train", "-n", TEAM), ("job/train", "-n", TEAM), (f"{TEAM}/job/train",),
        ("Job", f"{TEAM}/train"), ("job.batch/train", "-n", TEAM), ("jobs.batch", f"{TEAM}/train"),
    ],
)  # fmt: skip
def test_what_is_let_run_is_named_as_why_names_it(
    store: ApplyingStore, kubeconfig: Path, typed: tuple[str, ...]
) -> None:
    break_glass(kubeconfig, "release", *typed)
    assert waiting(store) == ALL - {"train"}


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (("job", "-n", TEAM), "what of kind job? Name it: job/NAME"),
        (("job/", "-n", TEAM), "what of kind job? Name it: job/NAME"),
        (("job/train", "train"), "job/train has a name already; leave train out"),
        ((f"{TEAM}/job/train", "-n", "default"), f"job {TEAM}/train is not in namespace default"),
    ],
)
def test_what_names_no_object_or_two_lets_nothing_run(
    store: ApplyingStore, kubeconfig: Path, typed: tuple[str, ...], told: str
) -> None:
    assert told in break_glass(kubeconfig, "release", *typed, code=2).stderr
    assert waiting(store) == ALL


@pytest.mark.parametrize(
    ("typed", "message", "hint"),
    [
        (
            "job/trian", f"job/trian does not exist in namespace {TEAM}",
            "correct the name or the namespace; those that wait: kubectl gpu queue -n team",
        ),
        (
            "deployment/web", "deployment is not a kind that is let run",
            "of other kinds let run the pods: kubectl get pods -n team",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_let_run_is_told_what_to_do_about_it(
    kubeconfig: Path, typed: str, message: str, hint: str
) -> None:
    refused = break_glass(kubeconfig, "release", typed, "-n", TEAM, code=1).stderr
    assert f"error: {message}" in refused
    assert f"hint: {hint}" in refused


@pytest.mark.parametrize(
    "arguments",
    [
        ("release", "job/train", "-n", TEAM), ("release", "job/train", "-n", TEAM, "--dry-run"),
        ("release", "pod/first", "-n", TEAM), ("release", "ns", TEAM), ("on",),
    ],
)  # fmt: skip
def test_what_has_a_queue_is_told_that_it_may_be_stopped_and_how_it_is_not(
    store: ApplyingStore, kubeconfig: Path, arguments: tuple[str, ...]
) -> None:
    def notes() -> str:
        return break_glass(kubeconfig, *arguments, "-o", "json").stderr

    if "--dry-run" in arguments:
        assert "is charged" not in notes(), "there is no queue"
    store.create(resources.LOCAL_QUEUES, make_local_queue("default", "research", TEAM))
    assert (
        "note: ClusterQueue research is charged for it, even above quota: like other work of the "
        "queue it may be stopped by whoever takes quota back, even within seconds. Where it must "
        "not be: raise the nominalQuota first (kubectl edit clusterqueue research), or run it in "
        "a namespace without a queue"
    ) in notes()
