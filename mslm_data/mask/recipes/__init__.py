"""The shipped strategies: functions of their options that return picks and a corruption.

To add one: write a function here, a line in `mask/table.py`, and a row in `tests/mask/contract.py`.
The docstring says what the paper and its code do, and where this differs.
"""
