"""The modes of namespaces whose labels set none: the choices of ``install``, and those kept.

An installation keeps its modes in an annotation of its webhook configuration, so that a later
``install`` does not change them unasked (docs/adr/0006-which-work-is-held.md).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from admission.base import names
from admission.base.errors import AdmissionError
from admission.base.namespaces import AUDIT, DENY, DENY_STRICT, WARN
from admission.config.derived import Settings
from admission.config.gpu_configuration import Modes, NamespaceMode
from admission.installed import cabundles
from admission.kube import errors, resources
from admission.kube.api import Api

EVERYWHERE: Final = "deny-everywhere"
MODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        DENY: "in namespaces with a LocalQueue, refuse pods that reach GPUs around quota, and GPU "
        "pods and Jobs without a queue; elsewhere warn",
        DENY_STRICT: "as deny, and refuse privileged containers and host paths of devices there",
        EVERYWHERE: "as deny, in every managed namespace",
        WARN: "warn everywhere, refuse nothing",
        AUDIT: "write to the audit log only, everywhere",
    }
)
"""Each choice of ``install --mode``, with what it does."""

DEFAULT: Final = DENY
"""The mode of a new installation that has no terminal to ask on."""


class ModesError(AdmissionError):
    """The modes in force cannot be determined."""


def of(mode: str, settings: Settings) -> Modes:
    """Return the modes that a choice of ``install --mode`` stands for.

    Where ``manageJobsWithoutQueueName`` holds GPU pods without a queue, they are not refused.
    """
    if mode in {WARN, AUDIT}:
        plain = NamespaceMode(bypass=WARN if mode == WARN else AUDIT)
        return Modes(with_queue=plain, without_queue=plain)
    denied = NamespaceMode(
        bypass=DENY_STRICT if mode == DENY_STRICT else DENY,
        enforce=not settings.kueue.manage_jobs_without_queue_name,
    )
    elsewhere = denied if mode == EVERYWHERE else NamespaceMode()
    return Modes(with_queue=denied, without_queue=elsewhere)


def to_text(modes: Modes) -> str:
    """Return the value of the annotation that keeps the modes."""
    return modes.model_dump_json(by_alias=False)


def installed(api: Api) -> Modes | None:
    """Return the modes of the installation in the cluster; None where there is none.

    One that is older than modes only warned.

    Raises:
        ModesError: the annotation cannot be read.
        KubeError: the API server refused.
    """
    try:
        configuration = api.get(resources.MUTATING_WEBHOOKS, cabundles.MUTATING_NAME)
    except errors.NotFoundError:
        return None
    text = (configuration["metadata"].get("annotations") or {}).get(names.MODES, "")
    if not text:
        return Modes()
    try:
        return Modes.model_validate_json(text, by_alias=False, by_name=True)
    except ValueError as error:
        place = f"MutatingWebhookConfiguration {cabundles.MUTATING_NAME}"
        raise ModesError(
            f"{place}: metadata.annotations[{names.MODES}]: {text!r}: must be modes as JSON; "
            "choose a mode with --mode"
        ) from error
