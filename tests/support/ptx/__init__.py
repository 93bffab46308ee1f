"""A PTX interpreter on NumPy: runs what the compiler made of a kernel, and watches its memory."""
