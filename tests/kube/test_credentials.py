"""Which namespace is meant where none is named."""

from pathlib import Path

import pytest

from admission.kube import credentials, errors

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts:
- {name: here, context: {cluster: c, user: u, namespace: team}}
- {name: there, context: {cluster: c, user: u}}
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


@pytest.mark.parametrize(("context", "namespace"), [(None, "team"), ("there", "default")])
def test_it_is_that_of_the_context(tmp_path: Path, context: str | None, namespace: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    assert credentials.namespace(str(file), context=context) == namespace


@pytest.mark.parametrize("text", ["", "current-context: [", "a: b"], ids=repr)
def test_a_file_that_is_no_kubeconfig_is_an_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    with pytest.raises(errors.ConfigurationError):
        credentials.namespace(str(file))


def test_in_a_pod_it_is_the_pods_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "namespace"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr(credentials, "_NAMESPACE_FILE", file)
    assert credentials.namespace() == "default"
    file.write_text("team\n")
    assert credentials.namespace() == "team"
