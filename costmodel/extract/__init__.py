"""Features of a population, in closed form from its loop nest."""

from costmodel.extract.assemble import extract

__all__ = ["extract"]
