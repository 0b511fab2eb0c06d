"""Golden counts of ELM and joint masking on real corpora, with one token per word."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

import mslm_data as md
from mslm_data.data.examples import Examples, TokenIds
from tests.generate import Row, examples_of

CORPORA = {"BC2GM-IOB": 0, "NCBI-disease-IOB": 1, "BC5CDR-chem-IOB": 2, "BC5CDR-disease-IOB": 3}


def words_of(path: Path) -> Examples:
    """Read words and tags by a simple loop, one token per word, without special tokens."""
    rows = []
    lines = path.read_text(encoding="utf-8").split("\n")
    for full, group in groupby(lines, key=lambda line: bool(line.strip())):
        tags = [line.split("\t")[-1] for line in group]
        if not full or tags == ["O"]:
            continue
        starts = [t for t, tag in enumerate(tags) if tag[0] == "B"]
        ends = [
            next((t for t in range(s + 1, len(tags)) if tags[t][0] != "I"), len(tags))
            for s in starts
        ]
        spans = [(start, end, 0) for start, end in zip(starts, ends, strict=True)]
        rows.append(
            Row(key=len(rows), ids=[9] * len(tags), word_ids=range(len(tags)), mentions=spans)
        )
    return examples_of(rows, TokenIds(size=10))


@pytest.fixture(scope="module")
def corpora(real: Path) -> list[Examples]:
    return [words_of(real / "blurb" / name / "train.tsv") for name in CORPORA]


def share_of_mentions(name: str, rate: float, examples: Examples) -> float:
    """Return the share of mentions with a masked first token."""
    kinds = (
        md.strategy(name, elm=rate, **({"blm": 0} if name != "elm" else {})).plan(examples).kinds
    )
    rows = np.repeat(kinds.offsets[:-1], examples.span_starts.lengths)
    return float((kinds.values[rows + examples.span_starts.values] > 0).mean())


@pytest.mark.parametrize(
    ("rate", "paper", "released"),
    [
        (0.25, [0.471, 0.591, 0.587, 0.649], [0.089, 0.047, 0.045, 0.032]),
        (0.5, [0.628, 0.700, 0.694, 0.729], [0.372, 0.300, 0.306, 0.271]),
        (0.75, [0.911, 0.953, 0.955, 0.968], [0.529, 0.409, 0.413, 0.351]),
    ],
)
def test_elm__mentions_masked_by_the_paper_and_by_its_code(corpora, rate, paper, released):
    """Rounding up or down decides whether most sentences have masks at all."""
    assert [share_of_mentions("elm", rate, examples) for examples in corpora] == pytest.approx(
        paper, abs=6e-4
    )
    assert [
        share_of_mentions("joint-released", rate, examples) for examples in corpora
    ] == pytest.approx(released, abs=6e-4)


def test_joint__share_of_words_masked(corpora):
    """17.2, 15.2 and 13.1 % of words are masked at the paper's rates, with independent BLM as measured."""
    made = md.strategy("joint", elm=1.0, blm=0.075, count="bernoulli")
    shares = [
        sum(made.plan(examples).counts()) / len(examples.input_ids.values)
        for examples in corpora[:3]
    ]

    assert shares == pytest.approx([0.172, 0.152, 0.131], abs=0.0015)
