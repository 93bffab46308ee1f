"""Whether a compiled kernel is worth running: what the compiler said it uses."""

from __future__ import annotations

from typing import Final

from codegen.cuda.kernel import CudaKernel
from codegen.errors import InfeasibleError

# Some addresses that do not fit cost little; accumulators that do not are hundreds of bytes.
_FEW_SPILLED: Final = 64


def check_resources(kernel: CudaKernel) -> None:
    """Raise InfeasibleError on many spilled registers, and on blocks that find no room.

    An emulated kernel has not been through the compiler: nothing is known of it.
    """
    target = kernel.target
    launches = {launch.symbol: launch for launch in kernel.source.launches}
    for symbol, used in kernel.resources:
        spilled = used.spill_store_bytes + used.spill_load_bytes
        limits = (
            ("bytes of spilled registers a thread", spilled, _FEW_SPILLED),
            (
                "registers a block",
                used.registers * launches[symbol].block,
                target.registers_per_block,
            ),
            (
                "bytes of shared memory a block",
                used.shared_bytes + launches[symbol].shared_bytes,
                target.most_shared_bytes,
            ),
        )
        for what, amount, limit in limits:
            if amount > limit:
                raise InfeasibleError(
                    f"{amount} {what}, the limit is {limit}", symbol, "take other decisions"
                )
