"""BERT (Devlin et al., 2019): token ids to the last hidden state and the pooled one.

No attention mask and one segment: all tokens count.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.errors import GraphError
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.norm import Normalize
from autosched.graph.ops.shape import Reshape, Transpose
from autosched.graph.ops.softmax import Softmax
from autosched.zoo.layers import LayerBuilder

_SEQUENCE: Final = 128
_POSITIONS: Final = 512
_SEGMENTS: Final = 2
_EPSILON: Final = 1e-12
# The published initialisation; layer norms keep activations O(1).
_DEVIATION: Final = 0.02


@dataclass(frozen=True, slots=True)
class Bert:
    """Number of layers, of attention heads in each, of hidden features, of those of the inner
    perceptrons, and of words.
    """

    layers: int
    heads: int
    hidden: int
    inner: int
    words: int


BERT_BASE: Final = Bert(12, 12, 768, 3072, 30522)


def add_bert(layers: LayerBuilder, net: Bert, batch: int, tokens: int | None) -> None:
    """Add ``net`` for ``input_ids`` int64 ``[batch, tokens]``.

    Outputs: ``last_hidden_state`` ``[batch, tokens, hidden]``, ``pooler_output``
    ``[batch, hidden]``.

    Args:
        layers: the graph so far.
        net: sizes of the network.
        batch: sequences.
        tokens: of a sequence; None: 128.

    Raises:
        GraphError: more tokens than the 512 positions that there are weights for.
    """
    encoder = _Encoder(layers, net, batch, _SEQUENCE if tokens is None else tokens)
    x = encoder.embeddings()
    for index in range(net.layers):
        x = encoder.layer(x, f"layer{index}")
    encoder.outputs(x)


class _Encoder:
    """Values between layers are ``[batch, tokens, hidden]``."""

    def __init__(self, layers: LayerBuilder, net: Bert, batch: int, tokens: int) -> None:
        if tokens > _POSITIONS:
            raise GraphError(f"bert has {_POSITIONS} positions, not {tokens}", "zoo")
        self._layers, self._net = layers, net
        self._batch, self._tokens = batch, tokens

    def embeddings(self) -> str:
        """Sum of the embeddings of words, positions and segments, normalised."""
        layers = self._layers
        ids = layers.input_indices("input_ids", (self._batch, self._tokens))
        rows = []
        for name, count, indices in (
            ("word", self._net.words, ids),
            ("position", _POSITIONS, self._indices("position", np.arange(self._tokens))),
            ("segment", _SEGMENTS, self._indices("segment", np.zeros(self._tokens, np.int64))),
        ):
            table = layers.normal(f"embedding.{name}.weight", (count, self._net.hidden), _DEVIATION)
            rows.append(layers.node(Gather(0), (table, indices), f"embedding.{name}"))
        x = layers.node(BinaryOp("add"), rows[:2], "embedding.add1")
        x = layers.node(BinaryOp("add"), (x, rows[2]), "embedding.add2")
        return self._layer_norm(x, "embedding.norm")

    def layer(self, x: str, label: str) -> str:
        """Attention, then a perceptron of one hidden layer; each is added and normalised."""
        attended = self._dense(
            self._attention(x, f"{label}.attention"), f"{label}.output", self._net.hidden
        )
        x = self._residual(attended, x, f"{label}.attended")
        inner = self._gelu(self._dense(x, f"{label}.inner", self._net.inner), f"{label}.gelu")
        return self._residual(
            self._dense(inner, f"{label}.outer", self._net.hidden), x, f"{label}.mixed"
        )

    def outputs(self, x: str) -> None:
        """The last hidden state, and the first token's through a dense layer and tanh."""
        layers = self._layers
        layers.output("last_hidden_state", x)
        first = layers.constant("pooler.first", np.array(0, np.int64))
        token = layers.node(Gather(1), (x, first), "pooler.token")
        pooled = self._dense(token, "pooler.dense", self._net.hidden)
        layers.output("pooler_output", layers.node(UnaryOp("tanh"), (pooled,), "pooler.tanh"))

    def _attention(self, x: str, label: str) -> str:
        layers = self._layers
        query = self._heads(x, f"{label}.query", (0, 2, 1, 3))
        key = self._heads(x, f"{label}.key", (0, 2, 3, 1))
        value = self._heads(x, f"{label}.value", (0, 2, 1, 3))
        scores = layers.node(MatMul(), (query, key), f"{label}.scores")
        root = self._number(f"{label}.root", sqrt(self._net.hidden // self._net.heads))
        scaled = layers.node(BinaryOp("div"), (scores, root), f"{label}.scaled")
        weights = layers.node(Softmax(-1), (scaled,), f"{label}.softmax")
        mixed = layers.node(MatMul(), (weights, value), f"{label}.mix")
        back = layers.node(Transpose((0, 2, 1, 3)), (mixed,), f"{label}.back")
        joined = (self._batch, self._tokens, self._net.hidden)
        return layers.node(Reshape(joined), (back,), f"{label}.joined")

    def _heads(self, x: str, label: str, order: tuple[int, ...]) -> str:
        dense = self._dense(x, label, self._net.hidden)
        shape = (self._batch, self._tokens, self._net.heads, self._net.hidden // self._net.heads)
        split = self._layers.node(Reshape(shape), (dense,), f"{label}.heads")
        return self._layers.node(Transpose(order), (split,), f"{label}.transpose")

    def _gelu(self, x: str, label: str) -> str:
        """``x / 2 * (1 + erf(x / sqrt(2)))``, written as PyTorch's exporter writes it."""
        layers = self._layers
        scaled = layers.node(
            BinaryOp("div"), (x, self._number(f"{label}.root", sqrt(2))), f"{label}.scaled"
        )
        erf = layers.node(UnaryOp("erf"), (scaled,), f"{label}.erf")
        one = layers.node(BinaryOp("add"), (erf, self._number(f"{label}.one", 1)), f"{label}.add")
        product = layers.node(BinaryOp("mul"), (x, one), f"{label}.mul")
        return layers.node(BinaryOp("mul"), (product, self._number(f"{label}.half", 0.5)), label)

    def _residual(self, x: str, shortcut: str, label: str) -> str:
        added = self._layers.node(BinaryOp("add"), (x, shortcut), f"{label}.add")
        return self._layer_norm(added, f"{label}.norm")

    def _layer_norm(self, x: str, label: str) -> str:
        layers = self._layers
        gamma = layers.uniform(f"{label}.gamma", (self._net.hidden,), 0.8, 1.2)
        beta = layers.uniform(f"{label}.beta", (self._net.hidden,), -0.2, 0.2)
        x = layers.node(Normalize((2,), _EPSILON), (x,), f"{label}.normalize")
        x = layers.node(BinaryOp("mul"), (x, gamma), f"{label}.scale")
        return layers.node(BinaryOp("add"), (x, beta), label)

    def _dense(self, x: str, label: str, features: int) -> str:
        layers = self._layers
        inputs = layers.shape(x)[-1]
        weight = layers.normal(f"{label}.weight", (inputs, features), _DEVIATION)
        bias = layers.normal(f"{label}.bias", (features,), _DEVIATION)
        product = layers.node(MatMul(), (x, weight), f"{label}.product")
        return layers.node(BinaryOp("add"), (product, bias), label)

    def _number(self, name: str, value: float) -> str:
        return self._layers.constant(name, np.array(value, np.float32))

    def _indices(self, name: str, values: NDArray[np.int64]) -> str:
        return self._layers.constant(f"embedding.{name}.indices", values)
