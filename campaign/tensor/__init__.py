"""Random tensor programs against an evaluator of their own, between unmapped pages."""
