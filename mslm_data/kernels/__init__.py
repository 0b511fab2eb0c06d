"""Loops over arrays, compiled with numba.

Rows are ragged: values are one flat array, and int64 `offsets` `[N + 1]` has the start of each row,
and the end. Ranges are half open. Dimensions in docstrings: N rows, T tokens, U units (tokens,
words, mentions, spans or n-grams), S mentions, W words.

Row helpers are in `rows.py`, the hash table is in `hashing.py`, and random numbers are in `rng.py`.
"No branch" in a comment explains a loop without `if`: it compiles to SIMD instructions, or avoids
branches that the CPU predicts wrongly.

A short kernel is worth more than a few percent. Tried and left out: padding many batches by one
call, prefetching the next rows, finding all TABs first, copying words by 16 bytes, kernels of
masking that fuse eligibility, budget and draws.
"""
