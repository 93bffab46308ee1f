"""What every layer uses: errors, warnings, memory, files, clocks."""
