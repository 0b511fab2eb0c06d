from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

import mslm_data as md
from mslm_data.builds.texts import CorpusTexts, of_folder, trainable
from mslm_data.data.document import Document, Placeholder
from mslm_data.encode import tokenizer as encode
from mslm_data.errors import PipelineError, ShardError, VocabularyError
from mslm_data.lexicon import wordpiece
from mslm_data.lexicon.wordpiece import SPECIALS, Vocabulary, count_pieces, train, write
from mslm_data.pipeline import read
from tests import made

TEXTS = [
    "Kinase inhibitors bind the kinase.",
    "The inhibitor was bound; kinases bind too.",
    "Café (kinase)",
]


def learned(texts: Sequence[str] = TEXTS, **options: object) -> Vocabulary:
    return train(lambda: texts, **{"size": 200, **options})


def written(out: Path, **options: object) -> encode.Tokenizer:
    return write(out, learned(made.sample_lines(), **{"size": 500, **options}))


def test_train__begins_with_the_special_pieces_and_the_characters() -> None:
    pieces = learned().pieces

    characters = sorted(
        set("kinaseinhibitorsbindthekinasetheinhibitorwasboundkinasesbindtoocafekinase.;()")
    )
    assert pieces[:5] == SPECIALS
    assert list(pieces[5 : 5 + len(characters)]) == characters
    letters = [f"##{one}" for one in characters if one.isalpha()]
    assert list(pieces[5 + len(characters) : 5 + len(characters) + len(letters)]) == letters
    assert "kinase" in pieces
    assert len(pieces) == len(set(pieces))


def test_train__counts_what_it_read() -> None:
    vocabulary = learned()

    assert (vocabulary.documents, vocabulary.words, vocabulary.left_out) == (3, 14, 0)


def test_train__uncased_takes_capitals_and_accents_away_and_cased_keeps_them() -> None:
    uncased, cased = learned().pieces, learned(cased=True).pieces

    assert not {"K", "T", "C", "é"} & set(uncased)
    assert {"K", "T", "C", "é"} <= set(cased)


def test_train__joins_only_what_is_frequent_enough_and_no_more_than_asked() -> None:
    rare = learned(min_frequency=100).pieces
    few, more = (learned(made.sample_lines(), size=size).pieces for size in (400, 600))

    assert all(len(piece.removeprefix("##")) == 1 for piece in rare[5:])
    assert (len(few), len(more)) == (400, 600)
    assert few == more[:400]


def test_train__the_order_of_texts_says_nothing() -> None:
    lines = made.sample_lines()

    assert learned(lines, size=700) == learned(lines[::-1], size=700)


def test_train__other_processes_and_threads_learn_the_same(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tests import made; from mslm_data.lexicon.wordpiece import *\n"
        "write(Path(sys.argv[1]), train(lambda: made.sample_lines(), size=700))"
    )
    root = Path(__file__).parents[2]

    for name, threads in (("a", "1"), ("b", "2")):
        surroundings = {**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads}
        subprocess.run(
            [sys.executable, "-c", script, tmp_path / name], check=True, cwd=root, env=surroundings
        )

    trees = [made.tree(tmp_path / name) for name in "ab"]
    assert trees[0] == trees[1]
    assert trees[0]["vocab.txt"].count(b"\n") == 700


def test_train__leaves_out_the_rarest_characters_and_of_equal_ones_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wordpiece, "_MOST_CHARACTERS", 3)

    vocabulary = learned(["aaa bb zyx xyz aaa"] * 2)

    assert vocabulary.left_out == 2
    assert vocabulary.pieces[5:8] == ("a", "b", "x")
    assert not {"y", "z", "##y", "##z"} & set(vocabulary.pieces)
    assert all(set(piece.removeprefix("##")) <= set("abx") for piece in vocabulary.pieces[5:])


def test_train__progress_is_numbers(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    learned(progress=lambda done, total: seen.append((done, total)))

    assert seen == [(1, 1), (2, 2), (3, 3), (1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("texts", [[], ["", " \n"]])
def test_train__no_words(texts: list[str]) -> None:
    with pytest.raises(
        VocabularyError,
        match=rf"expected words to learn from, found none; texts that were read: {len(texts)}; check",
    ):
        learned(texts)


def test_train__sizes_that_cannot_be() -> None:
    with pytest.raises(
        VocabularyError, match="expected a size of at least 11 for 3 characters, got 10"
    ):
        learned(["abc"], size=10)
    with pytest.raises(ValueError, match="size: expected at least 1, got 0"):
        learned(size=0)
    with pytest.raises(ValueError, match="min_frequency: expected at least 1, got -1"):
        learned(min_frequency=-1)
    assert len(learned(["abc"], size=11).pieces) == 11


@pytest.mark.parametrize("cased", [False, True])
def test_write__both_files_are_the_same_tokenizer_and_private(cased: bool, tmp_path: Path) -> None:
    tokenizer = written(tmp_path / "out", cased=cased)

    again, of_lines = (
        encode.load(str(tmp_path / "out")),
        encode.load(str(tmp_path / "out" / "vocab.txt")),
    )
    assert (
        again.json
        == of_lines.json
        == tokenizer.json
        == (tmp_path / "out" / "tokenizer.json").read_text()
    )
    assert (again.prefix, again.suffix) == ((2,), (3,))
    assert (again.ids.pad, again.ids.unk, again.ids.mask, again.ids.special) == (
        0,
        1,
        4,
        (0, 1, 2, 3, 4),
    )
    assert again.ids.size == len(learned(made.sample_lines(), size=500, cased=cased).pieces)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").iterdir()}
    assert modes == {0o600}
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_write__text_that_was_learned_has_no_unknown_word(tmp_path: Path) -> None:
    tokenizer = written(tmp_path / "out")

    counts = count_pieces(tokenizer, made.sample_lines())

    assert counts.unknown == 0
    assert (
        counts.words
        <= counts.pieces
        == sum(
            len(tokenizer.core.encode(line, add_special_tokens=False).ids)
            for line in made.sample_lines()
        )
    )
    assert counts.pieces_per_word == counts.pieces / counts.words


def test_count_pieces__by_hand(tmp_path: Path) -> None:
    tokenizer = write(
        tmp_path / "out",
        Vocabulary(
            pieces=(*SPECIALS, "ki", "##nase", "."), cased=False, documents=0, words=0, left_out=0
        ),
    )

    counts = count_pieces(tokenizer, ["Kinase ki.", "", "xyz [SEP]"])

    assert (counts.words, counts.pieces, counts.unknown) == (
        7,
        8,
        4,
    )  # the marks of [SEP] are words of text
    assert count_pieces(tokenizer, []).pieces_per_word == 0.0


def test_write__transformers_reads_it_with_its_capitals(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = written(tmp_path / "out", cased=True)

    theirs = transformers.BertTokenizerFast.from_pretrained(str(tmp_path / "out"))

    assert theirs("The Kinase of").input_ids == tokenizer.core.encode("The Kinase of").ids
    assert (theirs.pad_token_id, theirs.unk_token_id, theirs.cls_token_id) == (0, 1, 2)
    assert (theirs.sep_token_id, theirs.mask_token_id) == (3, 4)


def test_write__never_over_other_files(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()

    with pytest.raises(
        VocabularyError,
        match="expected a new or an empty folder, got one with files; choose another",
    ):
        write(tmp_path, learned())
    with pytest.raises(VocabularyError, match="expected a new or an empty folder"):
        write(tmp_path / "model.safetensors", learned())
    assert os.listdir(tmp_path) == ["model.safetensors"]


def texts_of(
    *splits: str, sets: Sequence[str] = (), name: str = "blurb/bc2gm", path: Path | None = None
) -> Iterator[str]:
    pipeline = read(name, sets=sets)
    return CorpusTexts(pipeline, [path or made.SAMPLE / Path(pipeline.sample).name])(splits)


def test_corpus_texts__gives_the_documents_of_the_chosen_splits() -> None:
    train_texts, both = list(texts_of("train")), list(texts_of("train", "test"))

    manifest_words = [line for line in made.sample_lines() if line]
    assert len(train_texts) == 60
    assert len(both) == 80
    assert set(both) <= set(manifest_words)


def test_corpus_texts__notes_fall_to_splits_as_in_a_build() -> None:
    splits = ("train", "validation", "test")
    notes = {split: list(texts_of(split, name="mimic")) for split in splits}
    whole = list(texts_of(*splits, name="mimic"))

    assert sorted(text for split in splits for text in notes[split]) == sorted(whole)
    assert 0 < len(notes["train"]) < len(whole)


def test_corpus_texts__a_split_that_is_not_there() -> None:
    with pytest.raises(
        PipelineError, match=r"pipeline 'blurb/bc2gm': no split 'tests'; did you mean 'test'\?"
    ):
        texts_of("tests")


def test_trainable__placeholders_give_their_kind_or_nothing() -> None:
    text = "Seen by [**First Name8 (NamePattern2) 12**] on [**2101-3-4**]."
    spans = [
        (text.index("[**"), text.index("**]") + 3),
        (text.rindex("[**"), text.rindex("**]") + 3),
    ]

    def shown(*words: str | None) -> list[str]:
        marks = tuple(
            Placeholder(*span, word) for span, word in zip(spans, words, strict=bool(words))
        )
        return trainable(Document(id="d", text=text, placeholders=marks)).split()

    assert shown("name", "date") == ["Seen", "by", "name", "on", "date", "."]
    assert shown("", None) == ["Seen", "by", "on", "."]
    assert trainable(Document(id="d", text=text)).split() == [
        "Seen",
        "by",
        "on",
        ".",
    ]  # a source without placeholders


def test_trainable__given_words_stand_apart() -> None:
    document = made.of_words(["IL-2", "binds"])
    glued = Document(id="d", text="IL-2binds", words=document.words - [[0, 0], [1, 1]])  # type: ignore[operator]

    assert trainable(document) == trainable(glued) == "IL-2 binds"


def words_of(texts: Iterable[str]) -> set[str]:
    return set(" ".join(texts).replace(".", " ").split())


NOTE = "Mr. [**Known lastname 77123**] was seen at [**Hospital1 18**] by Dr. [**Last Name (STitle) 4455**] today again."


@pytest.mark.parametrize("handling", ["keep", "token", "drop", ""])
def test_texts__what_stands_in_placeholders_is_never_learned(handling: str, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "1.txt").write_text(NOTE)
    pipeline = made.pipeline_of(
        source={
            "use": "notes",
            "patient_pattern": ".*",
            **({"placeholders": handling} if handling else {}),
        },
        labels=["X"],
        annotate={"use": "none"},
        encode={"keep_text": True, "max_tokens": 10},  # rows end within placeholders
        segment="clinical",
    )
    made.built(tmp_path / "out", tmp_path / "notes", pipeline)

    shards = md.load(tmp_path / "out")
    corpus = CorpusTexts(pipeline, [tmp_path / "notes"])

    rest = {"Mr", "was", "seen", "at", "by", "Dr", "today", "again"}
    wanted = rest | {"name", "hospital"} if handling == "token" else rest
    assert words_of(corpus(["train"])) == wanted
    if handling == "drop":
        assert words_of(of_folder(shards)(["train"])) == wanted
    else:
        with pytest.raises(
            ShardError, match="expected rows that cannot end within a placeholder, got notes"
        ):
            of_folder(shards)


def test_of_folder__needs_texts(tmp_path: Path) -> None:
    made.built(tmp_path / "without")
    made.built(tmp_path / "with", pipeline=made.pipeline_of(encode={"keep_text": True}))

    shards = md.load(tmp_path / "with")
    texts = list(of_folder(shards)(["train", "test"]))

    assert texts == [
        shards[split][i]["text"] for split in ("train", "test") for i in range(len(shards[split]))
    ]
    with pytest.raises(ShardError, match="expected texts, got none; build with --set"):
        list(of_folder(md.load(tmp_path / "without"))(["train"]))
    with pytest.raises(ShardError, match="no split 'nothing'"):
        of_folder(shards)(["nothing"])


def test_train__a_corpus_own_words_are_cut_less(real: Path, tmp_path: Path) -> None:
    texts = CorpusTexts(read("blurb/bc2gm"), [real / "blurb" / "BC2GM-IOB"])

    own = write(tmp_path / "own", train(lambda: texts(["train"])))

    general = encode.load(str(real / "tokenizers" / "bert-base-uncased__BlueBERT.vocab.txt"))
    ours, theirs = (count_pieces(tokenizer, texts(["test"])) for tokenizer in (own, general))
    assert ours.words == theirs.words == 143_465
    assert (ours.pieces, theirs.pieces) == (156_560, 182_969)
