"""GPU resource names of other programs: what each means, and how quota counts it.

A pod that asks for such a resource and for none that is managed is not ours, so no quota counts
it. The table is the one place that knows the names; the policies that warn, the documentation
and the tests read it.

Source: the device plugins and schedulers named in each row: Project-HAMi/HAMi docs, volcano-sh
devices, koordinator apis/extension/device_share.go, ROCm/k8s-device-plugin, intel device plugins,
NVIDIA/KAI-Scheduler pkg/common/constants, Kubernetes documentation of the clouds.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from admission.base import names


class Mend(Enum):
    """What an administrator can do about a resource name; the value is the sentence."""

    COUNT = (
        "to have it counted, ask an administrator to add it to managedResources of the"
        " GpuConfiguration and to coveredResources of the ClusterQueue"
    )
    MULTIPLY = (
        f"ask for {names.GPU_RESOURCE} with the annotation {names.GPU_MEMORY} or"
        f" {names.MIG_PROFILE} instead; or ask an administrator to add it to managedResources and"
        " to count it by a transformation with multiplyBy, as one unit holds for each GPU of the"
        " container"
    )
    SPELL = "no node offers it: ask for nvidia.com/gpu"
    CHOOSE = f"ask for {names.GPU_RESOURCE} with nodeSelector {names.GPU_PRODUCT_LABEL}"
    CHOOSE_OF_AMD = "ask for amd.com/gpu with a nodeSelector that chooses the product"
    REQUEST = (
        "no quota can count it: ask for nvidia.com/gpu with the annotation"
        f" {names.GPU_MEMORY} or {names.MIG_PROFILE} instead"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """Names of one program.

    Attributes:
        vendor: the program or maker.
        pattern: regular expression of RE2 that the whole name of a resource matches; of an
            annotation's key where `is_annotation`.
        examples: names as users write them.
        unit: what one unit is.
        mend: what to do about it.
        is_annotation: whether pods say it by an annotation, with no resource at all.
    """

    vendor: str
    pattern: str
    examples: tuple[str, ...]
    unit: str
    mend: Mend
    is_annotation: bool = False


TABLE: Final = (
    Foreign(
        vendor="AMD GPU",
        pattern=r"amd\.com/(gpu|[a-z]+_nps[0-9])",
        examples=("amd.com/gpu", "amd.com/cpx_nps4"),
        unit="a GPU, or a partition of one",
        mend=Mend.COUNT,
    ),
    Foreign(
        vendor="Intel GPU",
        pattern=r"gpu\.intel\.com/(i915|xe|tiles|millicores|memory\.max)",
        examples=("gpu.intel.com/i915", "gpu.intel.com/xe"),
        unit="a GPU, or a share of one where the plugin shares it",
        mend=Mend.COUNT,
    ),
    Foreign(
        vendor="other accelerator",
        pattern=(
            r"habana\.ai/gaudi|google\.com/tpu|aws\.amazon\.com/neuron(core|device)?"
            r"|huawei\.com/(Ascend.*|npu-core)|cambricon\.com/.*mlu.*|hygon\.com/dcu.*"
            r"|iluvatar\.ai/.*gpu|metax-tech\.com/.*gpu|mthreads\.com/.*gpu"
        ),
        examples=("habana.ai/gaudi", "google.com/tpu", "huawei.com/Ascend910"),
        unit="a device",
        mend=Mend.COUNT,
    ),
    Foreign(
        vendor="HAMi",
        pattern=r"nvidia\.com/(gpumem|gpumem-percentage|gpucores)",
        examples=("nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),
        unit="MiB of memory, or percent of memory or cores, of each GPU",
        mend=Mend.MULTIPLY,
    ),
    Foreign(
        vendor="Volcano",
        pattern=r"volcano\.sh/(vgpu-(number|memory|memory-percentage|cores)|gpu-(number|memory))",
        examples=("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/gpu-memory"),
        unit="a share of a GPU, or MiB or percent of each share",
        mend=Mend.MULTIPLY,
    ),
    Foreign(
        vendor="Koordinator",
        pattern=r"koordinator\.sh/gpu(\.shared|-core|-memory|-memory-ratio)?",
        examples=("koordinator.sh/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu.shared"),
        unit="percent of a GPU, bytes of its memory, or a number of shares",
        mend=Mend.MULTIPLY,
    ),
    Foreign(
        vendor="Alibaba Cloud",
        pattern=r"aliyun\.com/gpu-(mem|count|core\.percentage)",
        examples=("aliyun.com/gpu-mem",),
        unit="GiB of memory, a GPU, or percent of one",
        mend=Mend.COUNT,
    ),
    Foreign(
        vendor="Tencent Cloud",
        pattern=r"tencent\.com/vcuda-(core|memory)",
        examples=("tencent.com/vcuda-core", "tencent.com/vcuda-memory"),
        unit="percent of a GPU, or 256 MiB of its memory",
        mend=Mend.COUNT,
    ),
    Foreign(
        vendor="nos",
        pattern=r"nvidia\.com/gpu-[0-9]+gb",
        examples=("nvidia.com/gpu-10gb",),
        unit="a share of a GPU with that much memory",
        mend=Mend.COUNT,
    ),
    Foreign(
        vendor="InstaSlice",
        pattern=r"(mig\.das|instaslice)\.(com|redhat\.com)/.*",
        examples=("mig.das.com/1g.5gb",),
        unit="a MIG instance that is cut on demand",
        mend=Mend.COUNT,
    ),
    Foreign(
        vendor="KubeVirt",
        pattern=r"nvidia\.com/([A-Z][A-Za-z]*[-_.0-9].*|pgpu)",  # PCI names; GPU is misspelled
        examples=("nvidia.com/NVIDIA_A10-12Q", "nvidia.com/GA102GL_A10", "nvidia.com/pgpu"),
        unit="a GPU or vGPU that is passed to a virtual machine",
        mend=Mend.COUNT,
    ),
    Foreign(
        vendor="misspelled",
        pattern=names.MISSPELLED_GPU,
        examples=("nvidia.com/gpus", "nvidia/gpu", "nvidia.com/GPU"),
        unit="a GPU is nvidia.com/gpu",
        mend=Mend.SPELL,
    ),
    Foreign(
        vendor="product of NVIDIA",
        pattern=names.NVIDIA_PRODUCT,
        examples=("nvidia.com/a100", "nvidia.com/gpu-h100"),
        unit="nodes hardly offer it",
        mend=Mend.CHOOSE,
    ),
    Foreign(
        vendor="product of AMD",
        pattern=names.AMD_PRODUCT,
        examples=("amd.com/mi300x",),
        unit="nodes hardly offer it",
        mend=Mend.CHOOSE_OF_AMD,
    ),
    Foreign(
        vendor="KAI Scheduler or Run:ai",
        pattern=r"gpu-fraction|gpu-memory",
        examples=("gpu-fraction", "gpu-memory"),
        unit="a fraction of a GPU, or MiB of its memory, without any resource",
        mend=Mend.REQUEST,
        is_annotation=True,
    ),
)
"""Every row; no name belongs to two."""
