"""What a user sees of tuning: progress, the peak of the machine, explanations."""
