"""Scores: of words, as lexicons, and of tokens in rows, as score columns.

Lexicons are made from similarity to anchors (`likeness.py`), and from tables and counts
(`tables.py`). Columns are made from attention and logits of a frozen model (`token_scores.py`), and
from probabilities of a task model (`selective.py`). `making.py` writes columns shard by shard, and
resumes. `encoders.py` loads models, `encoding.py` encodes words.
"""
