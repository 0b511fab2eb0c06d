"""The annotator `medcat`: finds the concepts of a MedCAT model pack."""
