"""Concepts: MedCAT model packs from tables, OBO ontologies and UMLS RRF files.

Each reader gives `names.py`'s names of concepts, one by one; `packs.py` chooses among them and
makes the pack.
"""
