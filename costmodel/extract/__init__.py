"""Features of a population, in closed form from its loop nest."""

from costmodel.extract.assemble import extract
from costmodel.extract.recorded import draft_seconds, features_of

__all__ = ["draft_seconds", "extract", "features_of"]
