"""Concepts: tables of terms from tables, OBO ontologies and UMLS RRF files.

Readers yield concept names (`names.py`); `making.py` filters them and writes the table.
"""
