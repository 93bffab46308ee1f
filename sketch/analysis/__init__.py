"""What expressions read, how large they are and what they cost."""
