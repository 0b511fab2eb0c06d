"""Small corpora of our own in the formats of whole documents: PubTator, BioC, BRAT, JSON lines, Arrow and parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.source.fixtures import Broken, Fixture
from tests.source.tables import table

PUBTATOR = """
101|t|Gout and kidney stones.
101|a|Naïve patients had gout twice.
101\t0\t4\tGout\tDisease\tD006073
101\t9\t22\tkidney stones\tDisease\tD007669|D002114
101\t43\t47\tgout\tDisease\t-1
101\tCID\tD000001\tD006073

102|t|Aspirin helps.
102|a|

103|t|Fever in breast and ovarian cancer.
103|a|No more is known.
103\t9\t34\tbreast and ovarian cancer\tDisease\tD001943+D010051\tbreast cancer|ovarian cancer
103\t9\t15\tbreast\tDisease\t
103\t0\t4\tFevers\tDisease\tD005334
"""


def pubtator(folder: Path) -> Fixture:
    train = folder / "small_train.PubTator"
    train.write_text(PUBTATOR, encoding="utf-8")
    (folder / "small_test.PubTator").write_text("104|t|Cough.\n104|a|It went.\n", encoding="utf-8")

    def broken() -> Broken:
        train.write_text(PUBTATOR.replace("102|a|", "102\tno offsets"), encoding="utf-8")
        return Broken("102", "small_train.PubTator:10")

    expected = {
        "train": [
            (
                "101",
                "Gout and kidney stones.\nNaïve patients had gout twice.",
                (
                    (0, 4, "Disease", "D006073"),
                    (9, 22, "Disease", "D007669|D002114"),
                    (43, 47, "Disease", ""),
                ),
            ),
            ("102", "Aspirin helps.", ()),
            (
                "103",
                "Fever in breast and ovarian cancer.\nNo more is known.",
                ((9, 15, "Disease", ""), (9, 34, "Disease", "D001943+D010051")),
            ),
        ],
        "test": [("104", "Cough.\nIt went.", ())],
    }
    return Fixture([folder], {}, expected, broken, mentions=6)


BIOC = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE collection SYSTEM "BioC.dtd">
<collection><source>own</source><date></date><key></key>
<document><id>d1</id>
  <passage><infon key="type">title</infon><offset>0</offset><text>Gout &amp; stones.</text>
    <annotation id="1"><infon key="type">Disease</infon><infon key="identifier">D006073</infon>
      <location offset="0" length="4"/><text>Gout</text></annotation>
  </passage>
  <passage><offset>15</offset>
    <sentence><offset>15</offset><text>Naïve tissue swells.</text></sentence>
    <sentence><offset>37</offset><text>Skin heals.</text>
      <annotation id="2"><infon key="type">Tissue</infon>
        <location offset="37" length="4"/><text>Skin</text></annotation>
      <annotation id="3"><infon key="type">Tissue</infon>
        <location offset="38" length="4"/><text>Skin</text></annotation>
    </sentence>
  </passage>
</document>
<document><id>d2</id><passage><offset>0</offset><text>Nothing here.</text></passage></document>
</collection>
"""


def bioc(folder: Path) -> Fixture:
    train = folder / "train.xml"
    train.write_text(BIOC, encoding="utf-8")
    (folder / "test.xml").write_text(
        "<collection><document><id>d3</id><passage><offset>0</offset><text>Fin.</text></passage></document></collection>",
        encoding="utf-8",
    )

    def broken() -> Broken:
        train.write_text(BIOC.replace("<offset>37", "<offset>far"), encoding="utf-8")
        return Broken("d1", "train.xml:4")

    expected = {
        "train": [
            (
                "d1",
                "Gout & stones.\nNaïve tissue swells. \nSkin heals.",
                ((0, 4, "Disease", "D006073"), (37, 41, "Tissue", "")),
            ),
            ("d2", "Nothing here.", ()),
        ],
        "test": [("d3", "Fin.", ())],
    }
    return Fixture([folder], {}, expected, broken, mentions=3)


BRAT = {
    "train/n1.txt": "Naïve mice.\nThey had\ngout and red, sore skin.",
    "train/n1.ann": "T1\tAnimal 6 10\tmice\nT2\tFinding 17 25\thad gout\nT3\tFinding 30 33;40 44\tred skin\n"
    "R1\tOf Arg1:T1 Arg2:T2\nE1\tFinding:T2\n#1\tNote T1\tseen\n*\tEquiv T1 T2\nA1\tOld T1\nN1\tRef T1 X:1\tmice\n",
    "train/n2.txt": "Nothing was found.",
    "train/n2.ann": "",
    "test/n3.txt": "Rats sleep.",
    "test/n3.ann": "T1\tAnimal 0 4\tRats\nT2\tAnimal 5 9\tRats\n",
}


def brat(folder: Path) -> Fixture:
    for name, text in BRAT.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")

    def broken() -> Broken:
        (folder / "train/n1.ann").write_text(
            "#1\tNote T1\tseen\nT1\tAnimal six 10\tmice\n", encoding="utf-8"
        )
        return Broken("n1", "n1.ann:2")

    expected = {
        "train": [
            (
                "n1",
                BRAT["train/n1.txt"],
                ((6, 10, "Animal", ""), (17, 25, "Finding", ""), (30, 44, "Finding", "")),
            ),
            ("n2", BRAT["train/n2.txt"], ()),
        ],
        "test": [("n3", BRAT["test/n3.txt"], ((0, 4, "Animal", ""),))],
    }
    return Fixture(
        [folder], {}, expected, broken, variants=("bom", "unterminated", "gz"), mentions=5
    )


ROWS: list[Mapping[str, Any]] = [
    {
        "id": "w1",
        "tokens": ["Naïve", "mice", "had", "gout"],
        "ner_tags": ["O", "B-Animal", "O", "B-Disease"],
    },
    {"tokens": ["Gout"], "ner_tags": [1]},
    {
        "pmid": 7,
        "text": "Gout hurts.",
        "entities": [{"start": 0, "end": 4, "label": "Disease", "concept": "C1"}],
    },
    {
        "doc_id": "x",
        "text": "No gout.",
        "spans": [[3, 7, "Disease"], [3, 99, "Disease"]],
        "sentences": [[0, 8]],
    },
    {
        "document_id": "k",
        "passages": [
            {"text": ["Old mice."], "offsets": [[0, 9]]},
            {"text": ["Gout."], "offsets": [[10, 15]]},
        ],
        "entities": [
            {
                "type": "Disease",
                "text": ["Gout"],
                "offsets": [[10, 14]],
                "normalized": [{"db_name": "X", "db_id": "9"}],
            }
        ],
    },
]
ROWS_EXPECTED = [
    ("w1", "Naïve mice had gout", ((6, 10, "Animal", ""), (15, 19, "Disease", ""))),
    ("train:1", "Gout", ((0, 4, "Disease", ""),)),
    ("7", "Gout hurts.", ((0, 4, "Disease", "C1"),)),
    ("x", "No gout.", ((3, 7, "Disease", ""),)),
    ("k", "Old mice.\nGout.", ((10, 14, "Disease", "9"),)),
]


def jsonl(folder: Path) -> Fixture:
    train = folder / "train.jsonl"
    lines = [json.dumps(row, ensure_ascii=False) for row in ROWS]
    train.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    (folder / "test.jsonl").write_text('{"tokens": ["Fin"], "tags": ["O"]}\n', encoding="utf-8")

    def broken() -> Broken:
        train.write_text(
            "\n\n".join([lines[0], lines[1][:-1], *lines[2:]]) + "\n", encoding="utf-8"
        )
        return Broken("train:1", "train.jsonl:3")

    expected = {"train": ROWS_EXPECTED, "test": [("test:0", "Fin", ())]}
    return Fixture([folder], {"tag_names": ("O", "B-Disease")}, expected, broken, mentions=7)


def hub(folder: Path) -> Fixture:
    rows: list[Mapping[str, Any]] = [
        {"id": "a", "tokens": ["Naïve", "gout", "flares"], "ner_tags": [0, 1, 2]},
        {"id": None, "tokens": ["Gout"], "ner_tags": [1]},
        {"id": "c", "tokens": ["Calm"], "ner_tags": [0]},
    ]
    train = folder / "train-00000-of-00001.parquet"
    pq.write_table(table(rows), train, row_group_size=2)
    pq.write_table(table(rows[2:]), folder / "test-00000-of-00001.parquet")

    def broken() -> Broken:
        pq.write_table(
            table([rows[0], rows[1], {**rows[2], "ner_tags": [0, 0]}]), train, row_group_size=2
        )
        return Broken("c", f"{train.name}:3")

    expected = {
        "train": [
            ("a", "Naïve gout flares", ((6, 17, "Disease", ""),)),
            ("train-00000-of-00001:1", "Gout", ((0, 4, "Disease", ""),)),
            ("c", "Calm", ()),
        ],
        "test": [("c", "Calm", ())],
    }
    return Fixture([folder], {}, expected, broken, variants=())


FIXTURES_B: dict[str, Callable[[Path], Fixture]] = {
    "pubtator": pubtator,
    "bioc": bioc,
    "brat": brat,
    "jsonl": jsonl,
    "hub": hub,
}
