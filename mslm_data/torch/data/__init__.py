"""Rows as tensors: dataset, loader and collator."""
