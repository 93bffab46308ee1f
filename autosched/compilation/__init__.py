"""Records to modules: what runs of what was tuned."""
