"""One token of a decoder of GPT-2's size, its products with 4-bit weights, as an ONNX file.

Random weights: of interest is the time.  The token's embedding is an input (one row of a table
that no product reads), and so are the keys and values of the past; those of the token are outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper, save

from benchmarks.workloads import Network

_OPSET: Final = 20
_IR: Final = 10
_BITS: Final = 4
_SPREAD: Final = 0.004  # of a scale: weights of about 0.02, as of trained networks


@dataclass(frozen=True, slots=True)
class Decoder:
    """The sizes of a network; those of the smallest GPT-2.

    Attributes:
        accuracy_level: of the products: what runtimes may round the data to; 4: bytes; 0: nothing.
        block: weights with a scale in common.
        past: tokens before.
    """

    accuracy_level: int = 0
    layers: int = 12
    heads: int = 12
    width: int = 768
    words: int = 50257
    past: int = 63
    block: int = 32

    @property
    def name(self) -> str:
        return f"gpt2-token-4bit-level{self.accuracy_level}"

    @property
    def packed_bytes(self) -> int:
        """Of all weights of products: half a byte each, and a float32 for each block."""
        weights = 12 * self.layers * self.width**2 + self.width * self.words
        return weights // 2 + weights // self.block * 4

    def export(self, folder: Path) -> Network:
        """The file, in ``folder``."""
        made = _Nodes(self)
        made.build()
        kept = (1, self.heads, self.past, self.width // self.heads)
        given = {"x": (1, 1, self.width)} | {name: kept for name in made.caches}
        graph = helper.make_graph(
            made.nodes,
            self.name,
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in given.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in made.out.items()],
            made.weights,
        )
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", 1)]
        path = folder / f"{self.name}.onnx"
        save(helper.make_model(graph, opset_imports=opsets, ir_version=_IR), path)
        inputs = tuple((name, shape, "float32") for name, shape in given.items())
        return Network(self.name, str(path), inputs, tuple(made.out), 0.0)


@dataclass(slots=True)
class _Nodes:
    """The graph while it grows."""

    decoder: Decoder
    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    caches: list[str] = field(default_factory=list)
    out: dict[str, tuple[int, ...]] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def build(self) -> None:
        """All layers, the last normalisation and the scores of all words."""
        hidden = "x"
        for layer in range(self.decoder.layers):
            hidden = self._layer(hidden, f"l{layer}")
        last = self._normalised(hidden, "last")
        self.node("Identity", self._product(last, "scores", self.decoder.words), result="logits")
        self.out["logits"] = (1, 1, self.decoder.words)

    def node(self, kind: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        """Append a node; returns its first output."""
        name = result or f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, name: str, array: NDArray[Any]) -> str:
        """Append a weight."""
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def _layer(self, hidden: str, name: str) -> str:
        width = self.decoder.width
        attended = self._attention(self._normalised(hidden, f"{name}.n1"), name)
        hidden = self.node("Add", hidden, self._product(attended, f"{name}.out", width))
        inner = self._product(self._normalised(hidden, f"{name}.n2"), f"{name}.up", 4 * width)
        inner = self.node("Gelu", inner)
        return self.node("Add", hidden, self._product(inner, f"{name}.down", width, 4 * width))

    def _normalised(self, hidden: str, name: str) -> str:
        ones, zeros = (
            self.constant(f"{name}.{n}", np.full(self.decoder.width, v, np.float32))
            for n, v in (("scale", 1), ("bias", 0))
        )
        return self.node("LayerNormalization", hidden, ones, zeros, axis=-1)

    def _attention(self, rows: str, name: str) -> str:
        sizes = self.decoder
        each = sizes.width // sizes.heads
        joined = self._product(rows, f"{name}.qkv", 3 * sizes.width)
        split = self.constant(f"{name}.split", np.full(3, sizes.width, np.int64))
        parts = [f"{name}.{part}" for part in "qkv"]
        self.nodes.append(helper.make_node("Split", [joined, split], parts, axis=-1))
        shape = self.constant(f"{name}.heads", np.array([1, sizes.heads, 1, each]))
        query = self.node("Reshape", parts[0], shape)
        keys, values = (self._with_past(part, shape) for part in parts[1:])
        turned = self.node("Transpose", keys, perm=[0, 1, 3, 2])
        factor = self.constant(f"{name}.factor", np.array(each**-0.5, np.float32))
        scores = self.node("Mul", self.node("MatMul", query, turned), factor)
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), values)
        flat = self.constant(f"{name}.flat", np.array([1, 1, sizes.width]))
        return self.node("Reshape", mixed, flat)

    def _with_past(self, part: str, shape: str) -> str:
        """The rows of the past, then the token's own, which are an output, too."""
        past, own = f"{part}.past", f"{part}.own"
        self.caches.append(past)
        self.out[own] = (1, self.decoder.heads, 1, self.decoder.width // self.decoder.heads)
        self.node("Reshape", part, shape, result=own)
        return self.node("Concat", past, own, axis=2)

    def _product(self, rows: str, name: str, n: int, k: int = 0) -> str:
        k, block = k or self.decoder.width, self.decoder.block
        packed = self.rng.integers(0, 256, (n, k // block, block * _BITS // 8), np.uint8)
        scales = self.rng.uniform(0.5, 1.5, n * k // block) * _SPREAD
        return self.node(
            "MatMulNBits",
            rows,
            self.constant(f"{name}.weight", packed),
            self.constant(f"{name}.scales", scales.astype(np.float32)),
            domain="com.microsoft",
            K=k,
            N=n,
            bits=_BITS,
            block_size=block,
            accuracy_level=self.decoder.accuracy_level,
        )
