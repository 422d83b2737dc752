"""What a configuration file says about Workloads: readiness of pods, retention, labels.

Source: kueue apis/config/v1beta1/defaults.go and v1beta2/defaults.go for what a missing field
means: v1beta2 takes a time-out of 0 for unset, v1beta1 does not, and is refused then by
pkg/config/validation.go. Differs: a file without ``waitForPodsReady`` does not wait (ADR 0005).
"""

import re
from collections.abc import Mapping
from typing import Final

from admission.api import scalars
from admission.config import kueue
from admission.config.settings import PodsReadySettings, RetentionSettings, WorkloadSettings

Document = kueue.ConfigurationV1Beta1 | kueue.ConfigurationV1Beta2

_MINUTE_US: Final = 60_000_000
_TIMEOUT_US: Final = 30 * _MINUTE_US
_TIMEOUT_V1BETA1_US: Final = 5 * _MINUTE_US
_BASE_SECONDS: Final = 60
_MAX_SECONDS: Final = 3600
_MAX_KEY: Final = 317


def waits(document: Document) -> bool:
    """Whether pods have to become ready in time; v1beta1 must say so."""
    found = document.wait_for_pods_ready
    if isinstance(found, kueue.WaitForPodsReadyV1Beta1):
        return found.enable is True
    return found is not None


def is_one_at_a_time(document: Document) -> bool:
    """Whether nothing is admitted while pods are not ready; v1beta1 does so unless told not to."""
    found = document.wait_for_pods_ready
    if found is None or not waits(document):
        return False
    if found.block_admission is None:
        return isinstance(found, kueue.WaitForPodsReadyV1Beta1)
    return found.block_admission


def without_effect(document: Document) -> tuple[str, ...]:
    """Paths of fields that say how to wait in a file of v1beta1 that does not wait."""
    found = document.wait_for_pods_ready
    if found is None or waits(document):
        return ()
    fields = {name for name in found.model_fields_set if getattr(found, name) is not None}
    aliases = {name: type(found).model_fields[name].alias or name for name in fields - {"enable"}}
    return tuple(f"waitForPodsReady.{aliases[name]}" for name in sorted(aliases))


def read(document: Document, problems: list[str]) -> WorkloadSettings:
    """The settings; what is wrong is added to ``problems``, and the settings mean nothing then."""
    found = document.integrations or kueue.Integrations()
    keys = tuple(found.label_keys_to_copy or ())
    for index, key in enumerate(keys):
        if len(key) > _MAX_KEY or re.fullmatch(scalars.QUALIFIED_NAME_PATTERN, key) is None:
            path = f"integrations.labelKeysToCopy[{index}]"
            problems.append(f"{path}: {key!r}: must be the key of a label")
    return WorkloadSettings(
        pods_ready=_pods_ready(document, problems) if waits(document) else None,
        retention=_retention(document, problems),
        copied_labels=keys,
    )


def _pods_ready(document: Document, problems: list[str]) -> PodsReadySettings | None:
    found = document.wait_for_pods_ready or kueue.WaitForPodsReady()
    older = isinstance(found, kueue.WaitForPodsReadyV1Beta1)
    path = "waitForPodsReady"
    if older:
        timeout = _default(found.timeout, _TIMEOUT_V1BETA1_US)
    else:
        timeout = found.timeout or _TIMEOUT_US
    recovery = _default(found.recovery_timeout, timeout)
    requeuing = found.requeuing_strategy or kueue.RequeuingStrategy()
    wrong = _negative(
        {
            f"{path}.timeout": timeout,
            f"{path}.recoveryTimeout": found.recovery_timeout or 0,
        }
    )
    if timeout == 0:
        wrong.append(f"{path}.timeout: must be above 0; leave it out for the default, 5m")
    if wrong:
        problems += wrong
        return None
    return PodsReadySettings(
        timeout_us=timeout,
        recovery_us=recovery,
        backoff_base_seconds=_default(requeuing.backoff_base_seconds, _BASE_SECONDS),
        backoff_max_seconds=_default(requeuing.backoff_max_seconds, _MAX_SECONDS),
        backoff_limit=requeuing.backoff_limit_count,
    )


def _retention(document: Document, problems: list[str]) -> RetentionSettings:
    policies = document.object_retention_policies or kueue.RetentionPolicies()
    found = policies.workloads or kueue.WorkloadRetention()
    path = "objectRetentionPolicies.workloads"
    wrong = _negative(
        {
            f"{path}.afterFinished": found.after_finished or 0,
            f"{path}.afterDeactivatedByKueue": found.after_deactivated_by_kueue or 0,
        }
    )
    if wrong:
        problems += wrong
        return RetentionSettings()
    return RetentionSettings(
        after_finished_us=found.after_finished,
        after_deactivated_us=found.after_deactivated_by_kueue,
    )


def _negative(durations: Mapping[str, int]) -> list[str]:
    return [f"{path}: must not be negative" for path, value in durations.items() if value < 0]


def _default(value: int | None, default: int) -> int:
    return default if value is None else value
