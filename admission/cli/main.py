"""Command ``gpu-admission``: install, serve, look, try out."""

import click

from admission.cli import config, demo, gpu, install, manifests, serve
from admission.obs import logs


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  gpu-admission demo
  gpu-admission install --kubeconfig ~/.kube/config --webhook-url https://127.0.0.1:9443
  gpu-admission run --kubeconfig ~/.kube/config --cert-dir ./webhook-certs
""",
)
@click.version_option(package_name="gpu-admission", prog_name="gpu-admission")
def main() -> None:
    """Quota and admission for GPU pods on Kubernetes.

    Holds GPU pods back until quota is theirs, then releases them with the node selector,
    tolerations and GPU resource names of the flavor they got. Speaks Kueue's API.
    """
    logs.configure(human=True)


main.add_command(install.install)
main.add_command(install.uninstall)
main.add_command(serve.webhook)
main.add_command(serve.controller)
main.add_command(serve.run)
main.add_command(config.config)
main.add_command(manifests.manifests_command)
main.add_command(gpu.gpu)
main.add_command(demo.demo)
