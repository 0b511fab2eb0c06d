"""Weak against gold mentions of the same text: found, missed and wrong mentions."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

import mslm_data as md
from mslm_data.api.loading import Shards
from mslm_data.errors import ShardError
from mslm_data.look.corpus import Corpus
from mslm_data.look.filters import FILTERS, Scan, find_page
from mslm_data.look.gold import _find_aligned
from mslm_data.look.page import draw_page
from mslm_data.look.render import render_view
from mslm_data.look.state import State
from tests import made
from tests.cli.running import run
from tests.look.serving import ask, served
from tests.support.waiting import wait_for

TEXT = "Olanzapine raised glucose. No proteinuria with lithium or olanzapine."
GOLD = [(0, 10, "Chemical"), (29, 40, "Disease"), (46, 53, "Chemical"), (57, 67, "Chemical")]
WEAK = [(0, 10, "Chemical"), (18, 25, "Chemical"), (29, 40, "Disease"), (57, 67, "Disease")]
Mention = tuple[int, int, str]
Documents = Mapping[str, tuple[str, Sequence[Mention]]]
Build = Callable[..., Shards]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Build a folder from documents: id -> text and mentions."""

    def build(
        name: str,
        documents: Documents,
        *,
        segmenter: str = "whole",
        options: Mapping[str, Any] | None = None,
        split: str = "train",
        more: Mapping[str, Documents] | None = None,
    ) -> Shards:
        source = tmp_path / f"{name}.in"
        source.mkdir()
        for file, some in {split: documents, **(more or {})}.items():
            rows = [
                {
                    "id": doc_id,
                    "text": text,
                    "entities": [
                        {"start": start, "end": end, "label": label}
                        for start, end, label in mentions
                    ],
                }
                for doc_id, (text, mentions) in some.items()
            ]
            (source / f"{file}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        pipeline = tmp_path / f"{name}.toml"
        pipeline.write_text(
            f'[source]\nuse = "jsonl"\nduplicates = "keep"\n[segment]\nuse = "{segmenter}"\n'
        )
        return md.build(
            pipeline,
            input=source,
            tokenizer=made.SAMPLE / "vocab.txt",
            out=tmp_path / name,
            workers=1,
            options=dict(options or {}),
        )

    return build


def counted(corpus: Corpus, split: str = "train") -> dict[str, tuple[int, int, int]]:
    """Return label -> found, missed and wrong mentions."""
    alignment = corpus.align_gold(split)
    assert alignment is not None
    return {
        label: (counts.hits, counts.gold - counts.hits, counts.predicted - counts.hits)
        for label, counts in alignment.counts.items()
    }


class Sentence(NamedTuple):
    """A sentence with its gold and weak mentions."""

    text: str
    gold: Sequence[Mention]
    weak: Sequence[Mention]


SENTENCES = (
    Sentence("Olanzapine was given.", [(0, 10, "Chemical")], [(0, 10, "Chemical")]),
    Sentence("No proteinuria.", [(3, 14, "Disease")], []),
    Sentence("Lithium was stopped.", [(0, 7, "Chemical")], [(0, 7, "Disease")]),
    Sentence("No proteinuria.", [(3, 14, "Disease")], []),
    Sentence("Glucose rose.", [], [(0, 7, "Chemical")]),
)
ALL = tuple(range(len(SENTENCES)))
Case = tuple[Sequence[int], dict[str, Any], dict[str, Any], int]
CASES: dict[str, Case] = {
    # Sentences of gold, options of the weak and of the gold folder, rows read at once.
    "the same text": (ALL, {}, {}, 8192),
    "one row at a time": (ALL, {}, {}, 1),
    "gold in other sentences": (ALL, {}, {"segmenter": "whole"}, 2),
    "gold in another split": (ALL, {}, {"split": "test"}, 8192),
    "weak in windows": (ALL, {"options": {"encode.max_tokens": 8}}, {}, 8192),
    "weak in whole rows": (ALL, {"segmenter": "whole"}, {}, 8192),
    "gold in another order": ((3, 2, 4, 0, 1), {}, {}, 8192),
    **{
        f"gold lacks sentence {lacks}, in rows by {segmenter}": (
            [number for number in ALL if number != lacks], {}, {"segmenter": segmenter}, 8192
        )
        for lacks in ALL
        for segmenter in ("clinical", "whole")
    },
}  # fmt: skip


def document(numbers: Sequence[int], kind: str) -> tuple[str, list[Mention]]:
    """Return a document of some sentences, and its gold or weak mentions."""
    text = ""
    mentions = []
    for number in numbers:
        spans: Sequence[Mention] = getattr(SENTENCES[number], kind)
        mentions += [(len(text) + start, len(text) + end, label) for start, end, label in spans]
        text += SENTENCES[number].text + " "
    return text, mentions


@pytest.mark.parametrize("case", CASES)
def test_align__counts_the_mentions_of_sentences_that_gold_has(
    build: Build, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    in_gold, weak_options, gold_options, chunk = CASES[case]
    monkeypatch.setattr("mslm_data.look.gold._CHUNK", chunk)
    # Another document is in gold alone, one in the weak folder alone.
    documents = {"0": ("Lithium.", [(0, 7, "Chemical")]), "a": document(ALL, "weak")}
    weak = build("weak", documents, **{"segmenter": "clinical", **weak_options})
    others = {"b": (TEXT, GOLD), "a": document(in_gold, "gold")}
    gold = build("gold", others, **{"segmenter": "clinical", **gold_options})

    counts = counted(Corpus(weak, gold=gold))

    texts = {SENTENCES[number].text for number in in_gold}
    expected = {"Chemical": [0, 0, 0], "Disease": [0, 0, 0]}
    for sentence in SENTENCES:
        if sentence.text not in texts:
            continue
        own, true = set(sentence.weak), set(sentence.gold)
        for column, mentions in enumerate((own & true, true - own, own - true)):
            for *_, label in mentions:
                expected[label][column] += 1
    assert {label: [*row] for label, row in counts.items()} == expected


def test_align__tells_a_sentence_from_its_repetition(build: Build) -> None:
    text = "No glucose. No glucose."
    weak = build("weak", {"a": (text, [(3, 10, "X"), (15, 22, "X")])}, segmenter="clinical")
    gold = build("gold", {"a": (text, [(15, 22, "X")])})

    assert counted(Corpus(weak, gold=gold)) == {"X": (1, 0, 1)}


def test_find_aligned__takes_whole_tokens() -> None:
    document = np.array([65_536, 256], np.int32).tobytes()

    assert _find_aligned(document, np.array([256], np.int32).tobytes(), 0) == 4
    assert _find_aligned(document, b"", 0) == -1


def test_align__skips_different_texts_and_labels_of_one_folder(build: Build) -> None:
    weak = build("weak", {"a": (TEXT, [(18, 25, "Lab")]), "b": (TEXT, WEAK), "c": (TEXT, WEAK)})
    gold = build("gold", {"a": (TEXT, GOLD[:1]), "b": (TEXT[:-1] + " daily.", GOLD)})
    corpus = Corpus(weak, gold=gold)

    counts = counted(corpus)

    alignment = corpus.align_gold("train")
    assert alignment is not None
    assert (alignment.positions >= 0).tolist() == [True, False, False]
    assert counts["Chemical"] == (0, 1, 0)
    assert "Lab" not in counts


def test_align__prefers_the_document_of_the_same_split(build: Build) -> None:
    weak = build("weak", {"1": (TEXT, WEAK)}, split="validation")
    other = {"1": ("Another text.", [(0, 7, "Chemical")])}
    gold = build("gold", {"1": (TEXT, GOLD)}, split="validation", more={"train": other})
    corpus = Corpus(weak, gold=gold)

    assert counted(corpus, "validation")["Chemical"] == (1, 2, 1)


def test_align__compares_single_labels_regardless_of_names(build: Build) -> None:
    weak = build("weak", {"a": (TEXT, [(0, 10, "T109")])})
    gold = build("gold", {"a": (TEXT, [(0, 10, "Chemical")])})

    assert counted(Corpus(weak, gold=gold)) == {"T109": (1, 0, 0)}


def test_corpus__refuses_incomparable_folders(build: Build) -> None:
    weak = build("weak", {"a": (TEXT, WEAK)})
    no_label = build("no_label", {"a": (TEXT, [(0, 10, "X"), (18, 25, "Y")])})
    other = build("other", {"a": (TEXT, GOLD)})
    tokenizer = msgspec.structs.replace(other.manifest.tokenizer, sha256="0" * 64)
    other.manifest = msgspec.structs.replace(other.manifest, tokenizer=tokenizer)

    with pytest.raises(ShardError, match=r"expected a label of .*Chemical.*got X, Y"):
        Corpus(weak, gold=no_label)
    with pytest.raises(ShardError, match="another tokenizer"):
        Corpus(weak, gold=other)


def sample(build: Build) -> tuple[Shards, Shards]:
    """Build weak and gold mentions of 60 documents. Some of them agree."""
    words = ["lithium", "glucose", "proteinuria", "sodium", "olanzapine"]
    weak, gold = {}, {}
    for number in range(60):
        chosen = [words[(number + k * k) % 5] for k in range(4)]
        text = " and ".join(chosen)
        places = [
            (len(" and ".join(chosen[:k])) + 5 * bool(k), word) for k, word in enumerate(chosen)
        ]
        spans = [(start, start + len(word), "Chemical") for start, word in places]
        weak[f"d{number}"] = (text, [span for k, span in enumerate(spans) if (number + k) % 3])
        gold[f"d{number}"] = (text, [span for k, span in enumerate(spans) if (number * k) % 4])
    return build("weak", weak), build("gold", gold)


def test_filters__agree_with_sets_of_spans(build: Build) -> None:
    weak, gold = sample(build)
    corpus = Corpus(weak, gold=gold)
    gold_filters = [name for name, filter_ in FILTERS.items() if filter_.needs == "gold"]

    def spans(shards: Shards, row: int) -> set[tuple[int, int]]:
        columns = shards["train"][row]
        return set(zip(columns["span_starts"], columns["span_ends"], strict=True))

    by_id = {gold["train"][row]["doc_id"]: row for row in range(60)}
    expected: dict[str, list[int]] = {"found": [], "missed": [], "wrong": []}
    for row in range(60):
        own = spans(weak, row)
        true = spans(gold, by_id[weak["train"][row]["doc_id"]])
        for status, mentions in (
            ("found", own & true),
            ("missed", true - own),
            ("wrong", own - true),
        ):
            expected[status] += [row] if mentions else []

    assert sorted(gold_filters) == sorted(expected)
    for status in gold_filters:
        state = State(only=(status,))
        scan = Scan(split=weak["train"], state=state, gold=corpus.align_gold("train"))
        page = find_page(scan, count=99)
        assert page.rows.tolist() == expected[status]
        assert 0 < len(page.rows) < 60


def test_rows__mark_found_missed_and_wrong_mentions(build: Build) -> None:
    weak = build("weak", {"a": (TEXT, WEAK), "b": ("No gold here.", [])})
    gold = build("gold", {"a": (TEXT, GOLD)})

    text = draw_page(Corpus(weak, gold=gold), State())

    rows = re.findall(r'<article class="row".*?</article>', text, re.DOTALL)
    own, gold_line = rows[0].split("data-gold")

    def marked(line: str) -> list[tuple[str, str]]:
        mentions = re.findall(r'<u class="m ?(\w*)">(.*?)</u>', line)
        return [(status, re.sub("<.*?>", "", words)) for status, words in mentions]

    assert marked(own) == [
        ("found", "Olanzapine"), ("wrong", "glucose"), ("found", "proteinuria"), ("wrong", "olanzapine"),
    ]  # fmt: skip
    assert marked(gold_line) == [
        ("found", "Olanzapine"), ("found", "proteinuria"), ("missed", "lithium"), ("missed", "olanzapine"),
    ]  # fmt: skip
    assert "Chemical, missed" in gold_line
    assert "not in gold" in rows[1]
    assert "data-gold" not in rows[1]


def test_look__compares_two_folders_live_and_in_a_file(build: Build, tmp_path: Path) -> None:
    weak, gold = sample(build)
    corpus = Corpus(weak, gold=gold)
    found, missed, wrong = counted(corpus)["Chemical"]
    file = tmp_path / "page.html"

    done = run("look", weak.folder, gold.folder, "--out", file, "--at", "rows?only=missed")
    live = Corpus(weak, gold=gold, live=True)
    with served(live) as server:
        wait_for(lambda: live.align_gold("train") is not None)
        page = ask(server.address.replace("/rows?", "/rows?only=missed&")).text
        saved = ask(server.address.replace("/rows?", "/page.html?")).text
        taken = ask(server.address.replace("/rows?", "/take?")).text

    assert done.code == 0
    for text in (page, file.read_text(encoding="utf-8"), saved):
        row = re.search(r'<tr data-gold-label="Chemical">.*?</tr>', text, re.DOTALL)
        assert row is not None
        counts = dict(re.findall(r'data-count="(\w+)">(.*?)<', row[0]))
        assert counts["found"] == str(found)
        assert counts["missed"] == str(missed)
        assert counts["wrong"] == str(wrong)
        assert counts["recall"] == f"{found / (found + missed):.1%}"
    assert 'value="missed" checked' in page
    assert f"mslm-data look {weak.folder} {gold.folder} --at" in html.unescape(taken)


def gold_terms(corpus: Corpus, split: str = "train") -> dict[str, list[tuple[str, str, str]]]:
    """Return the title of each table of terms beside gold -> text, label and mentions."""
    page = str(render_view("corpus", corpus, State(view="corpus", split=split), live=False)[0])
    part = page.partition("<h3>Terms beside gold</h3>")[2].partition("</article>")[0]
    row = r"<bdi>(.*?)</bdi></th><td>(.*?)</td><td class=\"n\">(.*?)</td>"
    return {
        title: re.findall(row, table)
        for title, table in re.findall(r"<caption>(.*?)</caption>(.*?)</table>", part, re.DOTALL)
    }


@pytest.mark.parametrize("segmenter", ["whole", "clinical"])
def test_corpus__counts_missed_and_wrong_terms(build: Build, segmenter: str) -> None:
    more = "Lithium was raised. No lithium."
    lithium = [(0, 7, "Chemical"), (23, 30, "Chemical")]
    documents = {"a": (TEXT, WEAK), "b": (more, [(12, 18, "Disease")])}
    weak = build("weak", documents, segmenter=segmenter)
    gold = build("gold", {"a": (TEXT, GOLD), "b": (more, lithium)})

    tables = gold_terms(Corpus(weak, gold=gold))

    # "Lithium" is missed three times, in two spellings. "olanzapine" has another label.
    assert [(text.lower(), *row) for text, *row in tables["Most often missed in train"]] == [
        ("lithium", "Chemical", "3"),
        ("olanzapine", "Chemical", "1"),
    ]
    assert sorted(tables["Most often wrong in train"]) == [
        ("glucose", "Chemical", "1"),
        ("olanzapine", "Disease", "1"),
        ("raised", "Disease", "1"),
    ]


def test_corpus__shows_the_recall_of_new_mentions(build: Build) -> None:
    # "Lithium" is a gold mention of the training split, in another spelling; the others are new.
    train = {"c": ("LITHIUM helped.", [(0, 7, "Chemical")])}
    # Neither a document that gold lacks nor one that gold trains on is counted.
    others = {"b": (TEXT + " More.", WEAK), **train}
    folders = [
        build(
            "weak",
            {"a": (TEXT, WEAK), **others},
            split="test",
            more={"train": {"d": ("None.", [])}},
        ),
        build("gold", {"a": (TEXT, GOLD)}, split="test", more={"train": train}),
    ]
    corpus = Corpus(folders[0], gold=folders[1])

    recall = {
        split: re.findall(
            r'<tr data-recall="(\w+)">.*?<td class="n">(\d+)</td><td class="n">(\d+)</td>'
            r'<td class="n">([\d.]+)%</td>',
            str(render_view("corpus", corpus, State(view="corpus", split=split), live=False)[0]),
        )
        for split in ("test", "train")
    }

    # Found are olanzapine and proteinuria; the second olanzapine has another label.
    assert recall == {
        "test": [("memorised", "1", "0", "0.0"), ("new", "3", "2", "66.7")],
        "train": [],
    }


def test_corpus__says_where_nothing_differs_from_gold(build: Build) -> None:
    folders = [build(name, {"a": (TEXT, GOLD)}) for name in ("weak", "gold")]
    corpus = Corpus(folders[0], gold=folders[1])

    page = str(render_view("corpus", corpus, State(view="corpus"), live=False)[0])

    assert gold_terms(corpus) == {}
    assert "No mention of train is missed or wrong." in page


def test_look__shows_protected_gold_only_on_request(build: Build) -> None:
    weak = build("weak", {"a": (TEXT, WEAK)})
    gold = build("gold", {"a": (TEXT, GOLD)}, options={"about.protected": True})
    asked = Corpus(weak, gold=gold, show_text=True)

    page = draw_page(Corpus(weak, gold=gold), State())

    assert "proteinuria" not in page
    assert 'data-count="missed">2<' in page
    assert gold_terms(Corpus(weak, gold=gold)) == {}
    assert "proteinuria" in render_view("rows", asked, State(), live=True)[0]
    assert len(gold_terms(asked)) == 2
