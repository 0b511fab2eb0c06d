"""Build, load, kill and damage in a loop at random: `python -m benchmarks.soak --minutes 120`.

| file | what it holds |
|---|---|
| `corpora` | the corpora that are built, in several forms |
| `commands` | the command in a process of its own, how it is disturbed, and what it may leave |
| `reader` | a process that lives as long as the soak: it loads folders, reads epochs, and builds |
| `rounds` | what a round can be |
| `page` | what was found, and whether memory grew |

Each round draws from a stream of its own, so `--only N` with the same seed makes the same choices
again. When signals arrive is up to the machine.
"""
