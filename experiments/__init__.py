"""Experiments: what masking does to named entity recognition. Speed has `benchmarks/`."""
