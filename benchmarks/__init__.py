"""Measure the package beside what a user would pick instead, and beside the machine's limit."""
