"""Layers of the zoo: each adds nodes to a graph, draws its weights, and calibrates them.

A small random image runs along while a network is built.  Weights are He-initialised (He et al.,
2015); batch-norm statistics are those of that image, and convolutions without batch-norm are scaled
by it, so that activations stay O(1) at any depth: denormals and infinities would distort timings.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Array, Network, Value
from autosched.graph.ops.base import Op, Shape
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.conv_transpose import ConvTranspose
from autosched.graph.ops.elementwise import BinaryOp, Clip, UnaryOp
from autosched.graph.ops.matmul import Dense
from autosched.graph.ops.norm import BatchNorm
from autosched.graph.ops.pooling import GlobalPool, Pool, channels_first, channels_last
from autosched.graph.ops.shape import Concat, Reshape, Transpose
from autosched.zoo import calibration
from autosched.zoo.calibration import Extents, Float32

OUTPUT: Final = "logits"
BATCH_NORM_EPSILON: Final = 1e-5
_LEAST_IMAGE: Final = 3  # dimensions that a sequence has: batch, tokens, features
_BIAS_DEVIATION: Final = np.float32(0.1)


class LayerBuilder:
    """Appends layers to a network; values are NCHW (or NCDHW) and float32.

    Kernels, strides and padding (the same on both sides) are one number or one for each spatial
    dimension; padding that is not given keeps the size at stride 1.

    Args:
        name: of the network.
        seed: of its weights.
        channels_last: the network's own images, inputs and outputs, are NHWC (or NDHWC).
    """

    def __init__(self, name: str, seed: int, channels_last: bool = False) -> None:
        self._builder = GraphBuilder(name)
        self._channels_last = channels_last
        self._samples: dict[str, Float32] = {}
        self._weights = np.random.default_rng((seed, 0))
        self._images = np.random.default_rng((seed, 1))
        self._outputs: dict[str, str] = {}
        self._last = ""

    def input(self, shape: Shape, sample: Shape, name: str = "data") -> str:
        """An input of ``shape``, NCHW; its calibration image has shape ``sample``."""
        image = self._images.standard_normal(sample, dtype=np.float32)
        moved = self._is_moved(shape)
        given = (shape[0], *shape[2:], shape[1]) if moved else shape
        data = self._builder.input(Value(name, given))
        if moved:
            data = self._builder.add(Transpose(channels_first(len(shape))), (data,))
        return self._sampled(data, image)

    def input_indices(self, name: str, shape: Shape) -> str:
        """An int64 input, without a calibration image."""
        return self._builder.input(Value(name, shape, "int64"))

    def node(self, op: Op, inputs: Sequence[str], name: str) -> str:
        """Any operator, for networks that need no calibration."""
        return self._builder.add(op, inputs, name, name)

    def constant(self, name: str, array: Array) -> str:
        """A constant that is given."""
        return self._builder.constant(name, array)

    def normal(self, name: str, shape: Shape, deviation: float) -> str:
        """A weight around zero."""
        weight = self._weights.standard_normal(shape, dtype=np.float32)
        weight *= np.float32(deviation)
        return self.constant(name, weight)

    def uniform(self, name: str, shape: Shape, low: float, high: float) -> str:
        """A weight between two bounds.

        Args:
            name: of the weight.
            shape: of the weight.
            low: least value.
            high: largest value.
        """
        return self.constant(name, self._weights.uniform(low, high, shape).astype(np.float32))

    def shape(self, data: str) -> Shape:
        """Shape of a value of the network."""
        return self._builder.types[data].shape

    def conv_bn(
        self,
        data: str,
        name: str,
        channels: int,
        kernel: int | Extents,
        stride: int | Extents = 1,
        padding: int | Extents | None = None,
        groups: int = 1,
        epsilon: float = BATCH_NORM_EPSILON,
    ) -> str:
        """Convolution without bias, then batch-norm.

        Args:
            data: name of a value ``[n, c, h, w]``.
            name: prefix of the weights' names.
            channels: of the output.
            kernel: extent of the window: one number or (height, width).
            stride: of the windows.
            padding: zeros on each side; None: half the kernel.
            groups: number of groups.
            epsilon: added to the variance.
        """
        weight = self._conv_weight(data, channels, kernel, groups)
        strides, pads = _sizes(weight.shape[2:], stride, padding)
        op = _conv_op(strides, pads, groups)
        constant = self.constant(f"{name}.weight", weight)
        conv = self._builder.add(op, (data, constant), f"{name}.conv", f"{name}.conv")
        sample = calibration.conv(self._samples[data], weight, strides, pads, groups)
        return self._batch_norm(conv, name, sample, epsilon)

    def conv_transpose_bn(
        self, data: str, name: str, channels: int, kernel: int, stride: int, padding: int
    ) -> str:
        """Transposed convolution without bias, then batch-norm.

        Args:
            data: name of a value ``[n, c, h, w]``.
            name: prefix of the weights' names.
            channels: of the output.
            kernel: extent of the window: one number or (height, width).
            stride: of the windows.
            padding: zeros on each side; None: half the kernel.
        """
        weight = self._conv_transpose_weight(data, channels, kernel, stride, 1)
        sizes = _sizes(weight.shape[2:], stride, padding)
        constant = self.constant(f"{name}.weight", weight)
        op = _conv_transpose_op(*sizes, 1)
        conv = self._builder.add(op, (data, constant), f"{name}.conv", f"{name}.conv")
        sample = calibration.conv_transpose(self._samples[data], weight, *sizes, 1)
        return self._batch_norm(conv, name, sample, BATCH_NORM_EPSILON)

    def conv_transpose(
        self,
        data: str,
        name: str,
        channels: int,
        kernel: int,
        stride: int,
        padding: int,
        groups: int = 1,
    ) -> str:
        """Transposed convolution without bias, scaled as ``conv`` is.

        Args:
            data: name of a value ``[n, c, h, w]``.
            name: prefix of the weights' names.
            channels: of the output.
            kernel: extent of the window: one number or (height, width).
            stride: of the windows.
            padding: zeros on each side; None: half the kernel.
            groups: number of groups.
        """
        weight = self._conv_transpose_weight(data, channels, kernel, stride, groups)
        sizes = _sizes(weight.shape[2:], stride, padding)
        sample = calibration.conv_transpose(self._samples[data], weight, *sizes, groups)
        scale = calibration.normalizing_scale(sample)
        constant = self.constant(f"{name}.weight", weight * scale)
        output = self._builder.add(_conv_transpose_op(*sizes, groups), (data, constant), name, name)
        return self._sampled(output, sample * scale)

    def upsample(self, data: str, name: str, factor: int) -> str:
        """Learnt interpolation: a transposed convolution of every map by itself."""
        channels = self.shape(data)[1]
        return self.conv_transpose(
            data, name, channels, 2 * factor, factor, factor // 2, groups=channels
        )

    def conv(
        self,
        data: str,
        name: str,
        channels: int,
        kernel: int | Extents,
        stride: int | Extents = 1,
        padding: int | Extents | None = None,
    ) -> str:
        """Convolution with bias, scaled so that its calibration image has unit variance.

        Args:
            data: name of a value ``[n, c, h, w]``.
            name: prefix of the weights' names.
            channels: of the output.
            kernel: extent of the window: one number or (height, width).
            stride: of the windows.
            padding: zeros on each side; None: half the kernel.
        """
        weight = self._conv_weight(data, channels, kernel, 1)
        strides, pads = _sizes(weight.shape[2:], stride, padding)
        sample = calibration.conv(self._samples[data], weight, strides, pads)
        scale = calibration.normalizing_scale(sample)
        bias = self._bias(channels)
        constants = (
            self.constant(f"{name}.weight", weight * scale),
            self.constant(f"{name}.bias", bias),
        )
        op = _conv_op(strides, pads, 1)
        output = self._builder.add(op, (data, *constants), name, name)
        spatial = (1,) * (sample.ndim - 2)
        return self._sampled(output, sample * scale + bias.reshape(-1, *spatial))

    def relu(self, data: str, name: str) -> str:
        """Rectified linear unit."""
        output = self._builder.add(UnaryOp("relu"), (data,), name, name)
        return self._sampled(output, np.maximum(self._samples[data], 0))

    def relu6(self, data: str, name: str) -> str:
        """Rectified linear unit, cut off at 6."""
        output = self._builder.add(Clip(0.0, 6.0), (data,), name, name)
        return self._sampled(output, np.clip(self._samples[data], 0, 6))

    def tanh(self, data: str, name: str) -> str:
        """Hyperbolic tangent."""
        output = self._builder.add(UnaryOp("tanh"), (data,), name, name)
        return self._sampled(output, np.tanh(self._samples[data]))

    def add(self, lhs: str, rhs: str, name: str) -> str:
        """Sum of two values of one shape."""
        output = self._builder.add(BinaryOp("add"), (lhs, rhs), name, name)
        return self._sampled(output, self._samples[lhs] + self._samples[rhs])

    def concat(self, parts: Sequence[str], name: str) -> str:
        """Values side by side along the channels."""
        output = self._builder.add(Concat(1), parts, name, name)
        return self._sampled(output, np.concatenate([self._samples[p] for p in parts], axis=1))

    def max_pool(
        self,
        data: str,
        name: str,
        kernel: int,
        stride: int,
        padding: int | None = None,
        ceil_mode: bool = False,
    ) -> str:
        """Maximum over square windows.

        Args:
            data: name of a value ``[n, c, h, w]``.
            name: of the node.
            kernel: extent of the window: one number or (height, width).
            stride: of the windows.
            padding: zeros on each side; None: half the kernel.
            ceil_mode: keep a last window that fits partly.
        """
        sample = self._samples[data]
        kernels = (kernel,) * (sample.ndim - 2)
        strides, pads = _sizes(kernels, stride, padding)
        op = Pool("max", kernels, strides, (*pads, *pads), ceil_mode=ceil_mode)
        output = self._builder.add(op, (data,), name, name)
        return self._sampled(output, calibration.max_pool(sample, kernels, strides, pads))

    def average_pool(self, data: str, name: str, kernel: int, stride: int) -> str:
        """Average over square windows, padding (which keeps the size at stride 1) included.

        Args:
            data: name of a value ``[n, c, h, w]``.
            name: of the node.
            kernel: extent of the window: one number or (height, width).
            stride: of the windows.
        """
        sample = self._samples[data]
        kernels = (kernel,) * (sample.ndim - 2)
        strides, pads = _sizes(kernels, stride, None)
        op = Pool("avg", kernels, strides, (*pads, *pads), count_include_pad=True)
        output = self._builder.add(op, (data,), name, name)
        return self._sampled(output, calibration.average_pool(sample, kernels, strides, pads))

    def global_avg_pool(self, data: str, name: str) -> str:
        """Average of every map, flattened to ``[n, c]``."""
        pooled = self._builder.add(GlobalPool("avg"), (data,), name, name)
        shape = self.shape(pooled)
        output = self._builder.add(Reshape(shape[:2]), (pooled,), f"{name}.flat", f"{name}.flat")
        sample = self._samples[data]
        return self._sampled(output, sample.mean(axis=tuple(range(2, sample.ndim))))

    def flatten(self, data: str, name: str) -> str:
        """All but the first dimension in one.

        A calibration image of smaller maps is repeated to the size of the network's own.
        """
        batch, *maps = self.shape(data)
        output = self._builder.add(Reshape((batch, prod(maps))), (data,), name, name)
        sample = self._samples[data]
        repeats = [-(-wanted // own) for wanted, own in zip(maps, sample.shape[1:], strict=True)]
        tiled = np.tile(sample, (1, *repeats))[(slice(None), *map(slice, maps))]
        return self._sampled(output, tiled.reshape(len(sample), -1))

    def dense(self, data: str, name: str, features: int) -> str:
        """Fully connected layer with bias."""
        sample = self._samples[data]
        weight = self._he((sample.shape[1], features), sample.shape[1])
        bias = self._bias(features)
        constants = (self.constant(f"{name}.weight", weight), self.constant(f"{name}.bias", bias))
        output = self._builder.add(Dense(), (data, *constants), name, name)
        return self._sampled(output, sample @ weight + bias)

    def output(self, name: str, data: str) -> None:
        """Make a value an output of the network."""
        self._outputs[name] = data

    def finish(self) -> Network:
        """The network; without any output, that is the layer added last, under ``logits``."""
        outputs = self._outputs or {OUTPUT: self._last}
        given = {name: self._given(value) for name, value in outputs.items()}
        return Network(self._builder.name, self._builder.finish(given))

    def _given(self, value: str) -> str:
        """An output in the layout of the network's images."""
        order = channels_last(len(self.shape(value)))
        moved = self._is_moved(self.shape(value))
        return self._builder.add(Transpose(order), (value,)) if moved else value

    def _is_moved(self, shape: Shape) -> bool:
        return self._channels_last and len(shape) > _LEAST_IMAGE

    def _conv_weight(self, data: str, channels: int, kernel: int | Extents, groups: int) -> Float32:
        sample = self._samples[data]
        inputs = sample.shape[1] // groups
        kernels = (kernel,) * (sample.ndim - 2) if isinstance(kernel, int) else kernel
        return self._he((channels, inputs, *kernels), inputs * prod(kernels))

    def _conv_transpose_weight(
        self, data: str, channels: int, kernel: int, stride: int, groups: int
    ) -> Float32:
        sample = self._samples[data]
        rank = sample.ndim - 2
        inputs = sample.shape[1]
        # of the kernel's taps, every stride-th reaches a given output
        fan_in = inputs // groups * max(1, kernel // stride) ** rank
        return self._he((inputs, channels // groups, *(kernel,) * rank), fan_in)

    def _batch_norm(self, data: str, name: str, sample: Float32, epsilon: float) -> str:
        mean, variance = calibration.channel_statistics(sample)
        channels = len(mean)
        gamma = self._weights.uniform(0.8, 1.2, channels).astype(np.float32)
        beta = self._weights.uniform(-0.2, 0.2, channels).astype(np.float32)
        roles = {"gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
        names = [self.constant(f"{name}.{role}", array) for role, array in roles.items()]
        op = BatchNorm(epsilon)
        output = self._builder.add(op, (data, *names), f"{name}.bn", f"{name}.bn")
        scale = gamma / np.sqrt(variance + np.float32(epsilon))
        shift = beta - mean * scale
        per_channel = (-1, *(1,) * (sample.ndim - 2))
        return self._sampled(
            output, sample * scale.reshape(per_channel) + shift.reshape(per_channel)
        )

    def _he(self, shape: Shape, fan_in: int) -> Float32:
        weight = self._weights.standard_normal(shape, dtype=np.float32)
        weight *= np.float32(np.sqrt(2.0 / fan_in))
        return weight

    def _bias(self, features: int) -> Float32:
        return self._weights.standard_normal(features, dtype=np.float32) * _BIAS_DEVIATION

    def _sampled(self, name: str, sample: Float32) -> str:
        self._samples[name] = sample
        self._last = name
        return name


def _sizes(
    kernel: Extents, stride: int | Extents, padding: int | Extents | None
) -> tuple[Extents, Extents]:
    """Strides and padding, one number for each dimension of ``kernel``."""
    strides = (stride,) * len(kernel) if isinstance(stride, int) else stride
    if padding is None:
        return strides, tuple(extent // 2 for extent in kernel)
    return strides, (padding,) * len(kernel) if isinstance(padding, int) else padding


def _conv_op(strides: Extents, padding: Extents, groups: int) -> Conv:
    dilation = (1,) * len(strides)
    return Conv(strides, (*padding, *padding), dilation, groups)


def _conv_transpose_op(strides: Extents, padding: Extents, groups: int) -> ConvTranspose:
    rank = len(strides)
    return ConvTranspose(
        strides, (*padding, *padding), (1,) * rank, groups, output_padding=(0,) * rank
    )
