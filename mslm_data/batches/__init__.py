"""Batches: compute the order of an epoch, mask the rows, and pad them to arrays."""
