"""The page of `mslm-data look`: a corpus and its masks, live or as a file.

A view is a module in `views/` with a template. The server (`server`) and the file (`page`) draw the
same views from a `Corpus` and a `State`, which is encoded in the page's address.
"""
