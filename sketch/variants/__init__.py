"""Other algorithms for a program: programs that compute the same with fewer operations."""

from sketch.variants.derive import error_growth, variants_of

__all__ = ["error_growth", "variants_of"]
