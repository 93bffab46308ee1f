"""What tests share: programs, targets, runners, mutations and references, one module each."""
