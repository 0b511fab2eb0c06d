"""Rows, tables and charts: equal to the counts, readable, and inert for any corpus text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from tokenizers import models

import mslm_data as md
from mslm_data.data.examples import Examples
from mslm_data.draw import macros, notebook_html, style_sheet
from mslm_data.draw.charts import cut_tail, histogram, name_bins
from mslm_data.draw.environment import step_of
from mslm_data.draw.sentences import Sentences, choose_rows
from mslm_data.log import plain
from tests.generate import IDS, Row, examples_of, fixed_examples, row_of
from tests.made import built

EVIL = [
    "<script>alert(1)</script>", "</style><script>alert(1)</script>", '" onmouseover="alert(1)', "' onload='x", "&amp;",
    "<img src=https://example.org/x>", "{{ 7 * 7 }}", "{% raw %}", "\x00\x07", "]]>", "<!--", "סרטן", "\u202eevil",
]  # fmt: skip


class Page(HTMLParser):
    """Checks that tags are closed in order, and collects tags and text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(str(html))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def sentences_of(
    examples: Examples, words: dict[int, str] | None = None, *, label: str = "a"
) -> Sentences:
    names = {id_: (words or {}).get(id_, f"w{id_}") for id_ in range(IDS.size)}
    vocabulary = {name: id_ for id_, name in names.items()}
    tokenizer = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="w1"))
    return Sentences(examples, tokenizer, [label, "b"])


def evil_sentences() -> Sentences:
    ids = range(5, 5 + len(EVIL))
    words = [-1, *range(len(EVIL)), -1]
    row = Row(key=1, ids=[2, *ids, 3], word_ids=words, mentions=[(1, 3, 0)])
    return sentences_of(examples_of([row]), dict(enumerate(EVIL, 5)), label=EVIL[0])


# Rows ---------------------------------------------------------------------------------------------


def test_rows__corpus_text_is_inert() -> None:
    sentences = evil_sentences()
    joint = md.strategy("joint")
    drawn = [
        sentences.mentions(),
        sentences.heat(joint, seed=0),
        sentences.side_by_side({EVIL[0]: joint, EVIL[2]: md.strategy("blm")}, seed=0),
    ]

    for html in drawn:
        page = Page(html)
        for evil in EVIL:
            assert plain(evil) in page.text
        names = {tag for tag, _ in page.tags}
        assert names <= {"div", "p", "u", "small", "span", "mark", "b"}
        for _, attributes in page.tags:
            assert attributes.keys() <= {"class", "dir", "title"}


def test_rows__mark_what_each_strategy_masks() -> None:
    examples = fixed_examples(8)
    strategies = {"joint": md.strategy("joint"), "blm": md.strategy("blm")}
    html = str(sentences_of(examples).side_by_side(strategies, seed=0))

    marked = dict.fromkeys("eb", 0)
    for kind, text in re.findall(r'<mark class="([eb])[ d]*">(.*?)</mark>', html):
        marked[kind] += len(re.findall(r"w\d+", text))
    plans = [strategy.plan(examples) for strategy in strategies.values()]
    n_elm, n_blm = np.sum([plan.counts() for plan in plans], axis=0)
    assert (marked["e"], marked["b"]) == (n_elm, n_blm)
    assert min(n_elm, n_blm) > 0


def test_rows__say_what_colours_show() -> None:
    rows = examples_of([row_of([2, 1], [(0, 2)])])
    html = sentences_of(rows).side_by_side({"elm": md.strategy("elm", elm=1.0)}, seed=0)

    assert re.search('<u class="m"><mark class="e">[^<]*</mark></u>&#8239;<small class="l">a', html)
    for part in ("u.m::before", "mark.e::before", "mark.b::before"):
        assert re.search(rf'\.mslm {re.escape(part)} {{ content: "[^"]+"', style_sheet())


def test_rows__differences_from_the_first_strategy_are_marked() -> None:
    rows = examples_of([row_of([1, 1, 1, 1], [(0, 1)])])
    strategies = {name: md.strategy(name, **{name: 1.0}) for name in ("elm", "blm")}
    html = str(sentences_of(rows).side_by_side({**strategies, "again": strategies["elm"]}, seed=0))

    first, second, third = html.split("<b>")[1:]
    assert ' d"' not in first + third
    assert second.count('<mark class="b d">') == 2


def test_rows__are_shaded_by_how_often_each_token_is_masked() -> None:
    rows = examples_of([row_of([1, 2], [(1, 2)])])
    html = str(sentences_of(rows).heat(md.strategy("elm", elm=1.0), seed=0))

    assert html.count('class="t f100" title="masked in 100%: as ELM 100, as BLM 0"') == 2
    assert html.count('class="t f0" title="masked in 0%: as ELM 0, as BLM 0"') == 1


def test_choose_rows__spread_over_the_split_each_with_a_mention(tmp_path: Path) -> None:
    built(tmp_path / "out")
    split = md.load(tmp_path / "out")["train"]
    rows = choose_rows(split, 4)

    starts = [len(split) * k // 4 for k in range(5)]
    assert all(
        start <= row < stop for row, start, stop in zip(rows, starts, starts[1:], strict=False)
    )
    for row, start, stop in zip(rows.tolist(), starts, starts[1:], strict=False):
        before = split.examples(start, row).span_starts.lengths
        some = len(split[row]["span_starts"]) > 0
        assert (
            not before.any() if some else not split.examples(start, stop).span_starts.lengths.any()
        )
    assert choose_rows(split, 10**6).tolist() == list(range(len(split)))


# Tables and charts --------------------------------------------------------------------------------


def test_table__holds_every_cell_below_its_title() -> None:
    rows = [("<a>", 1_000, 0.5, "3%"), ("b", 20, 0.25, "x")]
    html = macros("parts.html").table(("word", "n", "share", "of all"), rows, right=("of all",))

    lines = re.findall(r"<tr>(.*?)</tr>", html)
    cells = [re.findall(r"<(t[hd])[^>]*>(.*?)</t[hd]>", line) for line in lines]
    assert cells == [
        [("th", "word"), ("th", "n"), ("th", "share"), ("th", "of all")],
        [("th", "&lt;a&gt;"), ("td", "1,000"), ("td", "0.5000"), ("td", "3%")],
        [("th", "b"), ("td", "20"), ("td", "0.2500"), ("td", "x")],
    ]
    assert html.count('class="n"') == 9


def test_parts__text_of_others_is_inert() -> None:
    parts = macros("parts.html")
    for evil in EVIL:
        drawn = "".join(
            [
                parts.table((evil, "n"), [(evil, 1)]),
                parts.key([("ke", evil)]),
                parts.tiles([(evil, evil)]),
                parts.title(evil, evil),
                parts.note(evil),
                macros("charts.html").histogram(
                    histogram([evil], [1], title=evil, caption=evil, x=evil)
                ),
            ]
        )

        page = Page(drawn)
        assert not {"script", "img"} & {tag for tag, _ in page.tags}
        assert not [name for _, attributes in page.tags for name in attributes if name[:2] == "on"]
        assert plain(evil) in page.text


def test_text__keeps_what_can_be_read() -> None:
    soft = macros("parts.html").soft

    assert soft("a\tb\nc é 腫") == '<p class="soft">a\tb\nc é 腫</p>'
    assert soft("\x1b[31m<&>\"'") == '<p class="soft">\\u001b[31m&lt;&amp;&gt;&#34;&#39;</p>'


def test_step_of__has_a_class_of_the_style_sheet() -> None:
    assert [step_of(share) for share in (-1, 0.254, 1.5)] == ["f0", "f25", "f100"]
    assert ".mslm .f25{--f:0.25}" in style_sheet()


def test_histogram__heights_are_in_proportion() -> None:
    chart = histogram(["0", "1"], [10, 5], [0, 5], title="rows", x="x", part="short")

    (first,), (second,) = (one.bars for one in chart.bins)
    assert (first[0], second[0]) == ("a", "o")
    assert first[2] == pytest.approx(2 * second[2])
    assert chart.bins[1].tip == "1: 5, 5 of them short"
    assert chart.description == "rows: most at 0, 10"


@pytest.mark.parametrize(
    ("count", "top", "lines"),
    [
        (1, 0, ["0", "1"]),
        (4, 0, ["0", "1", "2", "3", "4"]),
        (130, 0, ["0", "50", "100", "150"]),
        (5, 37, ["0", "10", "20", "30", "40"]),
        (2_400, 0, ["0", "1k", "2k", "3k"]),
    ],
)
def test_histogram__has_lines_at_round_counts(count: int, top: int, lines: list[str]) -> None:
    chart = histogram(["x"], [count], title="rows", x="x", top=top)

    assert [label for _, label in chart.lines] == lines


def test_histogram__of_nothing_is_drawn() -> None:
    chart = histogram([], [], title="rows", x="x")

    assert Page(macros("charts.html").histogram(chart)).text


def test_cut_tail__the_last_bin_takes_what_is_beyond() -> None:
    assert cut_tail([500, 400, 60, 31, 5, 3, 1]) == [500, 400, 60, 40]
    assert cut_tail([1, 0, 2]) == [1, 0, 2]
    assert cut_tail([]) == [0]


def test_name_bins__an_open_end_says_so() -> None:
    assert name_bins(1, 3, open_end=True) == ["1", "2", "3+"]
    assert name_bins(0, 2, width=10, open_end=False) == ["0", "10"]


# The style sheet ----------------------------------------------------------------------------------


def test_notebook_html__needs_nothing_from_elsewhere() -> None:
    html = notebook_html("x")

    assert not re.search(r"url\(|@import|https?:|<script", html)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "ground"),
    [("ink", ground) for ground in ("page", "card", "note", "heat", "elm-back", "blm-back")]
    + [("soft", "page"), ("soft", "card")],
)
def test_style_sheet__text_can_be_read(ink: str, ground: str, theme: int) -> None:
    """WCAG 2.1 requires a contrast of 4.5, where contrast is (L1 + 0.05) / (L2 + 0.05)."""
    colours = dict(re.findall(r"--([a-z-]+): light-dark\((.*?)\)", style_sheet()))

    def luminance(name: str) -> float:
        code = colours[name].split(", ")[theme]
        parts = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(ink), luminance(ground)))
    assert (high + 0.05) / (low + 0.05) >= 4.5
