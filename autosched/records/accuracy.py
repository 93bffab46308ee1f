"""What a user says of the accuracy of results; ``error_budget`` says what becomes of it."""

from __future__ import annotations

from typing import Final, Literal, get_args

Accuracy = Literal["as written", "close", "default", "fast"]
"""No variant that changes the arithmetic; errors up to 1e-5 of a task's largest output, or up to
four times those of the task as it is written, and of all in a network up to 1e-5 of its largest
output; the same, but up to 1.4e-5 in a network; or up to 1e-4 of a task's, and any in a network."""

ACCURACIES: Final[tuple[Accuracy, ...]] = get_args(Accuracy)
