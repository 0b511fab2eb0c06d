"""Readers shared by formats: files, rows, tags, offsets, tables and splits."""
