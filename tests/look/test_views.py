"""The views: their numbers are those of the functions and commands, and say what they count."""

from __future__ import annotations

import html
import json
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import mslm_data as md
from mslm_data.api.loading import Shards
from mslm_data.draw.charts import Histogram
from mslm_data.encode.tokenizer import load_tokenizer
from mslm_data.look.corpus import Corpus
from mslm_data.look.render import render_view
from mslm_data.look.state import Choice, State
from mslm_data.look.views import corpus as corpus_view
from mslm_data.look.views import strategy as strategy_view
from mslm_data.stats import mask_stats
from mslm_data.stats.corpus_counts import TermCharacters, count_corpus, term_texts
from mslm_data.stats.overlap import NormalWords, overlap
from tests import made
from tests.cli.running import run
from tests.draw.test_drawing import Page
from tests.support.waiting import wait_for

DASH = "\N{EN DASH}"
UNMASKED = Choice("joint", {"elm": "0", "blm": "0"})


@pytest.fixture(scope="module")
def disease(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    out = tmp_path_factory.mktemp("built") / "out"
    return md.build("blurb/ncbi-disease", sample=True, out=out, workers=1)


def drawn(
    view: str, shards: Shards, *choices: Choice, live: bool = False, **changes: object
) -> str:
    """Return the HTML of a view of a folder."""
    state = State(view=view, strategies=choices or (Choice("joint"),)).change(**changes)
    return str(render_view(view, Corpus(shards), state, live=live)[0])


def numbers(page: str, name: str, value: str) -> dict[str, str]:
    """Return the marked numbers of a row of a table."""
    row = re.search(rf'<tr data-{name}="{value}">.*?</tr>', page, re.DOTALL)
    assert row is not None
    return dict(re.findall(r'data-count="(\w+)">(.*?)<', row[0]))


# Rows: the table of counts ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "without_weights", "without_rows"),
    [
        (State(), False, False),
        (State(doc="nowhere"), False, True),
        (State(strategies=(UNMASKED,)), True, False),
    ],
    ids=["usual", "no rows", "no masks"],
)
def test_counts__weigh_the_split_alone(
    chem: Shards, state: State, without_weights: bool, without_rows: bool
) -> None:
    page = str(render_view("rows", Corpus(chem), state, live=False)[0])

    row = page.partition('<tr data-strategy="')[2].partition("</tr>")[0]
    cells = [cell.partition("<small>") for cell in re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL)]
    split, shown = ([re.sub("<.*?>|\n", "", cell[line]) for cell in cells] for line in (0, 2))
    assert (split[0], shown[0]) == ("split", "rows shown")
    assert [text == DASH for text in split[3:6]] == [without_weights] * 3
    assert shown[3:6] == ["", "", ""]
    assert [text == DASH for text in (*shown[1:3], *shown[6:])] == [without_rows] * 6
    assert "" not in split + shown[1:3]


def test_rows__as_the_model_sees_them(chem: Shards) -> None:
    """Each masked token is replaced, so masked text is that of one token in every place."""

    def marked(state: State) -> set[str]:
        page = str(render_view("rows", Corpus(chem), state, live=False)[0])
        rows = page.partition('<article class="row"')[2]
        return set("".join(re.findall(r'<mark class="[eb]">(.*?)</mark>', rows)).split("]"))

    assert marked(State(seen=True)) <= {"[MASK", " [MASK", ""}
    assert "[MASK" not in marked(State())


# Strategy -----------------------------------------------------------------------------------------


def charts_of(shards: Shards, *names: str) -> list[list[Histogram]]:
    """Return the groups of charts that are drawn beside each other."""
    state = State(strategies=tuple(map(Choice, names)))
    groups: list[list[Histogram]] = strategy_view.context(Corpus(shards), state)["charts"]
    return groups


def total(chart: Histogram) -> int:
    """Return the sum of all counts, as a pointer over each bin shows them."""
    counts = [re.search(r": ([\d,]+)", one.tip) for one in chart.bins]
    return sum(int(count[1].replace(",", "")) for count in counts if count)


@pytest.mark.parametrize("name", ["joint", "span", "elm"])
def test_charts__count_every_row_and_run(chem: Shards, name: str) -> None:
    stats = mask_stats(chem["train"].chunks, md.strategy(name), labels=chem.labels)

    ((per_row, rates, runs),) = charts_of(chem, name)

    assert total(per_row) == total(rates) == stats.sequences == len(chem["train"])
    assert total(runs) == sum(stats.run_lengths)
    assert per_row.bins[0].tip.startswith(f"0: {stats.rows_without_mask:,}")
    owing = sum(bar[2] for one in per_row.bins for bar in one.bars if bar[0] == "o")
    assert bool(owing) == bool(stats.rows_under_budget)


def test_charts__of_several_strategies_share_their_axes(chem: Shards) -> None:
    groups = charts_of(chem, "token", "elm")
    ((*alone,),) = charts_of(chem, "elm")

    assert len(groups) == len(alone) == 3
    for first, second in groups:
        assert [text for _, text in first.lines] == [text for _, text in second.lines]
        places = [[(one.x, one.width) for one in chart.bins] for chart in (first, second)]
        assert places[0] == places[1]
        assert first.title == second.title.replace("elm: ", "token: ")
    assert [second.lines for _, second in groups] != [chart.lines for chart in alone]
    # Counts stay complete with other bins.
    assert [total(second) for _, second in groups] == [total(chart) for chart in alone]


@pytest.mark.parametrize(("elm", "blm"), [("0.5", "0.15"), ("1", "0"), ("0.25", "0.04")])
def test_strategy__says_what_mask_stats_says(chem: Shards, elm: str, blm: str) -> None:
    page = drawn("strategy", chem, Choice("joint", {"elm": elm, "blm": blm}))
    words = ("mask-stats", chem.folder, "--strategy", "joint", "--elm", elm, "--blm", blm)
    done = run(*words)
    counts = run(*words, "--json").json

    explanation = "budget is rounded up, so rows with few mentions or tokens are masked above"
    assert (explanation in page) == (explanation in done.out) == (blm != "0")
    row = page.partition('<th scope="row">Chemical</th>')[2].partition("</tr>")[0]
    mentions, tokens, masked, share = counts["labels"]["Chemical"].values()
    texts = [f"{mentions:,}", f"{tokens:,}", f"{share:.2%}", f"{masked:,}"]
    texts += [f"{masked / mentions:.2%}"]
    assert re.findall("<td.*?>(.*?)<", row) == texts
    assert f'"realised_elm">{texts[-1]}<' in page  # of the only label


def test_strategy__without_masks_has_no_weights(chem: Shards) -> None:
    page = drawn("strategy", chem, UNMASKED)

    assert set(re.findall(r'data-count="w_\w+">(.*?)<', page)) == {DASH}
    assert "0.5000" not in page


# Rates --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [0, 3])
def test_rates__are_counted_for_each_strategy_with_both(chem: Shards, epoch: int) -> None:
    choices = (
        Choice("joint"),
        Choice("span"),
        Choice("joint", {"elm": "0.5", "pool": "generic_only"}),
    )

    page = drawn("rates", chem, *choices, epoch=epoch)

    tables = re.findall(r'<article data-strategy="(.*?)">(.*?)</article>', page, re.DOTALL)
    assert [name for name, _ in tables] == ["joint", "joint 2"]
    train = chem["train"].examples()
    for options, (_, table) in zip(({}, {"pool": "generic_only"}), tables, strict=True):
        expected, fires = [], 0
        for elm in (0.25, 0.5, 0.75, 1.0):
            for blm in (0.0, 0.075, 0.15, 0.225):
                strategy = md.strategy("joint", elm=elm, blm=blm, **options)
                n_elm, n_blm = strategy.plan(train, seed=0, epoch=epoch).counts()
                expected.append(f"{n_elm:,} / {n_blm:,}")
                fires += md.mask_specific_weights(n_elm, n_blm) == (0.5, 0.5)
        assert re.findall(r"N_BLM </span>(.*?)</small>", table) == expected
        assert 0 < fires == table.count("<small>both clips fire</small>") < 16
        assert f"Both clips of Eq. 3 fire at {fires} of 16 pairs of rates, the ones" in table
    assert f"train, epoch {epoch}, at the paper" in page


def test_rates__mark_the_current_pair_and_link_to_the_others(chem: Shards) -> None:
    corpus = Corpus(chem)
    strategy = md.strategy("joint", elm=0.75, blm=0.225, pool="generic_only")
    choice = corpus.add("own.toml", strategy)

    # An address cannot set the rates of a file, so links name the registered strategy.
    page = str(render_view("rates", corpus, State(strategies=(choice,)), live=True)[0])

    addresses = re.findall(r'<a href="rows\?(.*?)"', page)
    assert addresses[1] == "s1=joint&amp;s1.pool=generic_only&amp;s1.elm=0.25&amp;s1.blm=0.075"
    assert len(set(addresses)) == 16
    assert re.findall(r'aria-current="true"><a href="rows\?(.*?)"', page) == [addresses[11]]
    assert "aria-current" not in drawn("rates", chem, Choice("joint", {"elm": "0.3"}))
    assert "Choose joint" in drawn("rates", chem, Choice("span"))


def test_notes__lead_from_rows_and_strategy_to_the_rates(chem: Shards) -> None:
    choice = Choice("joint", {"elm": "1", "blm": "0"})

    for view in ("rows", "strategy"):
        live = drawn(view, chem, choice, live=True)
        assert '<a href="rates?s1=joint&amp;s1.elm=1&amp;s1.blm=0">Rates</a> shows' in live
        assert '<a href="#rates">Rates</a> shows' in drawn(view, chem, choice)


# Take it with you ---------------------------------------------------------------------------------


def commands(page: str) -> Mapping[str, list[str]]:
    """Return the commands to copy, by the id of their field, without the program."""
    fields = re.findall(r'<textarea id="(\w+)".*?>(.*?)</textarea>', page, re.DOTALL)
    return {name: shlex.split(html.unescape(text))[1:] for name, text in fields}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with strategies of the user's own."""
    (tmp_path / "mine.toml").write_text('[mask]\nuse = "joint"\nblm = 0.2\n', encoding="utf-8")
    (tmp_path / "own_code.py").write_text(
        "import mslm_data as md\n"
        "def make(elm=0.5):\n"
        "    return md.strategy('picks', picks=[{'units': 'mentions', 'budget': {'rate': elm}}])\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_code", raising=False)
    return tmp_path


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", ["mine.toml", "own_code:make"])
def test_take__commands_have_the_options_of_the_command(chem: Shards, name: str) -> None:
    words = ("--strategy", "span", "--strategy", name, "--set", f"{name}.elm=0.9", "--out")
    run("look", chem.folder, *words, "first.html")
    page = Path("first.html").read_text(encoding="utf-8")

    counts = run(*commands(page)["command2"], "--json").json
    again = run(*commands(page)["again"], "--out", "again.html")

    whole = run("mask-stats", chem.folder, "--strategy", name, "--set", "elm=0.9", "--json").json
    default = run("mask-stats", chem.folder, "--strategy", name, "--json").json
    assert counts["digest"] == whole["digest"] != default["digest"]
    assert again.code == 0, again.err
    sections = [re.split(r"<section", text)[-1] for text in (page, Path("again.html").read_text())]
    assert sections[0] == sections[1]


def test_take__commands_have_the_options_of_the_page(chem: Shards) -> None:
    choice = Choice("joint", {"elm": "0.3", "pool": "generic_only"})
    page = drawn("take", chem, choice, split="test", seed=4, epoch=2)

    counts = run(*commands(page)["command1"], "--json").json

    strategy = md.strategy("joint", elm=0.3, pool="generic_only")
    stats = mask_stats(chem["test"].chunks, strategy, labels=chem.labels, seed=4)
    assert (counts["n_elm"], counts["n_blm"]) == (stats.n_elm, stats.n_blm)
    assert commands(page)["again"][-1].startswith("rows?split=test&seed=4&epoch=2&s1=joint")
    assert "The command counts epoch 0, and this page epoch 2." in page
    assert "The command counts" not in drawn("take", chem)


# Corpus -------------------------------------------------------------------------------------------


def test_corpus__numbers_equal_the_functions(disease: Shards) -> None:
    page = drawn("corpus", disease, split="test")

    tokenizer = load_tokenizer(str(disease.tokenizer)).core
    words = NormalWords(tokenizer, disease.manifest.token_ids)
    counts = count_corpus(dict(disease), TermCharacters(tokenizer, disease.manifest.token_ids))
    for name, of_split in counts.items():
        keys = ("rows", "tokens", "words", "mentions", "terms")
        expected = {key: f"{getattr(of_split, key):,}" for key in keys}
        assert numbers(page, "split", name) == expected
        assert of_split.rows == len(disease[name])
    for name in ("validation", "test"):
        unseen = counts[name].unseen
        assert unseen is not None
        expected = {"terms": f"{unseen.terms:,}", "mentions": f"{unseen.mentions:,}"}
        assert numbers(page, "unseen", name) == expected
        shared, _ = overlap(disease[name], disease["train"], words, words)
        expected = {"exact": f"{len(shared.exact):,}", "near": f"{len(shared.near):,}"}
        assert numbers(page, "overlap", name) == expected
    shares = disease["test"].term_shares()  # a document is a row
    (low,) = np.flatnonzero(np.histogram(shares, 20, (0, 1))[0])[:1].tolist()
    of_bin = np.sum((shares >= low / 20) & (shares < (low + 1) / 20))
    assert f"<title>{low / 20:.0%}: {of_bin:,}</title>" in page
    (first, *_) = term_texts(disease["test"], counts["test"].top, tokenizer)
    assert f'<th scope="row"><bdi>{first}</bdi></th>' in page
    assert "## Counts" in page  # the card
    Page(page)


def test_corpus__shows_losses_with_reasons(disease: Shards, tmp_path: Path) -> None:
    assert isinstance(disease.folder, Path)
    shutil.copytree(disease.folder, tmp_path / "copy")
    manifest = json.loads((tmp_path / "copy" / "manifest.json").read_text())
    train = manifest["splits"]["train"]
    train["read"] += 2
    train["set_aside"] = {"expected x, got y": 2}
    train["left_out"] = {"overlaps <another>": 3}
    train["given_mentions"] += 3
    (tmp_path / "copy" / "manifest.json").write_text(json.dumps(manifest))
    line = {"split": "train", "id": "a", "place": "x", "reason": "no text in row 7"}
    (tmp_path / "copy" / "set_aside.jsonl").write_text(2 * (json.dumps(line) + "\n"))

    page = drawn("corpus", md.load(tmp_path / "copy"))

    # The other splits are whole.
    assert page.count("<td>nothing was lost</td>") == 2
    assert '<td>document set aside: no text in row …</td><td class="n">2</td>' in page
    assert '<td>mention left out: overlaps &lt;another&gt;</td><td class="n">3</td>' in page


def test_corpus__names_no_protected_term_by_default(chem: Shards, notes: Shards) -> None:
    asked = Corpus(notes, show_text=True)

    page = drawn("corpus", notes)
    with_terms = str(render_view("corpus", asked, State(view="corpus"), live=False)[0])

    tokenizer = Corpus(chem).tokenizer
    characters = TermCharacters(tokenizer, chem.manifest.token_ids)
    top = count_corpus(dict(chem), characters)["train"].top
    terms = [term for term in term_texts(chem["train"], top, tokenizer) if len(term) > 6]
    assert terms
    assert all(f"<bdi>{term}</bdi>" in with_terms for term in terms)
    assert not any(term in page for term in terms)
    assert "no term is named" in page
    assert numbers(page, "split", "train") == numbers(with_terms, "split", "train")


@pytest.mark.parametrize("live", [False, True])
def test_corpus__of_a_large_folder_is_a_sample_first(
    disease: Shards, live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_view, "MANY_ROWS", 24)
    monkeypatch.setattr(corpus_view, "_SAMPLE", 24)
    monkeypatch.setattr("mslm_data.stats.corpus_counts._SAMPLE_CHUNK", 8)
    corpus = Corpus(disease, live=live)

    def page() -> str:
        return str(render_view("corpus", corpus, State(view="corpus"), live=live)[0])

    if live:
        # The live page goes on to count all rows.
        wait_for(lambda: "data-unseen" in page())
        assert numbers(page(), "split", "train")["rows"] == str(len(disease["train"]))
    else:
        assert f"Counted in a sample: 24 of {len(disease['train'])} rows" in page()
        assert numbers(page(), "split", "train")["rows"] == "24"
        assert "data-unseen" not in page()
    assert "mslm-data overlap</code> compares its splits" in page()
    corpus.background.close()


def test_corpus__of_an_empty_split(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("train", "test"):
        words = "a\tO\n\n" if name == "test" else ""
        (tmp_path / "in" / f"{name}.tsv").write_text(words)
    made.built(tmp_path / "out", tmp_path / "in", made.pipeline_of(annotate={"use": "none"}))
    shards = md.load(tmp_path / "out")

    for split in shards:
        assert "Splits" in drawn("corpus", shards, split=split)
    assert "No row here." in drawn("rows", shards)
