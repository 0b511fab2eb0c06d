"""Concepts: MedCAT model packs from tables, OBO ontologies and UMLS RRF files.

Readers yield concept names (`names.py`); `packs.py` filters them and makes the pack.
"""
