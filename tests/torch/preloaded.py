"""Imports and kernels that the examples need, loaded once in the server from which they are forked."""

from pathlib import Path
from tempfile import TemporaryDirectory

import accelerate
import lightning.pytorch
import transformers.models.bert.modeling_bert
import transformers.trainer

import mslm_data as md
import mslm_data.torch.model.callbacks
import mslm_data.torch.model.model
from mslm_data.torch import MaskedDataset
from tests import made
from tests.torch.shards import JOINT

with TemporaryDirectory() as temporary:
    made.built(Path(temporary) / "built")
    split = md.load(Path(temporary) / "built")["train"]
    for bucketed in (False, True):
        list(MaskedDataset(split, JOINT).loader(bucketed=bucketed))
    split.examples()

__all__ = ["accelerate", "lightning", "mslm_data", "transformers"]
