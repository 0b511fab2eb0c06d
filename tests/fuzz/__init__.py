"""Fuzzing: for any bytes, each reader and `verify` return a result or raise one of our errors.

`targets.TARGETS` is the table of targets. `test_fuzz.py` tries a few mutations of each with hypothesis, or
FUZZ_EXAMPLES of them. `python -m tests.fuzz TARGET` is guided by coverage, with atheris. Findings of both are in
`test_findings.py`.
"""
