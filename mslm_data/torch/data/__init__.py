"""Dataset, loader and collator: masked rows as tensors."""
