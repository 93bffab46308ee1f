"""The convolution layer of Ansor's subgraph benchmark (Zheng et al., OSDI 2020, section 7.2)."""

from __future__ import annotations

from autosched.workloads.definition import workload
from autosched.workloads.operands import operands
from sketch.lang.tensor import Tensor, placeholder
from sketch.operators.broadcast import add, multiply
from sketch.operators.conv import conv
from sketch.operators.elementwise import relu


@workload(
    name="CBR",
    shapes=(
        (1, 224, 224, 3, 64, 7, 2, 3),
        (1, 56, 56, 64, 128, 3, 2, 1),
        (1, 28, 28, 128, 256, 1, 2, 0),
        (1, 7, 7, 512, 512, 3, 1, 1),
    ),
)
def cbr(
    n: int, h: int, w: int, ci: int, co: int, kernel: int, stride: int = 1, padding: int = 0
) -> Tensor:
    """Convolution, bias, batch-norm as scale and shift, relu: [n, h, w, ci].

    Args:
        n: batch.
        h: height, in elements.
        w: width, in elements.
        ci: input channels.
        co: output channels.
        kernel: extent of the window in every dimension.
        stride: of the windows.
        padding: zeros on each side.
    """
    data, weight = operands((n, h, w, ci), (kernel, kernel, ci, co))
    bias, scale, shift = (
        placeholder(co, name=name, constant=True) for name in ("bias", "scale", "shift")
    )
    biased = add(conv(data, weight, stride, padding, name="conv"), bias, "bias_add")
    return relu(add(multiply(biased, scale, "scaled"), shift, "shifted"), "cbr")
