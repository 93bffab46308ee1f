"""Convolutions of the operator benchmark in Ansor (Zheng et al., OSDI 2020, section 7.1).

Channels are last, weights are constant, padding is zero and never stored.  Sizes: batch, spatial
extents, input channels, output channels, kernel extent, stride, padding, dilation, groups.
"""

from __future__ import annotations

from autosched.workloads.definition import workload
from autosched.workloads.layouts import laid_out
from autosched.workloads.operands import operands
from sketch.lang import reducers
from sketch.lang.expr import Axis, Expr, select
from sketch.lang.tensor import Tensor, compute, reduce_axis
from sketch.operators.conv import conv, depthwise_conv, grouped_conv
from sketch.operators.shared_buffer import merged_channels
from sketch.operators.transposed import conv_transpose
from sketch.operators.window import Window, inside

# Of ResNet-18, as C2D takes them; C3D and DIL are measured on the same.
_LAYERS = (
    (1, 224, 224, 3, 64, 7, 2, 3),
    (1, 56, 56, 64, 64, 1, 1, 0),
    (1, 14, 14, 256, 256, 3, 1, 1),
    (1, 7, 7, 512, 512, 3, 1, 1),
)
_CAPSULE = 4  # a capsule is a matrix of 4 x 4 (Hinton et al., ICLR 2018)


@workload(
    name="C1D",
    shapes=(
        (1, 256, 64, 128, 3, 2, 1),
        (1, 128, 128, 256, 1, 2, 0),
        (1, 64, 256, 256, 5, 1, 2),
        (1, 32, 512, 512, 3, 1, 1),
    ),
)
def c1d(
    n: int, w: int, ci: int, co: int, kernel: int, stride: int = 1, padding: int = 0,
    dilation: int = 1, layout: str = "NHWC",
) -> Tensor:  # fmt: skip
    """1-D convolution: [n, w, ci] with [kernel, ci, co].

    Args:
        n: batch.
        w: width, in elements.
        ci: input channels.
        co: output channels.
        kernel: extent of the window in every dimension.
        stride: of the windows.
        padding: zeros on each side.
        dilation: distance of taps.
        layout: of data, weight and result: "NHWC" or "NCHW".
    """
    return laid_out(
        layout, (n, w, ci), (kernel, ci, co),
        lambda data, weight: conv(data, weight, stride, padding, dilation, name="c1d"),
    )  # fmt: skip


@workload(
    name="C2D",
    shapes=_LAYERS,
)
def c2d(
    n: int, h: int, w: int, ci: int, co: int, kernel: int, stride: int = 1, padding: int = 0,
    dilation: int = 1, layout: str = "NHWC",
) -> Tensor:  # fmt: skip
    """2-D convolution: [n, h, w, ci] with [kernel, kernel, ci, co].

    Args:
        n: batch.
        h: height, in elements.
        w: width, in elements.
        ci: input channels.
        co: output channels.
        kernel: extent of the window in every dimension.
        stride: of the windows.
        padding: zeros on each side.
        dilation: distance of taps.
        layout: of data, weight and result: "NHWC" or "NCHW".
    """
    return laid_out(
        layout, (n, h, w, ci), (kernel, kernel, ci, co),
        lambda data, weight: conv(data, weight, stride, padding, dilation, name="c2d"),
    )  # fmt: skip


@workload(
    name="C3D",
    shapes=((n, 16, *rest) for n, *rest in _LAYERS),
)
def c3d(
    n: int, d: int, h: int, w: int, ci: int, co: int, kernel: int, stride: int = 1,
    padding: int = 0, dilation: int = 1, layout: str = "NHWC",
) -> Tensor:  # fmt: skip
    """3-D convolution: [n, d, h, w, ci] with [kernel, kernel, kernel, ci, co].

    Args:
        n: batch.
        d: depth, in elements.
        h: height, in elements.
        w: width, in elements.
        ci: input channels.
        co: output channels.
        kernel: extent of the window in every dimension.
        stride: of the windows.
        padding: zeros on each side.
        dilation: distance of taps.
        layout: of data, weight and result: "NHWC" or "NCHW".
    """
    return laid_out(
        layout, (n, d, h, w, ci), (kernel, kernel, kernel, ci, co),
        lambda data, weight: conv(data, weight, stride, padding, dilation, name="c3d"),
    )  # fmt: skip


@workload(
    name="GRP",
    shapes=(
        (1, 56, 56, 64, 128, 3, 2, 1, 1, 4),
        (1, 56, 56, 64, 64, 1, 1, 0, 1, 4),
        (1, 14, 14, 256, 256, 3, 1, 1, 1, 4),
        (1, 7, 7, 512, 512, 3, 1, 1, 1, 4),
    ),
)
def grp(
    n: int, h: int, w: int, ci: int, co: int, kernel: int, stride: int = 1, padding: int = 0,
    dilation: int = 1, groups: int = 4,
) -> Tensor:  # fmt: skip
    """Grouped convolution: [n, h, w, ci] with [groups, kernel, kernel, ci/groups, co/groups].

    Args:
        n: batch.
        h: height, in elements.
        w: width, in elements.
        ci: input channels.
        co: output channels.
        kernel: extent of the window in every dimension.
        stride: of the windows.
        padding: zeros on each side.
        dilation: distance of taps.
        groups: number of groups; divides ci and co.
    """
    shape = (groups, kernel, kernel, ci // groups, co // groups)
    data, weight = operands((n, h, w, ci), shape)
    split = grouped_conv(data, weight, stride, padding, dilation, groups, name="grp.split")
    return merged_channels(split, (co // groups, 1), "grp")


@workload(
    name="DIL",
    shapes=((*layer, 2) for layer in _LAYERS),
)
def dil(
    n: int, h: int, w: int, ci: int, co: int, kernel: int, stride: int = 1, padding: int = 0,
    dilation: int = 2, layout: str = "NHWC",
) -> Tensor:  # fmt: skip
    """Dilated convolution: [n, h, w, ci] with [kernel, kernel, ci, co].

    Args:
        n: batch.
        h: height, in elements.
        w: width, in elements.
        ci: input channels.
        co: output channels.
        kernel: extent of the window in every dimension.
        stride: of the windows.
        padding: zeros on each side.
        dilation: distance of taps.
        layout: of data, weight and result: "NHWC" or "NCHW".
    """
    return laid_out(
        layout, (n, h, w, ci), (kernel, kernel, ci, co),
        lambda data, weight: conv(data, weight, stride, padding, dilation, name="dil"),
    )  # fmt: skip


@workload(
    name="DEP",
    shapes=(
        (1, 112, 112, 32, 3, 1, 1),
        (1, 112, 112, 64, 3, 2, 1),
        (1, 14, 14, 512, 3, 2, 1),
        (1, 7, 7, 1024, 3, 1, 1),
    ),
)
def dep(
    n: int, h: int, w: int, c: int, kernel: int, stride: int = 1, padding: int = 0,
    dilation: int = 1, layout: str = "NHWC",
) -> Tensor:  # fmt: skip
    """Depthwise convolution: [n, h, w, c] with [kernel, kernel, 1, c].

    Args:
        n: batch.
        h: height, in elements.
        w: width, in elements.
        c: channels.
        kernel: extent of the window in every dimension.
        stride: of the windows.
        padding: zeros on each side.
        dilation: distance of taps.
        layout: of data, weight and result: "NHWC" or "NCHW".
    """
    return laid_out(
        layout, (n, h, w, c), (kernel, kernel, 1, c),
        lambda data, weight: depthwise_conv(data, weight, stride, padding, dilation, name="dep"),
    )  # fmt: skip


@workload(
    name="T2D",
    shapes=(
        (1, 4, 4, 512, 256, 4, 2, 1),
        (1, 8, 8, 256, 128, 4, 2, 1),
        (1, 16, 16, 128, 64, 4, 2, 1),
        (1, 32, 32, 64, 3, 4, 2, 1),
    ),
)
def t2d(
    n: int, h: int, w: int, ci: int, co: int, kernel: int, stride: int = 1, padding: int = 0,
    output_padding: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Transposed convolution: [n, h, w, ci] with [kernel, kernel, ci, co].

    Args:
        n: batch.
        h: height, in elements.
        w: width, in elements.
        ci: input channels.
        co: output channels.
        kernel: extent of the window in every dimension.
        stride: of the windows.
        padding: zeros on each side.
        output_padding: zeros added at the end of the output.
    """
    data, weight = operands((n, h, w, ci), (kernel, kernel, ci, co))
    return conv_transpose(data, weight, stride, padding, output_padding=output_padding, name="t2d")


@workload(
    name="CAP",
    shapes=(
        (1, 16, 16, 32, 32, 3, 2, 1),
        (1, 8, 8, 32, 32, 3, 1, 1),
        (1, 16, 16, 8, 16, 3, 2, 1),
        (1, 8, 8, 16, 16, 3, 1, 1),
    ),
)
def cap(
    n: int, h: int, w: int, ci: int, co: int, kernel: int, stride: int = 1, padding: int = 0
) -> Tensor:
    """Capsule convolution, sums of 4 x 4 matrix products: [n, h, w, 4, 4, ci].

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
    matrix = (_CAPSULE, _CAPSULE)
    data, weight = operands((n, h, w, *matrix, ci), (kernel, kernel, *matrix, ci, co))
    rows, columns = (Window(extent, kernel, stride, 1, padding, padding) for extent in (h, w))
    rh, rw = reduce_axis(kernel, "rh"), reduce_axis(kernel, "rw")
    rk, rc = reduce_axis(_CAPSULE, "rk"), reduce_axis(ci, "rc")

    def element(n: Axis, h: Axis, w: Axis, i: Axis, j: Axis, c: Axis) -> Expr:
        row, column = rows.index(h, rh), columns.index(w, rw)
        product = data[n, row, column, i, rk, rc] * weight[rh, rw, rk, j, rc, c]
        condition = inside((row, rows.extent), (column, columns.extent))
        term = product if condition is None else select(condition, product, 0)
        return reducers.sum(term, axis=(rh, rw, rk, rc))

    outputs = rows.positions("workload CAP"), columns.positions("workload CAP")
    result: Tensor = compute((n, *outputs, *matrix, co), element, name="cap")
    return result
