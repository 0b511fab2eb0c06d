"""Anchors: words typical of a corpus compared with general text, for Difference-Masking.

`general_text.py` reads word counts of general text, `tficf.py` ranks words of the corpus by them.
"""
