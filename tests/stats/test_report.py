"""The page of `mask-stats --report`: whole, on its own, and inert whatever the corpus says."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from tokenizers import models

import mslm_data as md
from mslm_data.draw import look
from mslm_data.draw.parts import table, text
from mslm_data.draw.sentences import Sentences, choose_rows
from mslm_data.log import plain
from mslm_data.mask.strategy import Recipe
from mslm_data.stats import mask_stats, schemes, sweep
from mslm_data.stats.report import Report, said_options
from mslm_data.stats.report.charts import histogram
from mslm_data.stats.report.sections import _cut
from tests.generate import IDS, Row, examples_of, fixed_examples, row_of
from tests.made import built
from tests.support.browser import CHROMIUM, needs_chromium, seen_on
from tests.support.waiting import PATIENCE_S

EVIL = [
    "<script>alert(1)</script>", "</style><script>alert(1)</script>", '" onmouseover="alert(1)', "' onload='x", "&amp;",
    "<img src=https://example.org/x>", "$title", "${sections}", "\x00\x07", "]]>", "<!--", "סרטן", "\u202eevil",
]  # fmt: skip
VOID = {"meta"}


class Page(HTMLParser):
    """Checks that tags close in order, and collects what a page is made of."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: dict[str, list[str]] = {}
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.setdefault(self.open[-1] if self.open else "", []).append(data)


def tokenizer_of(words: dict[int, str]) -> tokenizers.Tokenizer:
    vocab = {words.get(id_, f"w{id_}"): id_ for id_ in range(IDS.size)}
    return tokenizers.Tokenizer(models.WordLevel(vocab, unk_token="w1"))


def report_of(
    examples, words: dict[int, str] | None = None, *, label: str = "a", **strategies
) -> Report:
    strategies = strategies or {"joint": md.strategy("joint"), "blm": md.strategy("blm")}
    labels = [label, "b"]
    stats = {
        name: mask_stats(lambda: [examples], way, labels=labels) for name, way in strategies.items()
    }
    return Report(
        corpus=label,
        split="train",
        seed=0,
        epochs=1,
        strategies=strategies,
        stats=stats,
        sentences=Sentences(range(len(examples)), examples, tokenizer_of(words or {}), labels),
        schemes=schemes("fixed=0,0"),
        points=sweep(lambda: [examples], md.strategy("joint")),
        words=[(word, 3, 4) for word in (words or {}).values()],
    )


def evil_rows() -> list[Row]:
    ids = range(5, 5 + len(EVIL))
    return [
        Row(key=1, ids=[2, *ids, 3], word_ids=[-1, *range(len(EVIL)), -1], mentions=[(1, 3, 0)])
    ]


PAGES = {
    "usual": lambda: report_of(fixed_examples(8)),
    "evil": lambda: report_of(examples_of(evil_rows()), dict(enumerate(EVIL, 5)), label=EVIL[0]),
    "no rows": lambda: report_of(fixed_examples(0)),
    "no words": lambda: report_of(examples_of([row_of([])])),
    "nothing hidden": lambda: report_of(fixed_examples(8), only=md.strategy("joint", elm=0, blm=0)),
}


@pytest.mark.parametrize("name", PAGES)
def test_html__is_whole_and_needs_nothing_from_elsewhere(name: str) -> None:
    html = PAGES[name]().html()
    page = Page(html)

    assert page.open == []
    assert html.startswith("<!doctype html>")
    names = {tag for tag, _ in page.tags}
    assert not names & {
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
        "image",
        "use",
        "a",
    }
    for _, attributes in page.tags:
        assert not {"src", "href", "srcset", "xlink:href", "action", "data"} & set(attributes)
        assert not [attribute for attribute in attributes if attribute.startswith("on")]
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    style = "".join(page.words["style"])
    assert not re.search(r"url\(|@import|https?:", style)
    assert "$" not in "".join(page.words["style"] + page.words["script"])


def test_html__corpus_text_is_inert() -> None:
    page = Page(PAGES["evil"]().html())

    shown = "".join(word for tag in ("span", "p", "th") for word in page.words[tag])
    for evil in EVIL:
        assert plain(evil) in shown
    assert "alert" not in "".join(page.words["script"] + page.words["style"])


def test_html__lets_its_own_script_run_only() -> None:
    page = Page(PAGES["usual"]().html())
    digest = base64.b64encode(
        hashlib.sha256("".join(page.words["script"]).encode()).digest()
    ).decode()
    (policy,) = [
        tag["content"] for _, tag in page.tags if tag.get("http-equiv") == "Content-Security-Policy"
    ]

    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


def test_html__says_when_the_weights_say_nothing() -> None:
    rows = examples_of([row_of([1] * 10, [(0, 5)])])
    saturated = report_of(rows, joint=md.strategy("joint", elm=1.0, blm=0.1)).html()
    other = report_of(rows, joint=md.strategy("joint", elm=0, blm=0.1)).html()

    assert 'class="note"' in saturated
    assert "carry no information" in saturated
    assert "; lower the rate of ELM or raise that of BLM." in saturated
    assert 'class="note"' not in other


def test_html__shades_what_is_hidden_and_marks_by_whom() -> None:
    rows = examples_of([row_of([1, 2], [(1, 2)])])
    html = report_of(rows, elm=md.strategy("elm", elm=1.0)).html()

    assert html.count('title="hidden in 100%: as ELM 100, as BLM 0"') == 2
    assert html.count('title="hidden in 0%: as ELM 0, as BLM 0"') == 1
    assert html.count('<mark class="e" title="ELM">w10</mark>') == 2
    assert re.search(
        '<u class="m">(<mark [^<]*</mark> ?){2}</u>\u202f<small class="l">a</small>', html
    )


def test_table__holds_every_cell_below_its_title() -> None:
    html = table(("word", "n", "share"), [("<a>", 1_000, 0.5), ("b", 20, 0.25)])

    rows = re.findall(r"<tr>(.*?)</tr>", html)
    cells = [re.findall(r"<(t[hd])[^>]*>(.*?)</t[hd]>", row) for row in rows]
    assert cells == [
        [("th", "word"), ("th", "n"), ("th", "share")],
        [("th", "&lt;a&gt;"), ("td", "1,000"), ("td", "0.5000")],
        [("th", "b"), ("td", "20"), ("td", "0.2500")],
    ]


def test_html__tables_hold_the_counts_and_the_weights() -> None:
    report = report_of(fixed_examples(64))
    html = report.html()

    stats = report.stats["joint"]
    for count in (stats.n_elm, stats.n_blm, stats.rows_under_budget, stats.rows_without_mask):
        assert f'<td class="n">{count:,}</td>' in html
    for scheme in report.schemes:
        w_elm, w_blm = scheme.weigh(stats.n_elm, stats.n_blm)
        weights = f'<td class="n">{w_elm:.4f}</td><td class="n">{w_blm:.4f}</td>'
        assert f'<th scope="row">{scheme.name}</th>{weights}' in html
    for label, counts in stats.labels.items():
        cells = (counts.mentions, counts.mention_tokens, counts.masked_mentions)
        drawn = "".join(f'<td class="n">{cell:,}</td>' for cell in cells)
        assert f'<th scope="row">{label}</th>{drawn}' in html


def test_html__sweep_holds_every_pair_of_rates() -> None:
    report = report_of(fixed_examples(64))
    html = report.html()

    for point in report.points:
        counts = f"{point.whole.n_elm:,} / {point.whole.n_blm:,}"
        assert f">{point.weights.w_elm:.4f}<small>{counts}</small></td>" in html
        assert f">{point.realised_elm:.1%}<small>{point.effective_blm:.1%}</small></td>" in html
        for group in (point.whole, point.shorter, point.longer):
            masked = f"{group.n_elm + group.n_blm:,}"
            assert f">{point.rate(group):.1%}<small>{masked}</small></td>" in html
    clipped = sum(point.weights.saturated for point in report.points)
    assert 0 < clipped < len(report.points)
    assert html.count("<td class=sat ") == clipped


def test_html__rates_stand_beside_what_is_masked() -> None:
    varying = {"shape": "uniform", "start": 0.1, "stop": 0.3}
    strategies = {
        "joint": md.strategy("joint", elm=0.1, blm=0.15),
        "token": md.strategy("token", rate=varying),
        "curriculum": md.strategy("curriculum", parts=[md.strategy("elm")]),
    }
    report = report_of(fixed_examples(64), **strategies)
    html = report.html()

    joint, token = report.stats["joint"], report.stats["token"]
    assert joint.realised_elm > 0.15
    for rate, masked, of in (
        ("10.00%", joint.realised_elm, "mentions"),
        ("15.00%", joint.effective_blm, "tokens"),
        ("varies", token.realised_rate, "tokens"),
    ):
        assert f"<td>{rate}</td><td>{masked:.2%}</td><td>of the {of}</td>" in html
    assert html.count("of the tokens</td>") == 2
    only = report_of(fixed_examples(8), only=strategies["curriculum"])
    assert "Rates asked for" not in only.html()


def test_html__marks_what_each_strategy_hides() -> None:
    examples = fixed_examples(8)
    report = report_of(examples)
    html = report.html()

    plans = [strategy.plan(examples) for strategy in report.strategies.values()]
    n_elm, n_blm = np.sum([plan.counts() for plan in plans], axis=0)
    assert html.count('<mark class="e" title="ELM">') == n_elm > 0
    assert html.count('<mark class="b" title="BLM">') == n_blm > 0


def test_said_options__of_a_file_only_its_name() -> None:
    assert said_options(md.strategy("joint", corruption="80-10-10")).endswith("corruption 80-10-10")
    assert said_options(Recipe(md.strategy("joint").picks)) == "of your own"


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "ground"),
    [("ink", ground) for ground in ("page", "card", "note", "heat", "grid", "elm-back", "blm-back")]
    + [("soft", "page"), ("soft", "card")],
)
def test_look__text_can_be_read(ink: str, ground: str, theme: int) -> None:
    """WCAG 2.1 asks for a contrast of 4.5 (its definition: (L1 + 0.05) / (L2 + 0.05))."""
    colours = dict(re.findall(r"--([a-z-]+): light-dark\((.*?)\)", look()))

    def luminance(name: str) -> float:
        code = colours[name].split(", ")[theme]
        parts = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(ink), luminance(ground)))
    assert (high + 0.05) / (low + 0.05) >= 4.5


def test_said_options__leaves_paths_out() -> None:
    from mslm_data.stats.report import _readable

    assert _readable("/home/someone/pmi.arrow") == _readable("C:\\data\\pmi.arrow") == "pmi.arrow"
    assert (
        _readable([{"use": "a/b.arrow", "rate": 0.5, "most": None}]) == "[{use b.arrow, rate 0.5}]"
    )


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


def test_cut__the_last_bin_takes_what_is_beyond() -> None:
    assert _cut([500, 400, 60, 31, 5, 3, 1]) == [500, 400, 60, 40]
    assert _cut([500, 400, 60, 31, 5, 3, 1], 2) == [500, 500]
    assert _cut([1, 0, 2]) == [1, 0, 2]
    assert _cut([], 3) == [0, 0, 0]
    assert _cut([]) == [0]


def test_histogram__heights_are_in_proportion() -> None:
    svg = histogram(["0", "1"], [10, 5], [0, 5], x="x")
    heights = dict(re.findall(r'class="(.)".*?height="([\d.]+)"', svg))

    assert float(heights["a"]) == pytest.approx(2 * float(heights["o"]))


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
    svg = histogram(["x"], [count], [0], x="x", top=top)

    assert re.findall(r'text-anchor="end">(.*?)<', svg) == lines


def counts_on_axes(html: str) -> list[list[str]]:
    """Return the counts at the lines of each histogram."""
    drawings = re.findall(r"<svg.*?</svg>", html)
    return [re.findall(r'text-anchor="end">(.*?)<', drawing) for drawing in drawings]


def test_html__strategies_share_a_scale() -> None:
    rows = fixed_examples(64)
    token, elm = md.strategy("token"), md.strategy("elm")

    both = counts_on_axes(report_of(rows, token=token, elm=elm).html())
    alone = [counts_on_axes(report_of(rows, only=way).html()) for way in (token, elm)]

    assert both[:3] == both[3:6]
    assert all(both[k] in (alone[0][k], alone[1][k]) for k in range(3))
    assert alone[0] != alone[1]


def test_html__words_without_a_letter_are_named_apart() -> None:
    words = [(".", 9, 9), ("asthma", 4, 9), ("1", 2, 9), ("--", 1, 9)]
    html = dataclasses.replace(report_of(fixed_examples(8)), words=words).html()

    assert "are left out: .  --" in html
    section = html[html.index("<h2>Words masked most") :]
    assert re.findall(r'<th scope="row">(.*?)</th>', section)[:2] == ["asthma", "1"]
    assert not re.search(r'<th scope="row">(\.|--)</th>', section)


def test_text__keeps_what_can_be_read() -> None:
    assert text("a\tb\nc é 腫") == "a\tb\nc é 腫"
    assert text("\x1b[31m<&>\"'") == "\\u001b[31m&lt;&amp;&gt;&quot;&#x27;"


@needs_chromium
def test_html__renders_in_a_browser(tmp_path: Path) -> None:
    """The browser runs the page's script, which shows its button, and none of the corpus'."""
    (tmp_path / "report.html").write_text(PAGES["evil"]().html(), encoding="utf-8")
    words = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    done = subprocess.run(
        [*words, "--enable-logging=stderr", "--dump-dom", (tmp_path / "report.html").as_uri()],
        capture_output=True, text=True, check=True, timeout=PATIENCE_S,
    )  # fmt: skip

    assert '<button id="theme" type="button">' in done.stdout
    assert done.stdout.count("<script") == 1
    assert "CONSOLE" not in done.stderr


GRIDS = """
return [...document.querySelectorAll(".heat")].map(
  (grid) => grid.parentElement.scrollWidth <= grid.parentElement.clientWidth
);
"""


@needs_chromium
@pytest.mark.parametrize("width", [420, 900, 1_280, 1_600])
def test_html__grids_of_large_corpora_are_whole(width: int, tmp_path: Path) -> None:
    report = PAGES["usual"]()
    large = {"n_elm": 123_456, "n_blm": 234_567, "maskable_tokens": 1_234_567}
    points = [
        dataclasses.replace(point, whole=dataclasses.replace(point.whole, **large))
        for point in report.points
    ]
    html = dataclasses.replace(report, points=points).html()
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "report.html").write_text(html, encoding="utf-8")

    (grids,) = seen_on(tmp_path / "page", ["report.html"], look=GRIDS, width=width).values()

    assert "123,456 / 234,567" in html
    assert grids == [True] * 5
