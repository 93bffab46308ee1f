"""Lowering: sketch + values -> loop nest, the same code for one candidate and for a population."""

from sketch.lower.lower import lower

__all__ = ["lower"]
