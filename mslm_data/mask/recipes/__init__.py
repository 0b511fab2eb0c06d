"""The shipped strategies: functions of their options that return picks and a corruption.

The docstring of each says what the paper and its code do, and where this differs. CONTRIBUTING.md
says how one is added.
"""
