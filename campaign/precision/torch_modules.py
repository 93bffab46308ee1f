"""Random PyTorch modules, imported or compiled in place, against eager execution."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import numpy as np
import torch

import autosched as asd
from campaign.part import Mark
from campaign.verdict import Json, Verdict
from sketch.errors import AutoschedError

_PLAIN: Final = (
    "ReLU", "GELU", "Tanh", "Sigmoid", "SiLU", "ELU", "Softplus", "Hardswish", "LeakyReLU", "Mish",
    "Hardtanh", "ReLU6", "Softsign", "LogSigmoid", "Identity",
)  # fmt: skip
_TOLERANCE: Final = 2e-4


class TorchPart:
    """Sequences of layers."""

    def draw(self, seed: int) -> Json:
        """Layers as (class, arguments), the input's shape, and how it is compiled."""
        rng = Random(seed)
        flat = rng.random() < 0.5
        shape, layers = _flat(rng) if flat else _image(rng)
        way = rng.choice(("from_torch", "compile"))
        return {"shape": shape, "layers": layers, "way": way, "seed": rng.randrange(2**31)}

    def judge(self, case: Json, mark: Mark) -> Verdict:
        """Eager, and ours."""
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        torch.manual_seed(case["seed"])
        model = torch.nn.Sequential(
            *(getattr(torch.nn, name)(*arguments) for name, arguments in case["layers"])
        ).eval()
        example = torch.randn(*case["shape"])
        counts = {case["way"]: 1, "layers": len(case["layers"])}
        with torch.no_grad():
            expected = model(example).numpy()
            mark(case["way"])
            try:
                found = _ours(case["way"], model, example)
            except AutoschedError as error:
                return Verdict("refused", f"{type(error).__name__}: {error}"[:300], counts)
        scale = max(float(np.abs(expected).max()), 1e-3)
        off = float(np.abs(found - expected).max()) if found.shape == expected.shape else np.inf
        if off <= _TOLERANCE * scale:
            return Verdict("right", "", counts)
        return Verdict("wrong", f"an error of {off:.3g} of values up to {scale:.3g}", counts)

    def smaller(self, case: Json) -> Iterator[Json]:
        """Without the last, or a plain, layer."""
        layers = case["layers"]
        if len(layers) > 1:
            yield {**case, "layers": layers[:-1]}
        for place, (name, _) in enumerate(layers):
            if name in _PLAIN and len(layers) > 1:
                yield {**case, "layers": layers[:place] + layers[place + 1 :]}


def _ours(way: str, model: Any, example: Any) -> Any:
    if way == "compile":
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="autosched", options={"cache": False})
        return compiled(example).numpy()
    network = asd.from_torch(model, example)
    module = asd.compile(network, threads=1)
    (result,) = module.run({network.inputs[0].name: example.numpy()}).values()
    return result


def _flat(rng: Random) -> tuple[list[int], list[Any]]:
    width = rng.choice((1, 3, 8, 17, 32))
    shape = [rng.choice((1, 2, 5)), width]
    layers: list[Any] = []
    for _ in range(rng.choice((1, 2, 3, 4))):
        kind = rng.random()
        if kind < 0.5:
            wider = rng.choice((1, 4, 9, 16, 33))
            layers.append(["Linear", [width, wider]])
            width = wider
        elif kind < 0.6:
            layers.append(["LayerNorm", [width]])
        elif kind < 0.7:
            layers.append(["Softmax", [-1]])
        elif kind < 0.8:
            layers.append(["BatchNorm1d", [width]])
        else:
            layers.append([rng.choice(_PLAIN), []])
    return shape, layers


def _image(rng: Random) -> tuple[list[int], list[Any]]:
    channels = rng.choice((1, 3, 4, 8))
    shape = [rng.choice((1, 2)), channels, rng.choice((8, 11, 13)), rng.choice((8, 12))]
    layers: list[Any] = []
    for _ in range(rng.choice((1, 2, 3))):
        kind = rng.random()
        if kind < 0.45:
            wider = rng.choice((2, 5, 8, 16))
            kernel, padding = rng.choice(((1, 0), (3, 1), (3, 1), (5, 2)))
            layers.append(["Conv2d", [channels, wider, kernel, rng.choice((1, 1, 2)), padding]])
            channels = wider
        elif kind < 0.55:
            layers.append(["BatchNorm2d", [channels]])
        elif kind < 0.65:
            layers.append([rng.choice(("MaxPool2d", "AvgPool2d")), [3, 1, 1]])
        elif kind < 0.72:
            layers.append(["ConvTranspose2d", [channels, 3, 2, 2]])
            channels = 3
        elif kind < 0.78:
            layers.append(["GroupNorm", [1, channels]])
        else:
            layers.append([rng.choice(_PLAIN), []])
    if rng.random() < 0.4:
        layers += [["AdaptiveAvgPool2d", [1]], ["Flatten", []], ["Linear", [channels, 5]]]
    return shape, layers


PART: Final = TorchPart()
