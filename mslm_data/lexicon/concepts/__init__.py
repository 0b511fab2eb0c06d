"""Concepts: MedCAT model packs from tables of concepts (`concept_tables.py`), OBO ontologies and UMLS's RRF files.

Each reader gives `names.py`'s names of concepts, one by one; `packs.py` chooses among them and makes the pack.
"""
