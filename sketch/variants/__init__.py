"""Other algorithms for a program: programs that compute the same with fewer operations."""

from sketch.variants.derive import variants_of

__all__ = ["variants_of"]
