"""Batches: the order of an epoch, rows with their masks, and these as rectangles."""
