"""Tests and benchmarks on a GPU: `make gpu`."""
