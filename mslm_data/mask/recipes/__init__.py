"""The shipped strategies: functions from options to a recipe, which holds picks and a corruption.

Each docstring gives the reference, the algorithm, and the differences from the paper or the
released code. CONTRIBUTING.md has the steps to add a strategy.
"""
