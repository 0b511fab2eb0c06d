"""The state of the page and its address: what is read back, and what is refused at each door."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.api.loading import Shards
from mslm_data.look.corpus import Corpus
from mslm_data.look.filters import FILTERS
from mslm_data.look.state import Choice, FieldError, State, read_state
from tests.cli.running import run
from tests.look.serving import ask, at, served

WORDS = st.text(min_size=1, max_size=8)
CHOICES = st.builds(Choice, WORDS, st.dictionaries(WORDS, WORDS, max_size=2))
STATES = st.builds(
    State,
    view=st.just("rows"),
    split=st.sampled_from(["train", "test"]),
    row=st.integers(0, 19),
    back=st.booleans(),
    strategies=st.lists(CHOICES, min_size=1, max_size=3).map(tuple),
    seed=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 2**63 - 1),
    seen=st.booleans(),
    label=st.sampled_from(["", "Chemical"]),
    doc=st.just("") | WORDS,
    least=st.none() | st.integers(0, 9),
    most=st.none() | st.integers(0, 9),
    terms=st.none() | st.integers(0, 9),
    only=st.lists(
        st.sampled_from([name for name, filter_ in FILTERS.items() if not filter_.needs]),
        max_size=2,
    ).map(tuple),
)
REFUSED = [
    ("split=dev", "split", "no 'dev'"),
    ("label=Diseas", "label", "no 'Diseas'; known: Chemical"),
    ("only=nomask", "only", "did you mean 'no-mask'?"),
    ("only=missed", "only", "no 'missed'"),  # without a gold folder
    ("only=negated", "only", "no 'negated'"),  # mentions have no context
    ("bogus=1", "bogus", "unknown parameter 'bogus'"),
    ("lable=Chemical", "lable", "did you mean 'label'?"),
    ("rows.back=1", "rows.back", "unknown parameter"),
    ("row=x", "row", "first row: expected a whole number of 0 or more"),
    ("row=-1", "row", "first row: expected a whole number of 0 or more"),
    ("row=99999999", "row", "expected at most 59, the last of train, got 99999999"),
    ("split=test&row=20", "row", "expected at most 19, the last of test, got 20"),
    ("seed=-1", "seed", "seed: expected a whole number"),
    (f"seed={2**63}", "seed", "seed: expected a whole number"),
    ("epoch=1.5", "epoch", "epoch: expected a whole number"),
    ("least=٣", "least", "tokens, at least: expected a whole number"),
    ("s1=joint&s4=elm", "s4", "expected at most 3 strategies"),
    ("s1=joint&s4.elm=0.3", "s4.elm", "expected at most 3 strategies"),
    ("s1=joint&s2.elm=0.3", "s2.elm", "expected a strategy 's2' beside it"),
]
WRONG_OPTIONS = [
    ("s1=joint&s1.elm=1.5", "s1.elm", "elm: expected a rate from 0 to 1, such as 0.3, got 1.5"),
    ("s1=joint&s1.elm=abc", "s1.elm", "elm: expected a rate from 0 to 1, such as 0.3, got abc"),
    ("s1=joint&s2=span&s2.rate=2", "s2.rate", "rate: expected a rate from 0 to 1"),
    ("s1=joint&s1.count=x", "s1.count", "known: bernoulli, fixed"),
    ("s1=joint&s1.bogus=1", "s1.bogus", "unknown option 'bogus'"),
]


@pytest.fixture(scope="module")
def corpus(chem: Shards) -> Corpus:
    return Corpus(chem)


def read(corpus: Corpus, query: str) -> State:
    return read_state(corpus, parse_qsl(query), view="rows", start=State())


@given(state=STATES)
def test_address__restores_the_state(corpus: Corpus, state: State) -> None:
    assert read(corpus, state.address()) == state


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0,3", "0.3"), (".3", "0.3"), (",3", "0.3"), ("0.30", "0.30"), ("1", "1"), ("0.5", None)],
)
def test_read_state__writes_rates_as_toml(corpus: Corpus, text: str, expected: str | None) -> None:
    (choice,) = read(corpus, f"s1=joint&s1.elm={text}").strategies

    assert choice.options == ({} if expected is None else {"elm": expected})


@pytest.mark.parametrize(("query", "field", "words"), REFUSED)
def test_read_state__names_the_parameter_that_is_wrong(
    corpus: Corpus, query: str, field: str, words: str
) -> None:
    with pytest.raises(FieldError) as error:
        read(corpus, query)

    assert error.value.field == field
    assert words in str(error.value)


def test_page_and_file__refuse_what_is_wrong(chem: Shards) -> None:
    with served(Corpus(chem, live=True)) as server:
        for query, field, words in (*REFUSED, *WRONG_OPTIONS):
            page = ask(at(server, "rows", query))
            file = ask(at(server, "page.html", query))

            assert (page.status, file.status) == (422, 422), query
            assert f'data-field="{field}"' in page.text
            assert words in page.unescaped
            assert field.rpartition(".")[2] in file.text
            assert "hx-replace-url" not in page.headers
            # Rows under the other strategies are shown, but none as if a filter held.
            shows_rows = 'class="row"' in page.text
            assert shows_rows == ((query, field, words) in WRONG_OPTIONS)


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["--at", "rows?label=Diseas"], 2, "no 'Diseas'"),
        (["--at", "rows?row=99999999"], 2, "expected at most 59"),
        (["--at", "rows?s1=joint&s1.elm=1.5"], 1, "elm"),
        (["--at", "nowhere?row=1"], 2, "expected one of rows"),
        ([word for name in ("joint", "span", "bert", "elm") for word in ("--strategy", name)], 2, "at most 3"),
    ],
)  # fmt: skip
def test_look__refuses_a_wrong_call(
    chem: Shards, tmp_path: Path, words: list[str], code: int, expected: str
) -> None:
    done = run("look", chem.folder, "--out", tmp_path / "page.html", *words)

    assert done.code == code
    assert expected in done.err
    assert not (tmp_path / "page.html").exists()
