"""Builds a folder of shards from a pipeline, input files and a tokenizer.

| file | contents |
|---|---|
| `steps` | the order of a build, from the first look at the inputs to the manifest |
| `units` | all work units of a build, and what they came to |
| `tasks`, `work` | the tasks of a build, and the object that runs them in any process |
| `stages` | makes the source, annotator and segmenter of a pipeline, and finds its input files |
| `scan`, `plan` | unpacks, cuts and hashes input files; work units and the identity of a build |
| `unit` | one work unit: reads, annotates, and gives documents to a sink |
| `row_sink`, `line_sink` | the sinks: rows of a piece; JSON lines of `mslm-data annotate` |
| `copies`, `decontaminate` | documents to drop: held-out texts, repeated ids, copies; equal texts |
| `data_loss` | decides when lost documents and mentions are errors |
| `folder` | the unfinished folder: locks, plan, receipts |
| `finish`, `card` | the files beside the shards, `manifest.json` last |
| `audit`, `subset` | scores weak labels; writes a subset of a built folder |
| `verify`, `push` | checks a built folder; uploads one |

Building is offline. The same call resumes an interrupted build, and the bytes are the same.
"""

from mslm_data.builds.plan import find
from mslm_data.builds.steps import Preview, annotate, build, plan_build
from mslm_data.builds.units import Progress

__all__ = ["Preview", "Progress", "annotate", "build", "find", "plan_build"]
