"""Lexicons, scores and concepts for strategies and annotators, and the tools that make them.

| command (`mslm-data vocab …`) | output, in `DIR/vocab/` | code | used by |
|---|---|---|---|
| `pmi` | `pmi.arrow`, a lexicon of n-grams | `ngrams/` | `pmi`, `ernie` |
| `anchors` | `anchors.arrow`, a lexicon of words | `anchors/` | `scores anchors` |
| `scores anchors` | `difference.arrow`, a lexicon of words | `scores/likeness.py` | `difference` |
| `scores attention` | `attention/`, a score column | `scores/token_scores.py` | `attention` |
| `scores logits` | `logits/`, a score column | `scores/token_scores.py` | `selective` (in-domain) |
| `scores confidence` | `confidence/`, a score column | `scores/selective.py` | `selective-task` |
| `scores table` | `table.arrow`, a lexicon | `scores/tables.py` | `informask`, `keywords`, `ccm` |
| `scores frequency` | `frequency.arrow`, a lexicon | `scores/tables.py` | SpanBERT's random ids |
| `concepts` | a table of terms, any file | `concepts/` | `build`, annotator `terms` |

Strategies read the modules of this folder: `artefacts.py` defines the file format and finds files
in `DIR/vocab`, `store.py` reads lexicons, `score_columns.py` score columns, `trie.py` finds the
entries of a lexicon in rows, `word_types.py` counts the words of rows. `text_files.py` opens the
tables and ontologies that the tools read.
"""
