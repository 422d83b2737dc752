"""What the Kubernetes version under test serves, for tests that need it.

Source: the pages "Feature Gates" and the release notes of Kubernetes; docs/guides/compatibility.md
says what gpu-admission cannot do without it.
"""

from typing import Final

import pytest

from tests.controlplane import programs

SERVES_CLAIMS: Final = programs.minor() >= (1, 34)
"""``resource.k8s.io/v1``."""

SERVES_MUTATING_POLICIES: Final = programs.minor() >= (1, 36)
"""``admissionregistration.k8s.io/v1`` MutatingAdmissionPolicy."""

READS_POD_RESOURCES: Final = programs.minor() >= (1, 34)
"""``spec.resources`` of pods."""

NAMES_CLASSES: Final = programs.minor() >= (1, 36)
"""``extendedResourceName`` of a DeviceClass, without a feature gate."""

CHECKS_FORMATS: Final = programs.minor() >= (1, 36)
"""That an integer has as many bits as its schema says."""

needs_claims: Final = pytest.mark.skipif(
    not SERVES_CLAIMS, reason="resource.k8s.io/v1 is served since 1.34"
)
needs_names_of_classes: Final = pytest.mark.skipif(
    not NAMES_CLASSES, reason="DeviceClasses have extendedResourceName since 1.36"
)
needs_mutating_policies: Final = pytest.mark.skipif(
    not SERVES_MUTATING_POLICIES, reason="MutatingAdmissionPolicy v1 is served since 1.36"
)
needs_resizable_jobs: Final = pytest.mark.skipif(
    programs.minor() < (1, 36), reason="what a suspended Job requests may change since 1.36"
)
