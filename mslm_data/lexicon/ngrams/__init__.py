"""N-grams: a lexicon of word n-grams ranked by pointwise mutual information.

PMI masking hides its entries as units.

Rows become one stream of word numbers (`stream.py`), whose n-grams are counted exactly and in
bounded memory (`counting.py`), measured (`association.py`), cut to a list (`listing.py`) and put in
their order of use (`ranking.py`).
"""
