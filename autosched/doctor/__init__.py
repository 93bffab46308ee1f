"""What this machine has, what it lacks, and what to do about it."""
