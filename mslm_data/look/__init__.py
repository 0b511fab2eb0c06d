"""The page of `mslm-data look`: a corpus and its masks, live or as one file.

A view is a module in `views/` and a template of its name. The live page (`server`) and the file
(`page`) draw the same views, from a `Corpus` and the `State` that an address holds.
"""
