"""Fuzzing: whatever bytes come, each reader and `verify` give an answer or one of our errors.

`targets.TARGETS` is the one table of what is fuzzed. `test_fuzz.py` tries a few mutations of each with hypothesis, many
where FUZZ_EXAMPLES says how many; `python -m tests.fuzz TARGET` follows the code's branches with atheris. What either
found stands in `test_findings.py`.
"""
