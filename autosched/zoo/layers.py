"""Layers of the zoo: each adds nodes to a graph, draws its weights, and calibrates them.

A small random image runs along while a network is built.  Weights are He-initialised (He et al.,
2015), batch-norm statistics are those of that image, so that activations stay O(1) at any depth:
denormals and infinities would distort timings.
"""

from __future__ import annotations

import numpy as np

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Network, Value
from autosched.graph.ops.base import Shape
from autosched.graph.ops.conv import Conv2d
from autosched.graph.ops.elementwise import Binary, Unary
from autosched.graph.ops.matmul import Dense
from autosched.graph.ops.norm import BatchNorm
from autosched.graph.ops.pooling import GlobalPool2d, Pool2d
from autosched.graph.ops.shape import Reshape
from autosched.zoo.calibration import Float32, channel_statistics, conv2d, max_pool

OUTPUT = "logits"


class LayerBuilder:
    """Appends layers to a network; values are NCHW and float32."""

    def __init__(self, name: str, seed: int) -> None:
        self._builder = GraphBuilder(name)
        self._samples: dict[str, Float32] = {}
        self._weights = np.random.default_rng((seed, 0))
        self._images = np.random.default_rng((seed, 1))
        self._last = ""

    def input(self, shape: Shape, sample: Shape) -> str:
        """The input ``data`` of ``shape``; its calibration image has shape ``sample``."""
        name = self._builder.input(Value("data", shape))
        return self._sampled(name, self._images.standard_normal(sample, dtype=np.float32))

    def conv_bn(self, data: str, name: str, channels: int, kernel: int, stride: int) -> str:
        """Convolution without bias (padded to keep the size at stride 1), then batch-norm."""
        sample = self._samples[data]
        fan_in = sample.shape[1] * kernel * kernel
        weight = self._he((channels, sample.shape[1], kernel, kernel), fan_in)
        padding = kernel // 2
        op = Conv2d(strides=(stride, stride), padding=(padding,) * 4)
        conv = self._builder.add(
            op, (data, self._constant(f"{name}.weight", weight)), f"{name}.conv", f"{name}.conv"
        )
        return self._batch_norm(conv, name, conv2d(sample, weight, stride, padding))

    def relu(self, data: str, name: str) -> str:
        """Rectified linear unit."""
        output = self._builder.add(Unary("relu"), (data,), name, name)
        return self._sampled(output, np.maximum(self._samples[data], 0))

    def add(self, lhs: str, rhs: str, name: str) -> str:
        """Sum of two values of one shape."""
        output = self._builder.add(Binary("add"), (lhs, rhs), name, name)
        return self._sampled(output, self._samples[lhs] + self._samples[rhs])

    def max_pool(self, data: str, name: str, kernel: int, stride: int) -> str:
        """Maximum over square windows, padded by half of them."""
        padding = kernel // 2
        op = Pool2d("max", (kernel, kernel), (stride, stride), (padding,) * 4)
        output = self._builder.add(op, (data,), name, name)
        return self._sampled(output, max_pool(self._samples[data], kernel, stride, padding))

    def global_avg_pool(self, data: str, name: str) -> str:
        """Average of every map, flattened to ``[n, c]``."""
        pooled = self._builder.add(GlobalPool2d("avg"), (data,), name, name)
        shape = self._builder.types[pooled].shape
        output = self._builder.add(Reshape(shape[:2]), (pooled,), f"{name}.flat", f"{name}.flat")
        return self._sampled(output, self._samples[data].mean(axis=(2, 3)))

    def dense(self, data: str, name: str, features: int) -> str:
        """Fully connected layer with bias."""
        sample = self._samples[data]
        weight = self._he((sample.shape[1], features), sample.shape[1])
        bias = self._weights.standard_normal(features, dtype=np.float32) * np.float32(0.1)
        constants = (self._constant(f"{name}.weight", weight), self._constant(f"{name}.bias", bias))
        output = self._builder.add(Dense(), (data, *constants), name, name)
        return self._sampled(output, sample @ weight + bias)

    def finish(self) -> Network:
        """The network, whose output ``logits`` is the layer added last."""
        return Network(self._builder.name, self._builder.finish({OUTPUT: self._last}))

    def _batch_norm(self, data: str, name: str, sample: Float32) -> str:
        mean, variance = channel_statistics(sample)
        channels = len(mean)
        gamma = self._weights.uniform(0.8, 1.2, channels).astype(np.float32)
        beta = self._weights.uniform(-0.2, 0.2, channels).astype(np.float32)
        roles = {"gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
        names = [self._constant(f"{name}.{role}", array) for role, array in roles.items()]
        op = BatchNorm()
        output = self._builder.add(op, (data, *names), f"{name}.bn", f"{name}.bn")
        scale = gamma / np.sqrt(variance + np.float32(op.epsilon))
        shift = beta - mean * scale
        return self._sampled(output, sample * scale[:, None, None] + shift[:, None, None])

    def _he(self, shape: Shape, fan_in: int) -> Float32:
        deviation = np.float32(np.sqrt(2.0 / fan_in))
        return self._weights.standard_normal(shape, dtype=np.float32) * deviation

    def _constant(self, name: str, array: Float32) -> str:
        return self._builder.constant(name, array)

    def _sampled(self, name: str, sample: Float32) -> str:
        self._samples[name] = sample
        self._last = name
        return name
