"""Loops over arrays, compiled with numba. Import the module that holds the loop you need.

Every kernel says the shapes of its arrays: N rows, T tokens, U units (token, word, mention, span or
n-gram), S mentions, all flat, with int64 `offsets` `[N + 1]` that say where each row begins. Ranges
are half open. Row helpers are in `rows.py`, the hash table in `hashing.py`, draws in `rng.py`.
"""
