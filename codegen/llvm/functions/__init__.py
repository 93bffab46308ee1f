"""Elementary functions, for scalars and vectors alike."""
