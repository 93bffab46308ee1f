"""Measuring a corpus of programs: which tasks, which candidates, and the loop over them."""
