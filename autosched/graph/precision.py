"""What a user says of the precision that a network's layers are computed in."""

from __future__ import annotations

from typing import Final, Literal, get_args

Precision = Literal["as written", "bf16"]
"""That of the model, or products of bfloat16 elements that are summed in float32."""

PRECISIONS: Final[tuple[Precision, ...]] = get_args(Precision)
