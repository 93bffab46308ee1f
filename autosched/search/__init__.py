"""Search: proposing candidates of one task, from what was measured of it so far."""
