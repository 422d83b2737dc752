"""The settings: both documents of a configuration file, and what follows from both."""

from datetime import timedelta
from typing import Any, Final

import yaml

from admission.base import quantity
from admission.base.names import ResourceName
from admission.base.namespaces import NAME_LABEL, ManagedNamespaces
from admission.base.selectors import Requirement
from admission.config import gpu_configuration, kueue_configuration
from admission.config.gpu_configuration import GpuConfiguration
from admission.config.kueue_configuration import Configuration
from admission.config.model import ConfigModel
from admission.scheduling import model, transformation

_MICROSECOND: Final = timedelta(microseconds=1)
_EDIT_BATCH_US: Final = 1_000_000
"""Microseconds for which changes of queues are gathered until parked Workloads are tried again."""
_HEADS_PER_CYCLE: Final = 200
"""Bounds the time of one cycle where there are many queues; their trees take turns."""


class Settings(ConfigModel):
    """All settings of one installation.

    Attributes:
        kueue: Kueue's document.
        gpu: our own document.
    """

    kueue: Configuration = Configuration()
    gpu: GpuConfiguration = GpuConfiguration()

    @property
    def namespace(self) -> str:
        """Return the namespace in which the program is installed and keeps its Lease."""
        return self.kueue.namespace

    @property
    def managed_namespaces(self) -> ManagedNamespaces:
        """Return the namespaces in which pods and Jobs are managed."""
        modes = self.gpu.effective_modes
        return ManagedNamespaces(
            excluded=frozenset(self.gpu.excluded_namespaces),
            requirements=self.kueue.managed_jobs_namespace_selector.requirements,
            queue_required=self.kueue.manage_jobs_without_queue_name,
            enforced_with_queue=modes.with_queue.enforce,
            enforced_without_queue=modes.without_queue.enforce,
        )

    def serves_framework(self, name: str) -> bool:
        """Return whether owners of a kind are held as a whole, by Kueue's name of the framework.

        Pods and Jobs always are. Of the others those that are listed, or all where none is.
        """
        listed = self.kueue.integrations.frameworks
        return name in kueue_configuration.ALWAYS_SERVED or not listed or name in listed

    def scheduling(self) -> model.Config:
        """Return the settings that change decisions."""
        waiting = self.kueue.wait_for_pods_ready
        fair, by_usage = self.kueue.fair_sharing, self.kueue.admission_fair_sharing
        return model.Config(
            fair_sharing=None
            if fair is None
            else model.FairSharing(
                strategies=tuple(map(model.FairStrategy, fair.preemption_strategies))
            ),
            admission_fair_sharing=None
            if by_usage is None
            else model.AdmissionFairSharing(
                half_life_us=by_usage.usage_half_life_time // _MICROSECOND,
                sampling_us=by_usage.usage_sampling_interval // _MICROSECOND,
                weights={
                    ResourceName(name): quantity.parse_nano(weight)
                    for name, weight in by_usage.resource_weights.items()
                },
            ),
            ignore_undeclared=self.kueue.resources.quota_check_strategy == "IgnoreUndeclared",
            requeue_by_eviction=waiting is None
            or waiting.requeuing_strategy.timestamp == "Eviction",
            one_at_a_time=waiting is not None and waiting.block_admission,
            paused=self.gpu.paused,
            consistent_flavors=True,
            placement=None
            if self.gpu.placement is None
            else model.Enforcement(self.gpu.placement),
            edit_batch_us=_EDIT_BATCH_US,
            heads_per_cycle=_HEADS_PER_CYCLE,
        )

    def transformations(self) -> transformation.TransformationRules:
        """Return the settings that change how requests are counted."""
        resources = self.kueue.resources
        return transformation.TransformationRules(
            excluded_prefixes=tuple(resources.exclude_resource_prefixes),
            transformations={
                item.input: transformation.Transformation(
                    outputs={
                        name: quantity.parse_nano(text) for name, text in item.outputs.items()
                    },
                    keep=item.strategy == "Retain",
                    multiply_by=item.multiply_by,
                )
                for item in resources.transformations
            },
            device_classes={
                name: mapping.name
                for mapping in resources.device_class_mappings
                for name in mapping.device_class_names
            },
        )

    def documents(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return both documents with every field that is used; reading them gives the same."""
        kueues = self.kueue.model_dump(exclude_none=True)
        by_name = Requirement(
            NAME_LABEL,
            "NotIn",
            tuple(sorted({self.namespace, *gpu_configuration.ALWAYS_EXCLUDED})),
        )
        listed = (by_name, *self.kueue.managed_jobs_namespace_selector.requirements)
        kueues["managedJobsNamespaceSelector"] = {
            "matchExpressions": [requirement.document() for requirement in listed]
        }
        return kueues, self.gpu.model_dump(exclude_none=True)

    def to_yaml(self) -> str:
        """Return a file that gives these settings."""
        return to_text(self.documents())


def to_text(documents: Any) -> str:
    """Return YAML documents, one after the other."""
    text: str = yaml.safe_dump_all(documents, sort_keys=False, width=99, allow_unicode=True)
    return text


def settled(kueues: Configuration, gpu: GpuConfiguration) -> Settings:
    """Return the settings of two documents, each meaning in the one place where it is shown.

    Names of namespaces that the selector leaves out join the excluded ones. Health that is served
    where metrics are is served once.
    """
    selector = kueues.managed_jobs_namespace_selector
    by_name = [one.values for one in selector.requirements if _is_by_name(one)]
    is_named = "excluded_namespaces" in gpu.model_fields_set
    excluded = {
        kueues.namespace,
        *gpu_configuration.ALWAYS_EXCLUDED,
        *(gpu.excluded_namespaces if is_named else gpu_configuration.EXCLUDED),
        *(name for listed in by_name for name in listed),
    }
    requirements = [
        kueue_configuration.SelectorRequirement.model_validate(requirement.document())
        for requirement in selector.requirements
        if not _is_by_name(requirement)
    ]
    changes: dict[str, Any] = {
        "managed_jobs_namespace_selector": kueue_configuration.SelectorConfig(
            match_expressions=requirements
        )
    }
    if kueues.health.health_probe_bind_address == kueues.metrics.bind_address:
        changes["health"] = kueue_configuration.Health()
    return Settings(
        kueue=kueues.model_copy(update=changes),
        gpu=gpu.model_copy(update={"excluded_namespaces": sorted(excluded)}),
    )


def _is_by_name(requirement: Requirement) -> bool:
    return requirement.key == NAME_LABEL and requirement.operator == "NotIn"
