"""Loops over arrays, compiled with numba.

Docstrings give the shapes of arrays: N rows, T tokens, U units (token, word, mention, span or
n-gram), S mentions. Arrays are flat, with int64 `offsets` `[N + 1]`, the start of each row. Ranges
are half open. Row helpers are in `rows.py`, the hash table is in `hashing.py`, and random numbers
are in `rng.py`.
"""
