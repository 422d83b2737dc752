"""``kubectl gpu``: questions about pods, asked beside kubectl."""

from dataclasses import asdict
from typing import Final

import click

from admission.app import connection
from admission.cli import output
from admission.insight import why as insight_why
from admission.insight.why import Answer

_TIMEOUT_SECONDS: Final = 30.0


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Example:
  kubectl gpu why train-0 -n research
""",
)
def main() -> None:
    """Ask about GPU quota."""


@main.command(
    epilog="""\b
Examples:
  kubectl gpu why train-0 -n research
  kubectl gpu why train-0 -n research -o json
"""
)
@click.argument("pod")
@click.option("-n", "--namespace", default="default", show_default=True, help="Of the pod.")
@output.kubeconfig_option
@output.output_option
def why(pod: str, namespace: str, kubeconfig: str | None, form: str) -> None:
    """Say where a pod stands: admitted and on what, or waiting and why."""
    with output.reported(f"see the pods there are: kubectl get pods -n {namespace}"):
        api = connection.Target(kubeconfig).connect(
            connections=1, timeout_seconds=_TIMEOUT_SECONDS
        )
        answer = insight_why.explain(api, namespace, pod)
    if form == "json":
        output.print_json(asdict(answer))
        return
    for line in _lines(answer):
        click.echo(line)


def _lines(answer: Answer) -> list[str]:
    place = " -> ".join(name for name in (answer.queue, answer.cluster_queue) if name)
    flavors = ", ".join(f"{resource} on {flavor}" for resource, flavor in answer.flavors.items())
    told = ": ".join(text for text in (answer.reason, answer.message) if text)
    rows = {
        "state": f"{answer.state} since {answer.since}" if answer.since else answer.state,
        "queue": place,
        "flavors": flavors,
        "why": told,
        "workload": answer.workload,
        "do": answer.advice,
    }
    return [f"pod {answer.pod}", *(f"  {key:<9}{text}" for key, text in rows.items() if text)]
