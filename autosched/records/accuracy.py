"""What a user says of the accuracy of results; ``error_budget`` says what becomes of it."""

from __future__ import annotations

from typing import Final, Literal, get_args

Accuracy = Literal["as written", "default", "fast"]
"""No variant that changes the arithmetic; errors up to 1e-5 of the largest output, or up to four
times those of the task as it is written; or up to 1e-4."""

ACCURACIES: Final[tuple[Accuracy, ...]] = get_args(Accuracy)
