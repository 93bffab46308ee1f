"""The benchmark of networks in bfloat16: its bars, and the product that is a network."""

from __future__ import annotations

from benchmarks.bf16 import CASES, PRODUCT, RIVAL, network_of
from benchmarks.rivals import RIVALS


def test_bars() -> None:
    assert CASES[PRODUCT].of({"peak_share": 1.8}) == {"of the float32 peak >= 1.7": True}
    assert CASES["resnet-50"].of({"ratio_low": 1.1}) == {f"times {RIVAL} >= 1.2": False}
    assert CASES["bert-base"].of({}) == {}
    assert RIVAL in {rival.name for rival in RIVALS}


def test_the_product_is_one_layer() -> None:
    network = network_of(PRODUCT)
    assert [node.op.kind for node in network.graph] == ["matmul"]
