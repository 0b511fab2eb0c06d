"""N-grams: a lexicon of word n-grams ranked by pointwise mutual information, for PMI masking.

Rows are concatenated to a stream of word numbers (`stream.py`). Its n-grams are counted exactly, in
bounded memory (`counting.py`), scored (`association.py`), and sorted and truncated (`ranking.py`,
`listing.py`).
"""
