"""A build function for tests of GPU runners: decision "fault" says what goes wrong.

The task is ``C(i) = A[i]*W[i]`` over 64 floats, W constant.
"""

from codegen.cuda.kernel import CudaKernel, CudaSource, Launch
from codegen.cuda.nvrtc import compile_source
from codegen.errors import InfeasibleError
from codegen.kernel import Argument

_MORE_THAN_ANY_CARD = 1 << 50
RIGHT, WRONG, UNWRITTEN, TRAP, DIVERGENT, SEGFAULT, NO_TEXT, SPILLS, LARGE = range(9)

_TEXT = """extern "C" __global__ void __launch_bounds__(64)
kernel_0(const float* __restrict__ A, const float* __restrict__ W, float* __restrict__ C) {{
  const int i = threadIdx.x;
  {statement}
}}
"""
STATEMENTS = {
    RIGHT: "C[i] = A[i] * W[i];",
    WRONG: "C[i] = A[i] + W[i];",
    UNWRITTEN: "if (i < 63) C[i] = A[i] * W[i];",
    TRAP: "C[i] = A[i] * W[i]; if (i == 5) __trap();",
    DIVERGENT: "if (i < 5) __syncthreads(); C[i] = A[i] * W[i];",
    SEGFAULT: "*(volatile float*)8 = A[i];",
    NO_TEXT: "C[i] = nothing;",
    LARGE: "C[i] = A[i] * W[i];",
}
ARGUMENTS = (("A", "input"), ("W", "constant"), ("C", "output"))
TYPES = ("const float*", "const float*", "float*")


def build(sketch, values):
    """As ``builder.build_candidate``; memory of a LARGE kernel is more than the card has."""
    fault = values["fault"]
    if fault == SPILLS:
        raise InfeasibleError("8 bytes of spilled registers a thread, the limit is 0", "kernel_0")
    arguments = tuple(Argument(name, "float32", (64,), scope) for name, scope in ARGUMENTS)
    workspaces = (("scratch", _MORE_THAN_ANY_CARD),) if fault == LARGE else ()
    launch = Launch("kernel_0", 1, 64, ("A", "W", "C"), TYPES)
    source = CudaSource(
        "C", _TEXT.format(statement=STATEMENTS[fault]), (launch,), arguments, workspaces
    )
    if sketch.target.card.emulated:
        return CudaKernel(source, sketch.target, b"", ())
    return CudaKernel(source, sketch.target, *compile_source(source, sketch.target.arch))
