"""MedCAT as an annotator: opening packs, tokenising as MedCAT does, and building packs."""
