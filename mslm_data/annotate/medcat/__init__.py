"""Annotates with MedCAT: checks a model pack, loads it, and converts entities to mentions."""
