"""`kubectl describe` of what has waited for half a minute shows why under Events."""

import os
import subprocess
from typing import Final, NamedTuple

import pytest

from admission.base import names
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod, template_of
from tests.controlplane import build, waiting
from tests.integration.installed import Installed

pytestmark = pytest.mark.controlplane

_QUEUED: Final = {names.QUEUE_LABEL: "default"}


class Team(NamedTuple):
    """A namespace whose queue one pod has used up."""

    system: Installed
    namespace: str

    def describe(self, kind: str, name: str) -> str:
        """Return what kubectl prints below Events."""
        done = subprocess.run(
            [str(build.folder() / "kubectl"), "describe", kind, name, "-n", self.namespace],
            capture_output=True, text=True, timeout=waiting.PATIENCE_SECONDS, check=True,
            env={**os.environ, "KUBECONFIG": self.system.kubeconfig},
        )  # fmt: skip
        return done.stdout.partition("\nEvents:")[2]

    def wait_told(self, kind: str, name: str) -> str:
        """Return the events once one says why it waits."""

        def look() -> str | None:
            found = self.describe(kind, name)
            return found if "Waits: needs" in found or "Too big" in found else None

        return waiting.until(look, what=f"{kind} {name} is told")


@pytest.fixture(scope="module")
def team(whole_installation: Installed) -> Team:
    system = whole_installation
    namespace = system.add_team(1)
    system.create_pod(namespace, "running")
    system.wait_released(namespace, "running")
    return Team(system, namespace)


def test_a_pod_a_job_and_a_deployment_say_why_they_wait(team: Team) -> None:
    api = team.system.api
    team.system.create_pod(team.namespace, "next")
    job = make_job("train", 1, namespace=team.namespace, labels=_QUEUED, gpus=1)
    api.post(f"/apis/batch/v1/namespaces/{team.namespace}/jobs", job)
    template = template_of(make_pod("", labels={"app": "chat"}, gpus=1))
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat", "labels": _QUEUED},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "chat"}}, "template": template,
        },
    }  # fmt: skip
    api.post(f"/apis/apps/v1/namespaces/{team.namespace}/deployments", deployment)

    for kind, name in (("pod", "next"), ("job", "train"), ("deployment", "chat")):
        found = team.wait_told(kind, name)
        (line,) = [one for one in found.splitlines() if "Waits: needs 1 " in one]
        assert "WaitingForQuota" in line
        assert f"in queue {team.namespace}" in line
