"""The view of the corpus: its numbers, and no protected text."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import mslm_data as md
from mslm_data.encode.tokenizer import load_tokenizer
from mslm_data.look.corpus import Corpus
from mslm_data.look.render import render_view
from mslm_data.look.state import State
from mslm_data.look.views import corpus as view
from mslm_data.stats.corpus_counts import TermCharacters, count_corpus, term_texts
from mslm_data.stats.overlap import NormalWords, overlap
from tests.draw.test_drawing import EVIL, Page


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> md.Shards:
    out = tmp_path_factory.mktemp("built") / "out"
    return md.build("blurb/ncbi-disease", sample=True, out=out, workers=1)


def drawn(
    shards: md.Shards, *, split: str = "train", live: bool = False, show_text: bool = False
) -> str:
    corpus = Corpus(shards, live=live, show_text=show_text)
    return str(render_view("corpus", corpus, State(view="corpus", split=split), live=live)[0])


def numbers(html: str, name: str, value: str) -> dict[str, str]:
    """Return the marked numbers of a row of a table."""
    row = re.search(rf'<tr data-{name}="{value}">.*?</tr>', html, re.DOTALL)
    assert row is not None
    return dict(re.findall(r'data-count="(\w+)">(.*?)<', row[0]))


def test_view__numbers_equal_the_functions(shards: md.Shards) -> None:
    html = drawn(shards, split="test")

    tokenizer = load_tokenizer(str(shards.tokenizer)).core
    words = NormalWords(tokenizer, shards.manifest.token_ids)
    counts = count_corpus(dict(shards), TermCharacters(tokenizer, shards.manifest.token_ids))
    for name, of in counts.items():
        assert numbers(html, "split", name) == {
            key: f"{getattr(of, key):,}" for key in ("rows", "tokens", "words", "mentions", "terms")
        }
        assert of.rows == len(shards[name])
    for name in ("validation", "test"):
        unseen = counts[name].unseen
        assert unseen is not None
        assert numbers(html, "unseen", name) == {
            "terms": f"{unseen.terms:,}",
            "mentions": f"{unseen.mentions:,}",
        }
        found, _ = overlap(shards[name], shards["train"], words, words)
        assert numbers(html, "overlap", name) == {
            "exact": f"{len(found.exact):,}",
            "near": f"{len(found.near):,}",
        }
    (first, *_) = term_texts(shards["test"], counts["test"].top, tokenizer)
    assert f'<th scope="row"><bdi>{first}</bdi></th>' in html
    assert "## Counts" in html  # the card
    Page(html)


def test_view__shows_losses_with_reasons(shards: md.Shards, tmp_path: Path) -> None:
    assert isinstance(shards.folder, Path)
    shutil.copytree(shards.folder, tmp_path / "copy")
    manifest = json.loads((tmp_path / "copy" / "manifest.json").read_text())
    train = manifest["splits"]["train"]
    train["read"] += 2
    train["set_aside"] = {"expected x, got y": 2}
    train["left_out"] = {"overlaps <another>": 3}
    train["given_mentions"] += 3
    (tmp_path / "copy" / "manifest.json").write_text(json.dumps(manifest))
    line = {"split": "train", "id": "a", "place": "x", "reason": "no text in row 7"}
    (tmp_path / "copy" / "set_aside.jsonl").write_text(2 * (json.dumps(line) + "\n"))

    html = drawn(md.load(tmp_path / "copy"))

    # The other splits are whole.
    assert html.count("<td>nothing was lost</td>") == 2
    assert '<td>document set aside: no text in row …</td><td class="n">2</td>' in html
    assert '<td>mention left out: overlaps &lt;another&gt;</td><td class="n">3</td>' in html


def test_view__shows_no_protected_terms_by_default(shards: md.Shards, tmp_path: Path) -> None:
    protected = {"about.protected": True}
    notes = md.build(
        "blurb/ncbi-disease", sample=True, out=tmp_path / "out", workers=1, options=protected
    )

    html = drawn(notes)
    asked = drawn(notes, show_text=True)

    tokenizer = load_tokenizer(str(shards.tokenizer)).core
    characters = TermCharacters(tokenizer, shards.manifest.token_ids)
    top = count_corpus(dict(shards), characters)["train"].top
    terms = [term for term in term_texts(shards["train"], top, tokenizer) if len(term) > 6]
    assert terms
    assert all(f"<bdi>{term}</bdi>" in asked for term in terms)
    assert not any(term in html for term in terms)
    assert "no term is named" in html
    assert numbers(html, "split", "train") == numbers(asked, "split", "train")


@pytest.mark.parametrize("live", [False, True])
def test_view__marks_a_sample_of_a_large_folder(
    shards: md.Shards, live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "MANY_ROWS", 24)
    monkeypatch.setattr(view, "_SAMPLE", 24)
    monkeypatch.setattr("mslm_data.stats.corpus_counts._SAMPLE_CHUNK", 8)
    if live:
        # The full count has not finished.
        monkeypatch.setattr("mslm_data.look.jobs.Job.is_ready", property(lambda self: False))
        monkeypatch.setattr(view, "_PATIENCE_S", 60)

    html = drawn(shards, live=live)

    assert f"Counted in a sample: 24 of {len(shards['train'])} rows" in html
    assert numbers(html, "split", "train")["rows"] == "24"
    assert "data-unseen" not in html
    assert "mslm-data overlap</code> compares its splits" in html


def test_view__escapes_text_of_a_corpus(tmp_path: Path) -> None:
    rows = [
        {"id": str(n), "text": evil, "spans": [{"start": 0, "end": len(evil), "label": f"{n}{evil}"}]}
        for n, evil in enumerate(EVIL)
        if evil.isascii() and evil.isprintable()
    ]  # fmt: skip
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "own.toml").write_text('name = "own"\n[source]\nuse = "jsonl"\nmax_loss = 1\n')
    shards = md.build(
        tmp_path / "own.toml",
        input=tmp_path / "train.jsonl",
        tokenizer=Path(md.__file__).parents[1] / "vocab" / "sample" / "vocab.txt",
        out=tmp_path / "out",
        workers=1,
    )

    page = Page(drawn(shards))

    assert not {"script", "img"} & {tag for tag, _ in page.tags}
    assert not [name for _, attributes in page.tags for name in attributes if name[:2] == "on"]
    assert "1" + EVIL[1] in page.text
