"""The shipped strategies: each is a function of its options that returns its picks and its corruption.

To add one: write a function here, a line in `mask/table.py`, and a row in `tests/mask/contract.py`. The
docstring says what the paper and its code do, and where this differs.
"""
