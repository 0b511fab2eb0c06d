"""MedCAT as an annotator: checks a model pack, loads it, and turns its entities into mentions."""
