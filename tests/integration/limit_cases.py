"""Generated LimitRanges and pods, the same in every run."""

import random
from typing import Any, Final

GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
NIC: Final = "example.com/nic"
DEVICES: Final = (GPU, SLICE, NIC)
NATIVE: Final = {
    "cpu": ("250m", "500m", "1", "1500m", "2"),
    "memory": ("64Mi", "100M", "1Gi", "1536Mi", "2Gi"),
}
COUNTS: Final = ("0", "1", "2", "3")


class Cases:
    """A seeded source of objects."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def ranges(self) -> list[list[dict[str, Any]]]:
        """Items of one or two LimitRanges; only the first fills in defaults."""
        first = [self._item("Container")]
        if self._chance(0.4):
            first.append(self._item("Pod"))
        return [first, [self._item("Pod")]] if self._chance(0.3) else [first]

    def pod(self) -> dict[str, Any]:
        """A pod of containers, init containers and sidecars."""
        containers = [self._container(f"c{i}") for i in range(self._random.randint(1, 3))]
        init = [self._container(f"i{i}") for i in range(self._random.choice([0, 0, 1, 2]))]
        for container in init:
            if self._chance(0.5):
                container["restartPolicy"] = "Always"
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "labels": {"kueue.x-k8s.io/queue-name": "default"}},
            "spec": {"containers": containers, "initContainers": init},
        }

    def _chance(self, part: float) -> bool:
        return self._random.random() < part

    def _amount(self, name: str) -> str:
        return self._random.choice(NATIVE.get(name, COUNTS))

    def _item(self, kind: str) -> dict[str, Any]:
        item: dict[str, Any] = {"type": kind}
        fields = {"min": 0.3, "max": 0.6, "maxLimitRequestRatio": 0.15}
        if kind == "Container":
            fields |= {"default": 0.3, "defaultRequest": 0.15}
        for name in (*NATIVE, *DEVICES):
            if not self._chance(0.5 if kind == "Container" else 0.3):
                continue
            for field, part in fields.items():
                if self._chance(part):
                    ratio = field == "maxLimitRequestRatio"
                    amount = self._random.choice(("1", "2", "3")) if ratio else self._amount(name)
                    item.setdefault(field, {})[name] = amount
        return item

    def _container(self, name: str) -> dict[str, Any]:
        resources: dict[str, dict[str, str]] = {}
        for resource in (*NATIVE, *DEVICES):
            if not self._chance(0.5):
                continue
            amount = self._amount(resource)
            resources.setdefault("limits", {})[resource] = amount
            if resource in DEVICES and self._chance(0.5):
                resources.setdefault("requests", {})[resource] = amount
            elif resource in NATIVE and self._chance(0.5):
                least = NATIVE[resource][0]
                resources.setdefault("requests", {})[resource] = least
        return {"name": name, "image": "train", "resources": resources}
