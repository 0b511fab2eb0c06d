"""Anchors: words typical of a corpus compared with general text, for Difference-Masking.

`general_text.py` gives the counts of general text, `tficf.py` ranks the words of the corpus by
them.
"""
