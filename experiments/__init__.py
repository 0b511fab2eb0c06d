"""Experiments: what masking does to named entity recognition. Speed has a room of its own, `benchmarks/`."""
