"""Benchmarks of the package against alternative tools and against the limits of the machine."""
