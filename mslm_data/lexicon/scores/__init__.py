"""Scores: of words, as lexicons, and of tokens in rows, as score columns.

Lexicons come from likeness to anchors (`likeness.py`), tables and counts (`tables.py`). Columns
come from attention and logits of a frozen model (`token_scores.py`) and from a task model's answers
(`selective.py`); `making.py` is the loop over shards that writes them and resumes an interrupted
one. `encoders.py` loads models, `encoding.py` encodes words.
"""
