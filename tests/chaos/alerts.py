"""Prometheus beside a storm: alerts may fire while it rages, and none may once all is calm.

An hour of the rules is a minute here, so that a storm of minutes shows what takes hours.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.chaos.site import CONTROLLERS, Site
from tests.observability import asking, files, programs
from tests.observability.asking import Asked

CALM_SECONDS: Final = 75.0
"""After which no rule looks back at the storm: most look back an hour."""
_HASTE: Final = 60
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(?<=\[)(\d+)([smhd])(?=\])|(?<=offset )(\d+)([smhd])")


class NoPrometheusError(Exception):
    """Prometheus is not compiled."""


@contextmanager
def watched(site: Site, folder: Path) -> Iterator[Asked]:
    """Run Prometheus with the rules of ``deploy/observability`` until the end of the block.

    Raises:
        NoPrometheusError: it is not compiled.
    """
    program = programs.built("prometheus")
    if program is None:
        raise NoPrometheusError("Prometheus is not compiled: run `make alerts` first")
    place = folder / "prometheus"
    place.mkdir(exist_ok=True)
    with asking.running(program, place, _scrapes(site), hasty(files.rules())) as asked:
        yield asked


def firing(asked: Asked) -> list[str]:
    """Return the alerts that fire now, with their labels."""
    found = []
    for one in asked.query('ALERTS{alertstate="firing"}'):
        labels = dict(one["metric"])
        name = labels.pop("alertname")
        more = ", ".join(f"{key}={labels[key]}" for key in sorted(labels) if key[0] != "_")
        found.append(f"{name}: {more}")
    return sorted(found)


def hasty(rules: dict[str, Any]) -> dict[str, Any]:
    """Return rules in which each hour is a minute; a second stays the least."""

    def quicker(match: re.Match[str]) -> str:
        number, unit = (one for one in match.groups() if one)
        return f"{max(_least(match), int(number) * _SECONDS[unit] // _HASTE)}s"

    groups = []
    for group in rules["groups"]:
        made = []
        for rule in group["rules"]:
            changed = {**rule, "expr": _DURATION.sub(quicker, rule["expr"])}
            if "for" in rule:
                number, unit = rule["for"][:-1], rule["for"][-1]
                changed["for"] = f"{max(1, int(number) * _SECONDS[unit] // _HASTE)}s"
            made.append(changed)
        groups.append({**group, "rules": made})
    return {"groups": groups}


def _least(match: re.Match[str]) -> int:
    """Return the shortest duration: a rate needs several samples, one a second."""
    return 5 if match.group(1) else 1


def _scrapes(site: Site) -> list[dict[str, Any]]:
    def job(name: str, url: str, **more: Any) -> dict[str, Any]:
        scheme, _, target = url.partition("://")
        targets = [{"targets": [target]}]
        return {
            "job_name": name, "honor_labels": True, "scheme": scheme,
            "static_configs": targets, **more,
        }  # fmt: skip

    authority = str(site.certificates / "ca.crt")
    cluster = site.cluster
    return [
        *(job(name, site.url(name)) for name in CONTROLLERS),
        job("webhook", site.webhook_url,
            tls_config={"ca_file": authority, "server_name": "127.0.0.1"}),
        job("apiserver", f"https://127.0.0.1:{cluster.port}",
            tls_config={"ca_file": str(cluster.ca_file)},
            authorization={"credentials": cluster.admin_token}),
    ]  # fmt: skip
