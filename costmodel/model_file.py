"""Files of models: replaced as a whole, so that an error leaves the old model."""

from __future__ import annotations

import secrets
from pathlib import Path

from costmodel.errors import CostModelError


def write_model(path: Path, text: str) -> None:
    """Write the text of a model.

    Raises:
        CostModelError: it cannot be written; what was there stays.
    """
    partial = path.with_name(f".part{secrets.token_hex(8)}")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise CostModelError(f"the model cannot be written: {error.strerror}", str(path)) from error
    finally:
        partial.unlink(missing_ok=True)
