"""What a command that failed advises: what fits the error, else what fits the command."""

import errno
import os

import click
import pytest

from admission.admin.doctor.findings import CheckResult, Diagnosis
from admission.base.errors import InvalidValueError
from admission.cli import asking, doctor, output, why
from admission.kube import errors

FITTING = {
    "no answer": (errors.TransportError("connection refused by 127.0.0.1:6443"), "API server"),
    "401": (errors.make(401, "who are you"), "credentials"),
    "403": (errors.make(403, "no"), "kubectl auth can-i"),
    "429": (errors.make(429, "later"), "overloaded"),
    "500": (errors.make(500, "etcd"), "its log"),
    "port in use": (OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)), "another address"),
}

REFUSED = (
    'Internal error occurred: failed calling webhook "{}": failed to call webhook: Post '
    '"{}/mutate?timeout=5s": dial tcp 10.0.0.1:443: connect: connection refused'
)
ANSWERS_LATE = "the webhook of gpu-admission does not answer, or not yet"
OURS, SERVICE = "mresourceflavor.kb.io", "https://gpu-admission-webhook.gpus.svc:443"


def printed(error: Exception, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit), output.reported("see the pods there are"):
        raise error
    return capsys.readouterr().err


@pytest.mark.parametrize(("error", "hint"), FITTING.values(), ids=FITTING)
def test_a_hint_fits_the_error(
    error: Exception, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = printed(error, capsys).splitlines()
    assert first == f"error: {error}"
    assert second.startswith("hint: ")
    assert hint in second


def test_who_typed_a_namespace_is_not_told_to_try_one(capsys: pytest.CaptureFixture[str]) -> None:
    context = click.Context(click.Command("why"))
    context.params["namespace"] = "ml"
    with context:
        hint = printed(errors.make(403, "no"), capsys).splitlines()[1]
    assert hint == "hint: you lack a right; list those you have: kubectl auth can-i --list -n ml"


def refused(namespace: str, *, meant: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The hint where a namespace is refused, and one is meant where none is named."""
    command = click.Context(why.why, info_name="why")
    command.params |= {"subject": "trian", "namespace": None}
    text = f'pods "trian" is forbidden: User "ada" cannot get it in the namespace "{namespace}"'
    with command, pytest.raises(SystemExit), output.reported(), asking._named_where_refused(meant):
        raise errors.make(403, text)
    return capsys.readouterr().err.splitlines()[1]


def test_who_named_no_namespace_is_told_to_name_one(capsys: pytest.CaptureFixture[str]) -> None:
    hint = refused("default", meant="default", capsys=capsys)
    assert hint == "hint: name yours: kubectl gpu why trian -n NAMESPACE"


@pytest.mark.parametrize("meant", ["", "ml"], ids=["typed", "that of the context"])
def test_who_named_a_namespace_is_told_of_a_right(
    meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hint = refused("default", meant=meant, capsys=capsys)
    assert hint.startswith("hint: you lack a right")


def test_who_may_read_nothing_is_told_that_the_doctor_is_for_administrators() -> None:
    nothing = [CheckResult(check=f"c{n}", unseen="you may not list nodes") for n in range(40)]
    lines = list(doctor._lines(Diagnosis(tuple(nothing)), 200))
    assert lines == [
        "Nothing was checked: doctor is for administrators; your user may read none of it.",
        (
            "next: why something of yours waits: kubectl gpu why NAME -n NAMESPACE; who waits:"
            " kubectl gpu queue -n NAMESPACE; which checks there are: -o json"
        ),
    ]


@pytest.mark.parametrize(
    "error", [errors.make(404, 'pods "train" not found'), InvalidValueError("x", "must be y")]
)
def test_else_it_is_that_of_the_command(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(error, capsys).endswith("hint: see the pods there are\n")


@pytest.mark.parametrize(
    ("url", "step"),
    [(SERVICE, "kubectl get pods -n gpus"), ("https://10.0.0.1:9443", "gpu-admission run")],
    ids=["inside", "outside"],
)
def test_a_webhook_of_ours_that_does_not_answer_is_waited_for(
    url: str, step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, hint = printed(errors.make(500, REFUSED.format(OURS, url)), capsys).splitlines()
    assert hint.startswith(f"hint: {ANSWERS_LATE}: ")
    assert step in hint
    assert "then repeat the command" in hint
    assert "gpu-admission doctor" in hint


@pytest.mark.parametrize(
    ("webhook", "url"),
    [
        ("policy.example.com", "https://policy.example.com"),
        ("mjobset.kb.io", "https://jobset-webhook-service.jobset-system.svc:443"),
    ],
)
def test_a_webhook_of_somebody_else_is_not_taken_for_ours(
    webhook: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, hint = printed(errors.make(500, REFUSED.format(webhook, url)), capsys).splitlines()
    assert hint == "hint: the API server, or a service behind it, failed; see its log"
