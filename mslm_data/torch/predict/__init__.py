"""Find mentions with a trained model, and score the model.

A plug-in whose annotator runs a torch model imports what it shares with `annotate.use = "model"`
from here: the model's files, windows of long texts, and errors of the machine. None needs torch
until it is called. `examples/plugins/gliner` uses all of them.
"""

from __future__ import annotations

from mslm_data.torch.predict.machine import check_gpu, machine_errors, threads, versions
from mslm_data.torch.predict.model_files import ModelFiles, find_model
from mslm_data.torch.predict.text_windows import (
    Window,
    WordMention,
    max_word_tokens,
    merge_windows,
    windows,
)

__all__ = [
    "ModelFiles",
    "Window",
    "WordMention",
    "check_gpu",
    "find_model",
    "machine_errors",
    "max_word_tokens",
    "merge_windows",
    "threads",
    "versions",
    "windows",
]
