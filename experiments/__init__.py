"""Experiments: what masking does to models. Speed has `benchmarks/`."""
