"""A small saved module, and archives with other members but a sound manifest."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import autosched as asd
from autosched.runtime import archive as archives
from autosched.runtime.module import Module
from autosched.runtime.user_key import signature

SHAPE = (12, 20)


def small_module() -> Module:
    """``C[i, j] = exp(sum_k A[i, k] * W[k, j])``, W constant, one thread: two functions of libm."""
    a = asd.placeholder(SHAPE, name="A")
    w = asd.placeholder((SHAPE[1], 24), name="W", constant=True)
    k = asd.reduce_axis(SHAPE[1], name="k")
    b = asd.compute((SHAPE[0], 24), lambda i, j: asd.sum(a[i, k] * w[k, j], axis=k), name="B")
    c = asd.compute((SHAPE[0], 24), lambda i, j: asd.exp(b[i, j]), name="C")
    task = asd.Task(asd.ComputeDAG([c]), asd.Target("cpu", threads=1), name="exp_product")
    rng = np.random.default_rng(0)
    return task.module({"W": rng.standard_normal((SHAPE[1], 24), dtype=np.float32) / 10})


def members_of(path: Path) -> dict[str, bytes]:
    """All members but the manifest."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name != "manifest.json"]
        return {name: archive.read(name) for name in names}


def write_sealed(path: Path, members: Mapping[str, bytes], compress: int = 0) -> None:
    """An archive whose manifest and signature fit its members, whatever these are."""
    manifest = {name: [len(data), archives._digest(data)] for name, data in members.items()}
    sealed = {"members": manifest, "signature": signature(archives._canonical(manifest)).text}
    with zipfile.ZipFile(path, "w", compress) as archive:
        archive.writestr("manifest.json", json.dumps(sealed))
        for name, data in members.items():
            archive.writestr(name, data)


def change_plan(path: Path, change: Callable[[Any], None]) -> None:
    """Replace the plan by another one, in place."""
    members = members_of(path)
    plan = json.loads(members["module.json"])
    change(plan)
    members["module.json"] = json.dumps(plan).encode()
    write_sealed(path, members)
