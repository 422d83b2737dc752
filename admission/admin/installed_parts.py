"""What a cluster has of the parts of an installation that no configuration file names.

A command that is told nothing of a part leaves it as it is: who installs again, to repair a role
or a certificate, does not have to know how the program was installed.
"""

from dataclasses import dataclass
from typing import Final

from admission.admin import bypass_policies, installation, manifests
from admission.config.derived import Settings
from admission.kube import apply, errors, resources
from admission.kube.api import Api, Document
from admission.objects import crds

_REPOSITORY: Final = manifests.DEFAULT_IMAGE.partition(":")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts, each as the attribute of `admission.admin.installation.InstallPlan`."""

    image: str = manifests.DEFAULT_IMAGE
    bypass_guard: bool = True
    visibility: bool = False
    older_versions: bool = True

    def told(
        self,
        *,
        image: str | None = None,
        bypass_guard: bool | None = None,
        visibility: bool | None = None,
        older_versions: bool | None = None,
    ) -> "Parts":
        """Return these parts with what options say of them; None says nothing."""
        return Parts(
            image=self.image if image is None else image,
            bypass_guard=self.bypass_guard if bypass_guard is None else bypass_guard,
            visibility=self.visibility if visibility is None else visibility,
            older_versions=self.older_versions if older_versions is None else older_versions,
        )


def of(api: Api, settings: Settings) -> Parts:
    """Return the parts that are installed; those of a new installation where there is none.

    Args:
        api: the cluster.
        settings: of the installation.

    Raises:
        KubeError: the API server refused.
    """
    image = _image(api, settings)
    if not installation.is_installed(api, settings):
        return Parts(image=image)
    policies = bypass_policies.documents(settings)
    services = installation.api_services(settings)
    return Parts(
        image=image,
        bypass_guard=any(_stored(api, policy) for policy in policies),
        visibility=any(_stored(api, service) for service in services),
        # Without older versions a CRD may still say how it would be converted: another field
        # manager, such as kubectl, has written that.
        older_versions=any(
            len(_versions(_stored(api, crd))) > len(_versions(crd)) for crd in crds.documents()
        ),
    )


def _image(api: Api, settings: Settings) -> str:
    """Return the image of the controller; the one of this version where none was chosen."""
    try:
        deployment = api.get(resources.DEPLOYMENTS, manifests.CONTROLLER, settings.namespace)
    except errors.NotFoundError:
        return manifests.DEFAULT_IMAGE
    (container, *_) = deployment["spec"]["template"]["spec"]["containers"]
    image = str(container["image"])
    return manifests.DEFAULT_IMAGE if image.partition(":")[0] == _REPOSITORY else image


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
