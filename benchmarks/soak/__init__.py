"""Soak test: build, load, kill and damage at random. `python -m benchmarks.soak --minutes 120`.

| file | contents |
|---|---|
| `corpora` | corpora in several formats |
| `commands` | running and disturbing the command, and checks of its end |
| `reader` | a long-lived process that loads folders, reads epochs and builds |
| `rounds` | kinds of rounds |
| `page` | findings, and the growth of memory |

Each round has its own random stream, so `--only N` with the same seed repeats its choices. The
timing of signals is not reproducible.
"""
