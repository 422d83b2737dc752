"""Which parts of an installation a cluster has.

A command that is told nothing of a part leaves it as it is: who installs again, to repair a role
or a certificate, does not have to know how the program was installed.
"""

from admission.admin import break_glass, bypass_policies, installation, manifests
from admission.admin.installation import Parts
from admission.config.derived import Settings
from admission.kube import apply, errors, resources
from admission.kube.api import Api, Document
from admission.objects import crds


def of(api: Api, settings: Settings) -> Parts:
    """Return the parts that are installed; those of a new installation where there is none.

    What `break_glass` has taken away is installed.

    Args:
        api: the cluster.
        settings: of the installation.

    Raises:
        KubeError: the API server refused.
    """
    is_broken = break_glass.is_broken(api, settings.namespace)
    if not is_broken and not installation.is_installed(api, settings):
        return Parts()
    policies = bypass_policies.documents(settings)
    services = installation.api_services(settings)
    return Parts(
        image=_image(api, settings),
        bypass_guard=any(_stored(api, policy) for policy in policies),
        visibility=any(_stored(api, service) for service in services),
        # Without older versions a CRD may still say how it would be converted: another field
        # manager, such as kubectl, has written that.
        older_versions=any(
            len(_versions(_stored(api, crd))) > len(_versions(crd)) for crd in crds.documents()
        ),
    )


def _image(api: Api, settings: Settings) -> str:
    """Return the image of the controller; the default where it runs outside of the cluster."""
    try:
        deployment = api.get(resources.DEPLOYMENTS, manifests.CONTROLLER, settings.namespace)
    except errors.NotFoundError:
        return manifests.DEFAULT_IMAGE
    (container, *_) = deployment["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


def _stored(api: Api, document: Document) -> Document:
    """Return an object as the API server has it; empty where it does not."""
    resource, name, namespace = apply.locate(document)
    try:
        return api.get(resource, name, namespace)
    except errors.NotFoundError:
        return {}


def _versions(crd: Document) -> list[str]:
    versions = crd.get("spec", {}).get("versions", ())
    return [version["name"] for version in versions if version["served"]]
