"""What is measured: single operators and networks, as plain values that any process can rebuild."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

Arrays = dict[str, NDArray[np.float32]]
# Integer inputs of networks are indices (of tokens, say) below this; every vocabulary has as many.
_INDICES = 1000
# Root mean squares of evenly spread bytes, unsigned and signed, and what outputs are spread over.
_BYTE = 147.0
_WEIGHT = 37.0
_LARGEST_WEIGHT = 63  # 7 bits: without VNNI, onnxruntime sums pairs of larger products wrongly
_SPREAD = 64.0


@dataclass(frozen=True, slots=True)
class Matmul:
    """``C[m, n] = sum_k A[m, k] * B[k, n]``; ``constant_b`` says that B is a weight.

    Inputs: ``A`` float32 [m, k], ``B`` float32 [k, n].  Output: ``C`` float32 [m, n].
    """

    name: str
    m: int
    n: int
    k: int
    constant_b: bool

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k

    @property
    def weights(self) -> tuple[str, ...]:
        return ("B",) if self.constant_b else ()

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("C",)

    def arrays(self) -> Arrays:
        """The inputs, the same in every process."""
        rng = np.random.default_rng(0)
        return {
            "A": rng.standard_normal((self.m, self.k), dtype=np.float32),
            "B": rng.standard_normal((self.k, self.n), dtype=np.float32),
        }


@dataclass(frozen=True, slots=True)
class IntegerMatmul:
    """``C[m, n] = sum_k A[m, k] * B[k, n]`` in int32; B is a weight.

    Inputs: ``A`` uint8 [m, k], ``B`` int8 [k, n].  Output: ``C`` int32 [m, n].
    """

    name: str
    m: int
    n: int
    k: int

    @property
    def flops(self) -> float:
        """Multiplications and additions."""
        return 2.0 * self.m * self.n * self.k

    @property
    def weights(self) -> tuple[str, ...]:
        return ("B",)

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("C",)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The inputs, the same in every process."""
        rng = np.random.default_rng(0)
        return {
            "A": rng.integers(256, size=(self.m, self.k), dtype=np.uint8),
            "B": rng.integers(-128, 128, size=(self.k, self.n), dtype=np.int8),
        }


@dataclass(frozen=True, slots=True)
class Conv:
    """A square convolution, batch 1, no bias.

    Inputs: ``X`` float32 [1, size, size, channels], ``W`` float32 [kernel, kernel, channels,
    filters].  Output: ``Y`` float32 [1, out, out, filters].  Padding is ``kernel // 2``.
    """

    name: str
    size: int
    channels: int
    filters: int
    kernel: int
    stride: int = 1

    @property
    def padding(self) -> int:
        return self.kernel // 2

    @property
    def out(self) -> int:
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def flops(self) -> float:
        """Multiplications and additions, padded taps counted."""
        return 2.0 * self.out**2 * self.filters * self.channels * self.kernel**2

    @property
    def weights(self) -> tuple[str, ...]:
        return ("W",)

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("Y",)

    def arrays(self) -> Arrays:
        """The inputs, the same in every process; scaled so that outputs are O(1)."""
        rng = np.random.default_rng(0)
        data = rng.standard_normal((1, self.size, self.size, self.channels), dtype=np.float32)
        shape = (self.kernel, self.kernel, self.channels, self.filters)
        weight = rng.standard_normal(shape, dtype=np.float32)
        return {"X": data, "W": weight / np.float32(np.sqrt(self.kernel**2 * self.channels))}


@dataclass(frozen=True, slots=True)
class IntegerConv:
    """A convolution of bytes, as quantised networks have it: ``Y = clip(round(scale * sums))``.

    Inputs: ``X`` uint8 and ``W`` int8 in the shapes of ``of``, both with a zero point of 0.
    Output: ``Y`` uint8.

    Attributes:
        of: the same convolution of floats.
    """

    of: Conv

    @property
    def name(self) -> str:
        return f"int8_{self.of.name}"

    @property
    def flops(self) -> float:
        return self.of.flops

    @property
    def weights(self) -> tuple[str, ...]:
        return self.of.weights

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.of.outputs

    @property
    def scale(self) -> float:
        """A power of two that makes the sums some 64: every runtime rounds the same product."""
        sums = _BYTE * _WEIGHT * np.sqrt(self.of.channels * self.of.kernel**2)
        return float(2.0 ** np.round(np.log2(_SPREAD / sums)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The inputs, the same in every process."""
        rng, floats = np.random.default_rng(0), self.of.arrays()
        return {
            "X": rng.integers(256, size=floats["X"].shape, dtype=np.uint8),
            "W": rng.integers(
                -_LARGEST_WEIGHT, _LARGEST_WEIGHT + 1, size=floats["W"].shape, dtype=np.int8
            ),
        }


@dataclass(frozen=True, slots=True)
class Stencil:
    """A weighted 5-point stencil on the interior of a grid; no library has it as an operator.

    Input: ``U`` float32 [size, size].  Output: ``V`` float32 [size - 2, size - 2].
    """

    name: str
    size: int

    @property
    def flops(self) -> float:
        return 6.0 * (self.size - 2) ** 2

    @property
    def weights(self) -> tuple[str, ...]:
        return ()

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("V",)

    def arrays(self) -> Arrays:
        """The input, the same in every process."""
        rng = np.random.default_rng(0)
        return {"U": rng.standard_normal((self.size, self.size), dtype=np.float32)}


@dataclass(frozen=True, slots=True)
class OuterProducts:
    """``C[b, i, j] = sum_k A[b, k, i] * B[b, k, j]``: a batch of sums of outer products.

    Inputs: ``A`` float32 [batch, k, m], ``B`` float32 [batch, k, n].
    """

    name: str
    batch: int
    m: int
    n: int
    k: int

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.m * self.n * self.k

    @property
    def weights(self) -> tuple[str, ...]:
        return ()

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("C",)

    def arrays(self) -> Arrays:
        """The inputs, the same in every process."""
        rng = np.random.default_rng(0)
        return {
            "A": rng.standard_normal((self.batch, self.k, self.m), dtype=np.float32),
            "B": rng.standard_normal((self.batch, self.k, self.n), dtype=np.float32),
        }


@dataclass(frozen=True, slots=True)
class Attention:
    """``softmax(Q @ K.T / sqrt(size)) @ V`` for each head; if ``causal``, row i sees keys 0 to i.

    Inputs: ``Q``, ``K``, ``V`` float32 [1, heads, length, size].  Output: ``Y``, as ``Q``.
    """

    name: str
    heads: int
    length: int
    size: int
    causal: bool

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (1, self.heads, self.length, self.size)

    @property
    def flops(self) -> float:
        """Of both products, of what is seen."""
        seen = (self.length + 1) / 2 if self.causal else self.length
        return 4.0 * self.heads * self.length * seen * self.size

    @property
    def weights(self) -> tuple[str, ...]:
        return ()

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("Y",)

    def arrays(self) -> Arrays:
        """The inputs, the same in every process."""
        rng = np.random.default_rng(0)
        return {name: rng.standard_normal(self.shape, dtype=np.float32) for name in "QKV"}


@dataclass(frozen=True, slots=True)
class Network:
    """An ONNX file; shapes are static.

    Attributes:
        name: of the network.
        path: of the file.
        inputs: name, shape and dtype of each input.
        outputs: names.
        flops: of a run.
        in_torch: PyTorch runs the module ``wild_models.build(name)``, from which the file was
            written, instead of the file.
        channels_last: our module takes and gives images NHWC; the file, which is for those who
            prefer NCHW, and ``inputs`` are NCHW.
        below: what integers of the inputs are.
    """

    name: str
    path: str
    inputs: tuple[tuple[str, tuple[int, ...], str], ...]
    outputs: tuple[str, ...]
    flops: float
    in_torch: bool = False
    channels_last: bool = False
    below: int = _INDICES

    @property
    def weights(self) -> tuple[str, ...]:
        return ()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Inputs in the model's own layout, the same in every process."""
        rng = np.random.default_rng(0)
        return {
            name: rng.standard_normal(shape, dtype=np.float32)
            if dtype == "float32"
            else rng.integers(self.below, size=shape, dtype=dtype)
            for name, shape, dtype in self.inputs
        }


@dataclass(frozen=True, slots=True)
class SmallModule:
    """One of ``benchmarks.small_modules``; needs PyTorch.

    Attributes:
        name: of the case.
        path: of the ONNX file that PyTorch wrote of it; empty: it could not.
        dtype: of its real numbers.
        channels_last: PyTorch's images are, and those of the file are not.
    """

    name: str
    path: str
    dtype: str
    channels_last: bool

    @property
    def flops(self) -> float:
        return 0.0

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("Y",)

    def built(self) -> tuple[Module, tuple[Tensor, ...]]:
        """The module and its inputs, as PyTorch gets them."""
        import torch

        from benchmarks.small_modules import cases

        return cases()[self.name].built(getattr(torch, self.dtype), self.channels_last)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The inputs by the names that they have in the file."""
        return {f"x{place}": tensor.numpy() for place, tensor in enumerate(self.built()[1])}


Operator = Matmul | IntegerMatmul | Conv | IntegerConv | Stencil | OuterProducts | Attention
Workload = Operator | Network | SmallModule

CONVOLUTIONS_3X3 = (
    Conv("conv3x3_56_64_64", 56, 64, 64, 3),
    Conv("conv3x3_28_128_128", 28, 128, 128, 3),
    Conv("conv3x3_14_256_256", 14, 256, 256, 3),
    Conv("conv3x3_7_512_512", 7, 512, 512, 3),
)
POINTWISE = (
    Conv("conv1x1_56_64_256", 56, 64, 256, 1),
    Conv("conv1x1_28_512_128", 28, 512, 128, 1),
    Conv("conv1x1_14_256_1024", 14, 256, 1024, 1),
    Conv("conv1x1_7_2048_512", 7, 2048, 512, 1),
)
CONVOLUTIONS = (
    *CONVOLUTIONS_3X3,
    POINTWISE[0],
    Conv("conv7x7s2_224_3_64", 224, 3, 64, 7, stride=2),
)
MATMULS = (
    Matmul("sgemm_512_constant", 512, 512, 512, constant_b=True),
    Matmul("sgemm_1024_constant", 1024, 1024, 1024, constant_b=True),
    Matmul("sgemm_512_inputs", 512, 512, 512, constant_b=False),
    Matmul("sgemm_1024_inputs", 1024, 1024, 1024, constant_b=False),
)
UNKNOWN_OPERATORS = (
    Stencil("stencil5_2048", 2048),
    OuterProducts("outer_products_16x128x128x128", 16, 128, 128, 128),
)
