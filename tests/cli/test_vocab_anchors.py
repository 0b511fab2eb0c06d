from __future__ import annotations

import hashlib
import stat
from pathlib import Path

import pytest

import mslm_data as md
from mslm_data.lexicon.store import read_lexicon
from tests.cli.running import run


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built")
    for name in ("bc5cdr-chem", "bc2gm"):
        assert run("build", "--source", f"blurb/{name}", "--sample", "--out", out / name).code == 0
    words = ("build", "--source", "blurb/bc5cdr-chem", "--sample", "--set", "about.protected=true")
    assert run(*words, "--out", out / "protected").code == 0
    (out / "counts.tsv").write_text("the\t1000\nof\t900\nwas\t500\npatient\t3\n")
    return out


def anchors(folder: Path, *words: object) -> list[str]:
    return ["vocab", "anchors", str(folder), "--min-count", "3", *map(str, words)]


def test_anchors__compares_a_folder_with_another(folders: Path, tmp_path: Path) -> None:
    done = run(
        *anchors(
            folders / "bc5cdr-chem",
            "--general",
            folders / "bc2gm",
            "--out",
            tmp_path / "a.arrow",
            "--json",
        )
    )

    assert done.code == 0
    lexicon, manifest = (
        read_lexicon(tmp_path / "a.arrow"),
        md.load(folders / "bc5cdr-chem").manifest,
    )
    digest = hashlib.sha256((folders / "bc2gm" / "manifest.json").read_bytes()).hexdigest()
    assert [one["score"] for one in done.json["anchors"]] == lexicon.scores.tolist()
    assert [one["rank"] for one in done.json["anchors"]] == list(range(1, len(lexicon) + 1))
    assert done.json["anchors"][0]["word"].isalpha()
    assert lexicon.about["tokenizer"] == manifest.tokenizer.sha256
    assert (lexicon.about["kind"], lexicon.about["size"]) == ("anchors", manifest.token_ids.size)
    assert lexicon.about["made"] == {
        "command": "vocab anchors", "split": "train", "general": {"source": "shards", "manifest_sha256": digest},
        "count": 20, "min_count": 3, "smoothing": 1.0, "stop_words": 0,
    }  # fmt: skip


def test_anchors__table_comparison_writes_equal_bytes_into_the_folder(folders: Path) -> None:
    words = anchors(
        folders / "bc5cdr-chem", "--general", folders / "counts.tsv", "--stop-words", "english"
    )
    path = folders / "bc5cdr-chem" / "vocab" / "anchors.arrow"

    first = run(*words)
    data = path.read_bytes()
    second = run(*words)

    assert (first.code, first.out) == (second.code, second.out) == (0, first.out)
    assert path.read_bytes() == data
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert first.out.splitlines()[0].split() == ["word", "count", "general", "score"]
    assert first.out.splitlines()[-1] == str(path)
    assert read_lexicon(path).about["made"]["stop_words"] > 100
    assert run("verify", folders / "bc5cdr-chem").code == 0


def test_anchors__requires_a_flag_for_patients_words(folders: Path, tmp_path: Path) -> None:
    words = anchors(
        folders / "protected", "--general", folders / "counts.tsv", "--out", tmp_path / "a.arrow"
    )
    public = run(
        *anchors(
            folders / "bc5cdr-chem",
            "--general",
            folders / "counts.tsv",
            "--json",
            "--out",
            tmp_path / "b",
        )
    )
    names = {one["word"] for one in public.json["anchors"]}

    hidden, hidden_json = run(*words), run(*words, "--json")
    shown = run(*words, "--show-text")

    assert hidden.code == hidden_json.code == 0
    table = hidden.out.splitlines()[:-2]
    assert len(table) == 1 + len(names)
    assert not names & set(" ".join(table).split())
    assert "pass --show-text" in hidden.out
    assert all("word" not in one for one in hidden_json.json["anchors"])
    assert names <= set(shown.out.split())
    assert read_lexicon(tmp_path / "a.arrow").about["protected"] is True


def test_anchors__compares_with_wordfreq(folders: Path, tmp_path: Path) -> None:
    pytest.importorskip("wordfreq")

    done = run(
        *anchors(folders / "bc2gm", "--general", "wordfreq", "--out", tmp_path / "a", "--json")
    )

    assert done.json["general"]["source"] == "wordfreq"
    assert len(done.json["anchors"]) == 20


def test_anchors__rejects_invalid_calls(folders: Path, tmp_path: Path) -> None:
    words = anchors(folders / "bc2gm", "--out", tmp_path / "a")

    unknown = run(*words, "--general", "wordfrek")
    smoothing = run(*words, "--general", folders / "counts.tsv", "--smoothing", "0")
    rare = run(*words, "--general", folders / "counts.tsv", "--min-count", "100000")

    assert [done.code for done in (unknown, smoothing, rare)] == [1, 2, 1]
    assert (
        "--general wordfrek: expected a built folder, a table of words and counts, or 'wordfreq'"
        in unknown.err
    )
    assert "option 'smoothing'" in smoothing.err
    assert "no words occur 100000 times or more; lower --min-count" in rare.err
    assert not (tmp_path / "a").exists()


def test_anchors__rejects_a_comparison_of_a_folder_with_itself(
    folders: Path, tmp_path: Path
) -> None:
    same = folders / "bc2gm" / ".." / "bc2gm"

    done = run(*anchors(folders / "bc2gm", "--out", tmp_path / "a"), "--general", same)

    assert done.code == 1
    assert "expected text to compare the folder with, got the folder itself" in done.err


def test_anchors__of_a_real_corpus_are_its_terms(real: Path, tmp_path: Path) -> None:
    pytest.importorskip("wordfreq")
    vocab = real / "tokenizers" / "bert-base-uncased__BlueBERT.vocab.txt"
    corpus = ("--source", "blurb/bc5cdr-chem", "--input", real / "blurb" / "BC5CDR-chem-IOB")
    run("build", *corpus, "--tokenizer", vocab, "--out", tmp_path / "built")

    done = run("vocab", "anchors", tmp_path / "built", "--general", "wordfreq", "--json")

    words = [one["word"] for one in done.json["anchors"]]
    assert words[:6] == [
        "adriamycin",
        "sirolimus",
        "isoproterenol",
        "proteinuria",
        "bupivacaine",
        "lamivudine",
    ]
    assert done.json["anchors"][0]["count"] == 35
