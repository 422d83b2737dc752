"""requirements.lock pins, by hash, everything that pyproject.toml asks for."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.repo import tree

PROJECT = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())
LOCK = (tree.ROOT / "requirements.lock").read_text()
WANTED = [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"]]


def pins(lock: str) -> dict[str, Version]:
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", lock, re.MULTILINE)
    return {canonicalize_name(name): Version(version) for name, version in found}


@pytest.mark.parametrize("wanted", WANTED)
def test_the_lock_satisfies(wanted):
    requirement = Requirement(wanted)
    assert pins(LOCK)[canonicalize_name(requirement.name)] in requirement.specifier


def test_the_lock_has_what_the_build_needs():
    for wanted in PROJECT["build-system"]["requires"]:
        requirement = Requirement(wanted)
        assert pins(LOCK)[canonicalize_name(requirement.name)] in requirement.specifier


@pytest.mark.parametrize(
    "name",
    [
        "requirements.lock",
        "deploy/build.lock",
        "deploy/krew/requirements.lock",
        "tests/controlplane/toolchain.lock",
    ],
)
def test_every_pin_has_a_hash_and_none_a_source(name):
    lock = (tree.ROOT / name).read_text()
    entries = re.findall(r"^[A-Za-z0-9._-]+==(?:.*\\\n)*.*$", lock, re.MULTILINE)
    assert len(entries) == len(pins(lock)) > 0
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in lock
