"""Small corpora of our own, one for each source, and what must be read from them.

`FIXTURES[name](folder)` writes a corpus below `folder` and returns a `Fixture`, or a plain tuple of its first fields.
Formats whose unit is the word are here, those of whole documents in `fixtures_b.py` as `FIXTURES_B`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Expected = tuple[str, str, tuple[tuple[int, int, str, str], ...]]
"""A document as (id, text, spans sorted), a span as (start, end, label, concept)."""

VARIANTS = ("crlf", "bom", "unterminated", "gz")


class Broken(NamedTuple):
    """What breaking one record of a fixture's train split does.

    Attributes:
        id: Of the document that is set aside; it is one of those expected. "" where breaking adds a record.
        place: `file:line` that must be named.
    """

    id: str
    place: str


class Fixture(NamedTuple):
    """A written corpus.

    Attributes:
        inputs: What `find` is given.
        options: The source's options.
        expected: Split -> documents in the order of the files.
        broken: Breaks one record of the train split in place; every source has one.
        variants: Which rewritings of all files leave the documents as they are, of `VARIANTS`.
        mentions: Mentions that stand in the files, -1 for as many as expected spans.
    """

    inputs: Sequence[Path]
    options: Mapping[str, Any]
    expected: Mapping[str, Sequence[Expected]]
    broken: Callable[[], Broken] | None = None
    variants: Sequence[str] = VARIANTS
    mentions: int = -1


def conll(folder: Path) -> Fixture:
    """Three files without marks, and words that a careless reader takes for something else."""
    sentences = [
        [("Marble", "O"), ("fever", "B-Disease"), ("fades", "O"), (".", "O")],
        [('"', "O"), ("NA", "B-Gene"), ("null", "B-Gene"), ("None", "I-Gene")],
        [("#4", "O"), ("[x]", "B-Drug")],
        [("alone", "O")],
    ]
    path = folder / "train.tsv"
    path.write_text(
        "\n".join("".join(f"{word}\t{tag}\n" for word, tag in sentence) for sentence in sentences)
    )
    (folder / "devel.tsv").write_text("Amber\tB-Disease\n\n\nrash\tO\n")
    (folder / "test.tsv").write_text("Amber\tO\nrash\tB-Disease\n")

    def break_one() -> Broken:
        path.write_text(path.read_text().replace("NA\tB-Gene\n", "NA\n"))
        return Broken("train:1", "train.tsv:7")

    return Fixture(
        [folder],
        {},
        {
            "train": [
                ("train:0", "Marble fever fades .", ((7, 12, "Disease", ""),)),
                ("train:1", '" NA null None', ((2, 4, "Gene", ""), (5, 14, "Gene", ""))),
                ("train:2", "#4 [x]", ((3, 6, "Drug", ""),)),
                ("train:3", "alone", ()),
            ],
            "validation": [
                ("devel:0", "Amber", ((0, 5, "Disease", ""),)),
                ("devel:1", "rash", ()),
            ],
            "test": [("test:0", "Amber rash", ((6, 10, "Disease", ""),))],
        },
        break_one,
    )


def bc2gm(folder: Path) -> Fixture:
    """Sentences with double spaces, and a mention whose text is not what stands at its offsets."""
    for split in ("train", "test"):
        (folder / split).mkdir()
    sentences = folder / "train" / "train.in"
    sentences.write_text(
        "S1 The  kappa nine gene sleeps.\nS2 Nothing named here.\nS3 Orbital kinase, orbital kinase!\n"
    )
    mentions = folder / "train" / "GENE.eval"
    mentions.write_text(
        "S3|14 26|orbital kinase\nS1|3 15|kappa nine gene\nS3|0 12|Orbital kinase\nS2|0 5|Nothang\n"
    )
    (folder / "train" / "ALTGENE.eval").write_text("S1|3 11|kappa nine\n")
    (folder / "test" / "test.in").write_text("S9 A quiet sentence.\n")
    (folder / "test" / "GENE.eval").write_text("")

    def break_one() -> Broken:
        mentions.write_text(mentions.read_text().replace("S1|3 15|", "S1|three 15|"))
        return Broken("S1", "GENE.eval:2")

    return Fixture(
        [folder],
        {},
        {
            "train": [
                ("S1", "The  kappa nine gene sleeps.", ((5, 20, "GENE", ""),)),
                ("S2", "Nothing named here.", ()),
                (
                    "S3",
                    "Orbital kinase, orbital kinase!",
                    ((0, 14, "GENE", ""), (16, 30, "GENE", "")),
                ),
            ],
            "test": [("S9", "A quiet sentence.", ())],
        },
        break_one,
        mentions=4,
    )


def ebm(folder: Path) -> Fixture:
    """Two documents of the published folder; participants and interventions overlap, outcomes are missing once."""
    root = folder / "ebm_nlp_2_00"
    labels = {
        ("11", "train"): {"participants": "0 1 1 0 0 0", "interventions": "0 0 1 0 1 1"},
        ("22", "test/gold"): {"participants": "1 0", "interventions": "0 0", "outcomes": "0 1"},
    }
    for (pmid, split), elements in labels.items():
        for element, values in elements.items():
            path = (
                root
                / "annotations/aggregated/starting_spans"
                / element
                / split
                / f"{pmid}.AGGREGATED.ann"
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{value}\n" for value in values.split()))
    (root / "documents").mkdir()
    (root / "documents" / "11.tokens").write_text("Ninety\npainters\nhummed\n.\nTea\nhelped\n")
    (root / "documents" / "22.tokens").write_text("Walkers\nslept\n")
    broken = root / "annotations/aggregated/starting_spans/interventions/train/11.AGGREGATED.ann"

    def break_one() -> Broken:
        broken.write_text("0\n0\none\n0\n1\n1\n")
        return Broken("11", "11.AGGREGATED.ann:3")

    spans = ((7, 22, "Participant", ""), (16, 22, "Intervention", ""), (25, 35, "Intervention", ""))
    return Fixture(
        [folder],
        {},
        {
            "train": [("11", "Ninety painters hummed .\nTea helped", spans)],
            "test": [("22", "Walkers slept", ((0, 7, "Participant", ""), (8, 13, "Outcome", "")))],
        },
        break_one,
        variants=("crlf", "bom", "unterminated"),
    )


FIXTURES: dict[str, Callable[[Path], Any]] = {"conll": conll, "bc2gm": bc2gm, "ebm": ebm}
