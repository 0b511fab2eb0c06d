"""Wrong calls of all commands: their exit code, and what the message names."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.running import run
from tests.made import SAMPLE

SPLIT_SIZE = 60
"""Number of rows of the split `train`."""

SAMPLED = "build --source blurb/bc2gm --sample --out out"
QUOTES = "''"
SCHEDULE = '{shape = "linear", start = 0.3, stop = 0.1, over = 10, per = "step"}'
NOTES = "build --source mimic --tokenizer {vocab} --input {mimic}"
PMI = "vocab pmi {folder} --out x"
READ = "build --source blurb/bc2gm --input nowhere --out out"

WRONG_OPTIONS = [
    ("biuld", "did you mean 'build'?"),
    ("build", "Missing option '--source'"),
    ("build --source blurb/bc2gm --part 3/2", "expected I/N with 1 <= I <= N"),
    ("build --source blurb/bc2gm --part \u00b2/3", "expected I/N with 1 <= I <= N"),
    (f"build --source blurb/bc2gm --part 1/{'9' * 5_000}", "expected I/N with"),
    ("build --source blurb --input x", "with --input name one of them"),
    ("build --source blurb/bc2gm --workers 0", "'--workers': expected an integer >= 1"),
    ("build --source conll --tokenizer v --input corpus --out ''", "is a shell variable unset?"),
    ("mask-stats ''", "is a shell variable unset?"),
    ("mask-stats {folder} --strategy joint --strategy elm", "expected one, got 2; `mslm-data look"),
    ("mask-stats {folder} --weights fixed", "'fixed' is not one of 'paper', 'released'"),
    ("mask-stats {folder} --strategy blm --sweep", "expected a strategy with the options elm and"),
    ("mask-stats {folder} --elm 1.5", "'--elm': expected a number <= 1.0, got '1.5'"),
    ("mask-stats {folder} --elm 0.5 --set elm=0.3", "--set elm: cannot be combined with --elm"),
    (f"mask-stats {{folder}} --seed {2**63}", "'--seed': expected an integer <= 92233720368547758"),
    ("mask-stats {folder} --set jont.elm=0.5", "got one of 'jont'; did you mean 'joint'?"),
    ("mask-stats {folder} --set corruption.by=word", "option of joint, got one of 'corruption'"),
    ("mask-stats {folder} --set elm", "--set: expected option=value, got 'elm'"),
    ("inspect ''", "is a shell variable unset?"),
    (f"inspect {{folder}} --epoch {2**63}", "'--epoch': expected an integer <="),
    (
        f"inspect {{folder}} --start {SPLIT_SIZE}",
        f"--start: expected a row below {SPLIT_SIZE}, the",
    ),
    ("look {folder} --port 8765 --out page.html", "--port: expected no --out beside it"),
    ("look {folder} --show-text --out page.html", "--show-text: expected no --out beside it"),
    ("look {folder} --at rates?x --out no/page.html", "in a folder that exists"),
    ("subset {folder} --documents 1 --share 0.5 --out out", "got --documents and --share"),
    ("subset {folder} --out out", "--share, --shots and --term-shares, got none"),
    ("subset {folder} --documents 1 --term-shares 0.1 --out out", "--documents and --term-shares"),
    ("subset {folder} --min-term-share 0.1 --term-shares 0.2 --out out", "got both"),
    ("subset {folder} --term-shares 0.1,0.1 --out out", "different sizes"),
    ("subset {folder} --min-term-share 1 --out out", "from 1 to 1, found 0 to"),
    ("subset {folder} --min-term-share 0 --out out", "expected a number > 0"),
    ("subset {folder} --documents 1 --label Chemical --out out", "--term-shares beside it"),
    ("subset {folder} --min-term-share 0.1 --label chem --out out", "--label: no 'chem'"),
    ("subset {folder} --documents 0 --out out", "'--documents': expected an integer >= 1"),
    (
        "subset {folder} --documents 3,3 --out out",
        "--documents: expected different sizes, got 3, 3",
    ),
    ("subset {folder} --share 0 --out out", "'--share': expected a number > 0"),
    ("subset {folder} --documents 100000 --out out", "--documents: expected an integer from 1 to"),
    ("subset {folder} --documents 2 --out s3://bucket/few", "a path of this machine, got a URL"),
    ("export '' --to jsonl --out out", "is a shell variable unset?"),
    ("export {folder} --to csv --out out", "'csv' is not one of 'parquet', 'jsonl'"),
    ("export {folder} --out out", "Missing option '--to'"),
    ("push {folder} me/genes/more", "repo: expected OWNER/NAME, each of letters, digits, '-', '_'"),
    ("push {folder} me/g\u00e8nes", "repo: expected OWNER/NAME, each of letters, digits, '-', '_'"),
    ("overlap", "Missing argument 'DIR'"),
    ("recipes --sources --strategies", "and --picks, got several"),
    ("recipes --sources jsonl --input x", "expected --input with the NAME auto alone"),
    ("recipes doccano", "expected `recipes --sources doccano`, got it without the option"),
    ("recipes joint", "expected `recipes --strategies joint`, got it without the option"),
    (f"{PMI} --recipe papers", "'papers' is not one of 'paper', 'levine', 'released'"),
    (f"{PMI} --split train --all-splits", "split: expected --split or --all-splits, got both"),
    (f"{PMI} --min-count a,b", "'--min-count': expected an integer, got 'a,b'"),
    (f"{PMI} --min-count 1,2", "min_counts: expected one number or 3, got 2"),
    (f"{PMI} --lengths 2-6", "'--lengths': expected an integer <= 5, got '2-6'"),
    (f"{PMI} --lengths 3-2", "lengths: expected LOW-HIGH in ascending order, got 3-2"),
    (f"{PMI} --size 10 --coverage 0.5", "size: expected a size or a coverage, got both"),
    (f"{PMI} --coverage nan", "'--coverage': expected a number > 0.0, got 'nan'"),
    (f"{PMI} --list a/../x", "--list: expected another file than the lexicon's, got "),
    ("vocab anchors {folder} --general x --smoothing 0", "expected a number > 0.0, got '0'"),
    ("vocab scores attention {folder} --encoder x --out {vocab}", "' is a file"),
    ("vocab scores frequency {folder} --out {folder}", "' is a directory"),
    ("vocab anchors {folder} --general ''", "is a shell variable unset?"),
    ("vocab scores atention {folder}", "did you mean 'attention'?"),
    ("overlap {folder}/test {folder}/test", "expected another split to compare with"),
]
"""Calls with exit code 2, and a part of the message."""

WRONG_DATA = [
    (f"{READ.replace('nowhere', QUOTES)} --tokenizer {{vocab}}", "is a shell variable unset?"),
    (f"{SAMPLED} --set source.use=conl", "did you mean 'conll'?"),
    (f"{SAMPLED} --set source.wordcolumn=1", "did you mean 'word_column'?"),
    (f"{SAMPLED} --set annotate.label=[]", "did you mean 'labels'?"),
    (f"{SAMPLED} --set annotate.use=medct", "did you mean 'medcat'?"),
    ("build --source mimic --tokenizer {vocab} --out out", "--input"),
    (f"{NOTES} --out out", "annotate.model_pack=PACK"),
    (f"{NOTES} --out out", "annotate.use=terms"),
    (f"{NOTES} --out out", "annotate.use=none"),
    ("mask-stats {folder} --strategy jont", "did you mean 'joint'?"),
    ("mask-stats {folder} --set elm=1.5", "expected `float` <= 1.0 for option"),
    ("mask-stats {folder} --split dev", "no split 'dev'"),
    ("mask-stats {folder} --set cont=1", "did you mean 'count'?"),
    ("mask-stats {folder} --strategy elm --blm 0.1", "unknown option 'blm'"),
    ("mask-stats .", "no manifest.json found"),
    ("mask-stats {notes} --top-words 5", "which --top-words shows; pass --show-text to see"),
    (
        f"mask-stats {{folder}} --strategy blm --set 'blm={SCHEDULE}'",
        "masks depend on the training",
    ),
    (f"inspect {{folder}} --strategy blm --set 'blm={SCHEDULE}'", "masks depend on the training"),
    ("inspect {notes}", "holds patients' text; pass --show-text to see"),
    ("subset {folder} --documents 1 --split trian --out out", "did you mean 'train'"),
    ("subset {folder} --documents 1 --out {folder}", "expected a new folder"),
    ("recipes blurb/bc2", "did you mean 'blurb/bc2gm'?"),
    ("recipes --sources docano", "did you mean 'doccano'?"),
    ("recipes --strategies ptw", "'ptw' is not a text-masking strategy"),
    (f"{PMI} --split dev", "no split 'dev'"),
    (f"{PMI} --stop-words nowhere", "nowhere: no such file of stop words"),
    (f"{PMI} --min-count 100000", "lower --min-count"),
    ("vocab anchors {folder} --general wordfrek", "a table of words and counts, or 'wordfreq'"),
    ("vocab anchors {folder} --general {folder}/../ncbi", "got the folder itself"),
    ("vocab anchors {folder} --general {notes} --min-count 9999", "no words occur 9999 times or"),
    ("vocab scores anchors {folder} --encoder x --anchors none", "expected a lexicon, found none"),
    ("vocab scores confidence {folder} --callable json:no", "module 'json' has no attribute 'no'"),
    ("vocab scores frequency {folder} --split trian --out x", "did you mean 'train'?"),
    ("export nothing --to jsonl --out out", "no such folder"),
    (
        "export {folder} --to jsonl --out {folder}",
        "expected a new or empty folder, got other files",
    ),
    ("export {folder} --to conll --out out", "build it with --set encode.keep_text=true"),
    ("push . me/genes", "no manifest.json found"),
    ("annotate {folder} --input {vocab} --set sorce.documents=line", "unknown stage 'sorce'"),
    ("annotate {folder} --input {vocab} --set source.duplicates=drop", "an option for reading doc"),
    ("annotate {folder} --input {vocab} --source txet", "did you mean 'text'?"),
    ("audit {folder} --gold {vocab} --gold-source conll", "got annotate.use = 'gold'"),
    ("export {folder} --to jsonl --split trai --out out", "no split 'trai'; did you mean 'train'?"),
    ("overlap nothing", "no such folder"),
    ("overlap {folder}/dev", "no split 'dev'"),
    ("overlap {folder} {folder}/tests", "no split 'tests'; did you mean 'test'?"),
]
"""Calls with exit code 1, and a part of the message."""


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [(words, 2, message) for words, message in WRONG_OPTIONS]
    + [(words, 1, message) for words, message in WRONG_DATA],
)
def test_main__rejects_wrong_calls(
    words: str,
    code: int,
    message: str,
    ncbi: Path,
    notes: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {
        "{folder}": ncbi,
        "{notes}": notes,
        "{vocab}": SAMPLE / "vocab.txt",
        "{mimic}": SAMPLE / "mimic" / "NOTEEVENTS.csv",
    }
    for name, place in places.items():
        words = words.replace(name, str(place))

    done = run(*shlex.split(words))

    assert done.code == code, done.err
    assert message in " ".join(done.err.split())
    assert done.err.count("\n") == 1 or code == 2
    assert done.out == ""
    assert not [*tmp_path.iterdir()]
