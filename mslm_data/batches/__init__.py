"""Batches: the order of an epoch, and masked rows as rectangles."""
