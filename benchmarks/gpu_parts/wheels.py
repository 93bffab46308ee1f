"""What a bare GPU machine lacks: wheels, downloaded here and installed there without a network.

    python -m benchmarks.gpu_parts.wheels DIR --python 3.12

Only the standard library: this runs before anything else is there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from re import match
from typing import Final

ROOT: Final = Path(__file__).parents[2]
# Of the project's extra for development: what its tests import.
_TESTS: Final = ("hypothesis", "pytest", "pytest-timeout", "pytest-xdist")
# What these need in turn: the others need nothing that is not in the list, or come with a system
# that has PyTorch.
_FURTHER: Final = (
    "attrs", "execnet", "iniconfig", "joblib", "markdown-it-py", "mdurl", "mpmath", "packaging",
    "pluggy", "protobuf", "pygments", "scipy", "sortedcontainers", "threadpoolctl",
    "typing-extensions", "cuda-core", "cuda-bindings", "cuda-pathfinder",
    "nvidia-cuda-nvrtc",
)  # fmt: skip
# Of wheels for x86-64 that pip takes for one machine or another.
_PLATFORMS: Final = tuple(
    f"manylinux{name}_x86_64" for name in ("_2_28", "_2_27", "_2_24", "_2_17", "2014", "1")
)
# A distribution without code: a bare machine has its parts.
_EMPTY: Final = ("cuda-python",)


def wanted() -> tuple[str, ...]:
    """Names of the distributions that the project and its tests need."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["onnx"]]
    names = [found[0] for text in declared if (found := match(r"[\w.-]+", text))]
    return tuple(dict.fromkeys(n for n in [*names, *_TESTS, *_FURTHER] if n not in _EMPTY))


def missing(names: Iterable[str]) -> tuple[str, ...]:
    """Those of the distributions that are not installed."""

    def here(name: str) -> bool:
        try:
            return bool(version(name))
        except PackageNotFoundError:
            return False

    return tuple(name for name in names if not here(name))


def download(folder: Path, names: Sequence[str], python: str) -> None:
    """Fetch wheels of the versions that are installed here, for an x86-64 machine.

    Args:
        folder: is made, and gets the wheels.
        names: of distributions that are installed here.
        python: of the machine, ``3.12``.

    Raises:
        CalledProcessError: pip fails; it has said why.
    """
    pins = [f"{name}=={version(name)}" for name in names]
    platforms = [word for platform in _PLATFORMS for word in ("--platform", platform)]
    options = ["--no-deps", "--only-binary=:all:", "--python-version", python]
    pip = [sys.executable, "-m", "pip", "download", "-q", *options, "--implementation", "cp"]
    subprocess.run([*pip, *platforms, "-d", str(folder), *pins], check=True)


def install(wheels: Path, site: Path) -> tuple[str, ...]:
    """Install what is missing here from a folder of wheels; the names of what was.

    Args:
        wheels: folder of wheels; those of installed distributions are left alone.
        site: folder that gets the packages; put it on the path of processes that need them.

    Raises:
        CalledProcessError: pip fails; it has said why.
    """
    needed = {name.lower().replace("-", "_") for name in missing(wanted())}
    chosen = [w for w in sorted(wheels.glob("*.whl")) if w.name.split("-")[0].lower() in needed]
    if chosen:
        options = ["--no-index", "--no-deps", "--upgrade", "--target", str(site)]
        pip = [sys.executable, "-m", "pip", "install", "-q", *options]
        subprocess.run([*pip, *map(str, chosen)], check=True)
    return tuple(wheel.name.split("-")[0] for wheel in chosen)


def main() -> None:
    """Download what the other machine lacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    parser.add_argument("--python", default=here, help="version there")
    parser.add_argument("--only", nargs="+", default=wanted(), help="names; default: all")
    arguments = parser.parse_args()
    download(arguments.folder, arguments.only, arguments.python)


if __name__ == "__main__":
    main()
