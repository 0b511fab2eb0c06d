"""Generators of manual pages from code and data, run by Sphinx."""
