"""``make krew``: archives of ``kubectl gpu`` for krew, and the manifest that names them.

krew unpacks one archive for an operating system and processor and links one file of it into the
PATH. It installs no Python and no packages, so an archive holds all packages of
``requirements.lock`` for each supported Python, and the user's own Python runs them.

    make krew KREW_URL=https://downloads.example.com/v0.2.0

writes ``build/krew/kubectl-gpu_v0.2.0_linux_amd64.tar.gz`` and so on, and ``build/krew/gpu.yaml``.
The same commit and Python give the same archives.
"""

import argparse
import filecmp
import gzip
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from deploy import plugin

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
LOCK: Final = HERE / "requirements.lock"
LAUNCHER: Final = "kubectl-gpu"
PLATFORMS: Final = {
    ("linux", "amd64"): "x86_64-manylinux_2_28",
    ("linux", "arm64"): "aarch64-manylinux_2_28",
    ("darwin", "amd64"): "x86_64-apple-darwin",
    ("darwin", "arm64"): "aarch64-apple-darwin",
}
"""Operating system and processor as krew names them, and the platform as uv does."""
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
_EPOCH: Final = 0
_EPOCH_OF_WHEELS: Final = 315532800
"""1980-01-01, the earliest time that a ZIP file can say."""
_PLAIN: Final = 0o644
_EXECUTABLE: Final = 0o755


def version() -> str:
    """Return the version of the project, with a leading ``v``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return f"v{project['version']}"


def build_wheel(folder: Path) -> Path:
    """Return the wheel of the plugin, which is built into a folder from the checkout."""
    files = {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for name in plugin.FILES
        for path in _files(ROOT / name)
    }
    return plugin.build_wheel(folder, files, _EPOCH_OF_WHEELS)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return [one for one in path.rglob("*") if one.is_file() and "__pycache__" not in one.parts]


def archive(
    target: Path, wheel: Path, platform: tuple[str, str], pythons: Sequence[str] = PYTHONS
) -> None:
    """Write the archive for a platform.

    Args:
        target: path of the ``.tar.gz``.
        wheel: wheel of the plugin.
        platform: operating system and processor, a key of `PLATFORMS`.
        pythons: versions of Python whose libraries it holds.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        packages = [folder / "cp{}{}".format(*python.split(".")) for python in pythons]
        for python, installed in zip(pythons, packages, strict=True):
            _install(installed, PLATFORMS[platform], python)
        _share(packages, folder / "lib")
        with zipfile.ZipFile(wheel) as content:
            content.extractall(folder / "lib")
        for one in (HERE / LAUNCHER, HERE / "main.py", ROOT / "LICENSE"):
            shutil.copy(one, folder)
        _pack(folder, target)


def _install(folder: Path, platform: str, python: str) -> None:
    uv = Path(sys.executable).with_name("uv")
    subprocess.run(
        [
            str(uv), "pip", "install", "--quiet", "--target", str(folder), "--no-deps",
            "--require-hashes", "--only-binary", ":all:", "--link-mode", "copy",
            "--python-platform", platform, "--python-version", python, "-r", str(LOCK),
        ],
        check=True,
    )  # fmt: skip
    for one in ("bin", ".lock"):
        path = folder / one
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)


def _share(folders: Sequence[Path], shared: Path) -> None:
    """Move what is equal in all folders, of packages as a whole, to one that they share."""
    shared.mkdir()
    first, *others = folders
    for one in sorted(first.iterdir()):
        if any(path.suffix in {".so", ".pyd"} for path in (one, *one.rglob("*"))):
            continue
        if all(_equal(one, folder / one.name) for folder in others):
            one.rename(shared / one.name)
            for folder in others:
                _remove(folder / one.name)


def _equal(one: Path, other: Path) -> bool:
    if one.is_dir() != other.is_dir() or not other.exists():
        return False
    if one.is_file():
        return filecmp.cmp(one, other, shallow=False)
    names = {path.name for path in one.iterdir()}
    return names == {path.name for path in other.iterdir()} and all(
        _equal(one / name, other / name) for name in names
    )


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _pack(folder: Path, target: Path) -> None:
    """Write a folder as ``.tar.gz`` whose bytes depend on names and content only."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=_EPOCH) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(folder.rglob("*")):
            if path.is_dir() or "__pycache__" in path.parts:
                continue
            content = path.read_bytes()
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size, entry.mtime = len(content), _EPOCH
            entry.mode = _EXECUTABLE if path.name == LAUNCHER else _PLAIN
            tar.addfile(entry, io.BytesIO(content))


def manifest(
    archives: Mapping[tuple[str, str], Path], url: str, release: str
) -> Mapping[str, Any]:
    """Return the manifest for krew.

    Args:
        archives: those that were written, by operating system and processor.
        url: where they can be downloaded, without the name of the file.
        release: version with a leading ``v``.
    """
    document: dict[str, Any] = yaml.safe_load((HERE / "gpu.yaml").read_text("utf-8"))
    document["spec"]["version"] = release
    document["spec"]["platforms"] = [
        {
            "selector": {"matchLabels": {"os": system, "arch": processor}},
            "uri": f"{url.rstrip('/')}/{path.name}",
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "bin": LAUNCHER,
        }
        for (system, processor), path in sorted(archives.items())
    ]
    return document


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the archives and the manifest."""
    parser = argparse.ArgumentParser(description="Packs kubectl gpu for krew.")
    parser.add_argument("--url", required=True, help="where the archives can be downloaded")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "krew")
    options = parser.parse_args(arguments)
    release = version()
    archives = {}
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        for platform in PLATFORMS:
            path = options.out / f"{LAUNCHER}_{release}_{'_'.join(platform)}.tar.gz"
            archive(path, wheel, platform)
            archives[platform] = path
            print(path)
    written = options.out / "gpu.yaml"
    written.write_text(yaml.safe_dump(manifest(archives, options.url, release), sort_keys=False))
    print(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
