"""Offline features, used in the usual way: `python -m tests.security.offline PART FOLDER`."""

from __future__ import annotations

import importlib
import logging
import pkgutil
import sys
from pathlib import Path

from mslm_data.cli import COMMANDS, main


def command(*words: object) -> None:
    """Run a command and assert its success."""
    code = main([str(word) for word in words])
    assert code == 0, words


def imports(_: Path) -> None:
    """Import all modules and print all help texts."""
    import mslm_data

    for module in pkgutil.walk_packages(mslm_data.__path__, "mslm_data."):
        if not module.name.endswith(("__main__", ".ray")):
            importlib.import_module(module.name)
    for words in (
        ["--help"],
        *([name, "--help"] for name in COMMANDS),
        ["recipes"],
        ["recipes", "--strategies"],
    ):
        command(*words)


def one_build(folder: Path) -> None:
    """Build one sample with two workers, and count its masks."""
    words = ("--source", "blurb/ncbi-disease", "--sample", "--workers", 2)
    command("build", *words, "--set", "shard.input_bytes=20000", "--out", folder / "built")
    command("mask-stats", folder / "built")


def commands(folder: Path) -> None:
    """Build every shipped pipeline that has a sample, and use the folders."""
    from mslm_data.annotate.medcat.pack import digest
    from mslm_data.io.resources import path, pipeline_names
    from tests.annotate.medcat_made import make_pack
    from tests.spacy_made import ruler

    for name in sorted({*pipeline_names()} - {"mimic-iv"}):
        workers = 2 if name == "mimic" else 1
        small = ("--set", "shard.input_bytes=20000", "--set", "encode.keep_text=true")
        command(
            "build",
            "--source",
            name,
            "--sample",
            "--out",
            folder / name,
            "--workers",
            workers,
            *small,
        )
        command("verify", folder / name)
    model = ruler(folder / "model", [{"label": "Disease", "pattern": "pain"}], sentences=True)
    spacy = (
        "annotate.use=spacy",
        f"annotate.model={model}",
        "segment.use=spacy",
        f"segment.model={model}",
    )
    pack = make_pack(path("vocab", "sample/concepts.csv"), folder / "pack")
    medcat = (f"annotate.model_pack={pack}", f"annotate.sha256={digest(pack)}")
    for name, assignments in (("spacy", spacy), ("medcat", medcat)):
        sets = [word for assignment in assignments for word in ("--set", assignment)]
        command("build", "--source", "mimic", "--sample", "--out", folder / name, *sets)
    genes, notes = folder / "blurb" / "bc2gm", folder / "mimic"
    command("mask-stats", genes, "--sweep")
    command("look", genes, "--out", folder / "page.html")
    command("vocab", "pmi", genes, "--min-count", 2)
    command("vocab", "anchors", genes, "--general", folder / "blurb" / "jnlpba", "--min-count", 2)
    command("vocab", "scores", "frequency", genes)
    concepts = path("vocab", "sample/concepts.csv")
    command("vocab", "concepts", "--from", concepts, "--out", folder / "t.csv")
    command("inspect", genes, "--strategy", "joint", "--strategy", "pmi")
    command("audit", notes, "--gold", path("vocab", "sample/ncbi-disease"), "--gold-source", "blurb/ncbi-disease",
            "--label", "Disease=Disease", "--set", f"annotate.table={concepts}")  # fmt: skip
    assert not loud_loggers()


def loud_loggers() -> list[str]:
    """Return the loggers that log text of notes at too low a level.

    MedCAT may log errors only, spaCy warnings.
    """
    least = {"medcat": logging.ERROR, "spacy": logging.WARNING, "": logging.WARNING}
    names = ("", *logging.root.manager.loggerDict)
    levels = {
        name: logging.getLogger(name).getEffectiveLevel()
        for name in names
        if name.partition(".")[0] in least
    }
    assert {"medcat", "spacy"} <= set(levels)
    assert not logging.root.handlers
    return [name for name, level in levels.items() if level < least[name.partition(".")[0]]]


def models(folder: Path) -> None:
    """Load the folders, make batches, and train, save, load and score with models."""
    import mslm_data as md
    from mslm_data.torch import MaskedDataset, MaskingCollator, MslmModel
    from tests.lexicon.models import config, sample_vocab, saved, transformers

    command("build", "--source", "blurb/bc2gm", "--sample", "--out", folder / "genes")
    shards = md.load(folder / "genes")
    assert len(list(md.Batches(shards["train"], md.strategy("joint"), batch_size=16))) > 1
    data = MaskedDataset(shards["train"], md.strategy("joint"))
    model = MslmModel.wrap(transformers.BertForMaskedLM(config()), labels=shards.labels)
    model(**next(iter(data.loader(batch_size=8)))).loss.backward()
    collator = MaskingCollator("joint", shards["train"], epoch=0)
    assert "labels" in collator([shards["train"][0], shards["train"][1]])
    model.save_pretrained(folder / "saved")
    MslmModel.from_pretrained(folder / "saved")
    encoder = saved(folder / "bert", vocab=sample_vocab())
    command(
        "vocab", "scores", "attention", folder / "genes", "--encoder", encoder, "--split", "test"
    )


PARTS = {"one-build": [one_build], "commands": [commands], "imports": [imports, models]}


if __name__ == "__main__":
    for part in PARTS[sys.argv[1]]:
        part(Path(sys.argv[2]))
