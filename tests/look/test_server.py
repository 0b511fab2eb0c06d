"""The live page without a browser: access, views, errors and protected text."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest

from mslm_data.api.loading import Shards
from mslm_data.look.corpus import Corpus
from mslm_data.look.options import strategy_names
from mslm_data.look.server import Server
from mslm_data.look.state import State
from mslm_data.look.views import VIEWS
from tests.look.serving import EVIL, EVIL_LABEL, Answer, ask, served


def at(server: Server, view: str, query: str = "") -> str:
    base = server.address.partition("?")[0].rpartition("/")[0]
    return f"{base}/{view}?{query}"


def fragment(server: Server, view: str, query: str, target: str = "main") -> Answer:
    return ask(at(server, view, query), headers={"HX-Request": "true", "HX-Target": target})


HOSTILE = {
    "another name that leads here": {"Host": "evil.example"},
    "the name of this machine": {"Host": "localhost:{port}"},
    "another port": {"Host": "127.0.0.1:1"},
    "two hosts": {"Host": "127.0.0.1:{port}, evil.example"},
    "another origin": {"Origin": "https://evil.example"},
    "no origin to speak of": {"Origin": "null"},
    "another site": {"Sec-Fetch-Site": "cross-site"},
    "another page of this machine": {"Sec-Fetch-Site": "same-site"},
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("view", ["rows", "page.html", "static/style.css"])
def test_server__refuses_requests_of_other_origins(chem: Shards, name: str, view: str) -> None:
    with served(Corpus(chem, live=True)) as server:
        port = urlsplit(server.address).port
        headers = {header: value.format(port=port) for header, value in HOSTILE[name].items()}

        answer = ask(at(server, view), headers=headers)

    assert answer.status in (403, 421)
    assert len(answer.text) < 20


@pytest.mark.parametrize("token", ["", "x", "..", "%2e%2e", "é"])
def test_server__refuses_another_token(chem: Shards, token: str) -> None:
    with served(Corpus(chem, live=True)) as server:
        host = urlsplit(server.address).netloc
        path = f"{token}/rows" if token.isascii() else "%C3%A9/rows"

        answer = ask(f"http://{host}/{path}")

        assert answer.status == 404
        assert server.address.split("/")[3] not in str(answer)


def test_server__tokens_differ_and_are_long(chem: Shards) -> None:
    tokens = set()
    for _ in range(3):
        with served(Corpus(chem, live=True)) as server:
            tokens.add(server.address.split("/")[3])

    assert len(tokens) == 3
    assert min(map(len, tokens)) >= 32


def test_server__listens_on_localhost_only(chem: Shards) -> None:
    with served(Corpus(chem, live=True)) as server:
        assert server._socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "view", [*VIEWS, "page.html", "static/style.css", "static/page.js", "nowhere"]
)
def test_server__every_answer_has_the_policy(chem: Shards, view: str) -> None:
    with served(Corpus(chem, live=True)) as server:
        answer = ask(at(server, view))

    assert answer.headers["content-security-policy"].startswith(
        "default-src 'self'; base-uri 'none'"
    )
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<[^>]*\sstyle=", answer.text)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_server__accepts_post_only_for_the_end(chem: Shards, method: str) -> None:
    with served(Corpus(chem, live=True)) as server:
        assert ask(at(server, "rows"), method=method).status == 405
        assert ask(at(server, "end")).status in (404, 405)


def test_server__stops_on_request(chem: Shards) -> None:
    with served(Corpus(chem, live=True)) as server:
        origin = "http://" + urlsplit(server.address).netloc

        answer = ask(at(server, "end"), method="POST", headers={"Origin": origin})

    assert answer.status == 200
    assert "Ended" in answer.text
    with pytest.raises(OSError, match="refused"):
        ask(server.address)


@pytest.mark.parametrize("view", VIEWS)
def test_server__shows_no_protected_text_by_default(notes: Shards, view: str) -> None:
    words = re.compile("olanzapine|proteinuria|Doxorubicin")
    with served(Corpus(notes, live=True)) as server:
        page = ask(at(server, view)).text
        file = ask(at(server, "page.html")).text

    assert not words.search(page)
    assert not words.search(file)


def test_server__shows_protected_text_on_request_but_never_writes_it(notes: Shards) -> None:
    with served(Corpus(notes, show_text=True, live=True)) as server:
        page = ask(at(server, "rows"))
        file = ask(at(server, "page.html"))

    assert "proteinuria" in page.text
    assert page.headers["cache-control"] == "no-store"
    assert "proteinuria" not in file.text


@pytest.mark.parametrize("view", VIEWS)
def test_server__escapes_text_of_a_corpus(evil: Shards, view: str) -> None:
    with served(Corpus(evil, live=True)) as server:
        text = ask(at(server, view, "s1=joint&s2=span")).text
        text += ask(at(server, "page.html")).text

    for word in [*EVIL, EVIL_LABEL]:
        if re.search('[<>"\u202e]', word):
            assert word not in text
    assert "\u202e" not in text
    assert not re.search(r"<script(?! src=\"static/)", text)
    assert not re.search(r"<[^>]*\son\w+=", text)


def test_server__escapes_the_address(chem: Shards) -> None:
    with served(Corpus(chem, live=True)) as server:
        for query in (
            "s1=<script>1</script>",
            "split=<img>",
            "s1=joint&s1.elm=<b>",
            'doc="><b>',
            "batches.x=<b>",
        ):
            answer = ask(
                at(
                    server,
                    "rows",
                    query.replace("<", "%3C").replace(">", "%3E").replace('"', "%22"),
                )
            )
            assert "<script>1" not in answer.text
            assert "<img>" not in answer.text
            assert "<b>" not in answer.text.replace("<b>joint</b>", "")


@pytest.mark.parametrize("name", ["os:system", "/etc/passwd.toml", "mask.toml", "../x"])
def test_server__address_reads_no_file_and_imports_no_module(chem: Shards, name: str) -> None:
    with served(Corpus(chem, live=True)) as server:
        answer = fragment(server, "rows", f"s1={name}")

    assert "unknown strategy" in answer.text


@pytest.mark.parametrize("name", strategy_names())
def test_server__has_a_form_for_each_strategy(chem: Shards, name: str) -> None:
    with served(Corpus(chem, live=True)) as server:
        page = ask(at(server, "rows", f"s1={name}")).text

    assert f"<option selected>{name}</option>" in page
    assert "Hide" in page or "Mask" in page


def test_server__changes_the_form_with_the_strategy(
    chem: Shards,
) -> None:
    with served(Corpus(chem, live=True)) as server:
        answer = fragment(server, "rows", "form.names=joint&s1=span&s1.elm=0.3&s2=")

    assert answer.headers["hx-retarget"] == "#page"
    assert 'name="s1.rate"' in answer.text
    assert answer.headers["hx-push-url"].endswith("/rows?s1=span")


def test_server__values_of_the_command_can_be_set_back(chem: Shards) -> None:
    start = State(split="test", seed=5, epoch=2, label="Chemical", least=9)
    form = "form.names=joint&form.split=train&s1=joint&split=train&seed=0&epoch=0&label=&least="
    with served(Corpus(chem, live=True), start) as server:
        first = ask(server.address).text
        changed = fragment(server, "rows", form)
        address = changed.headers["hx-replace-url"]
        again = ask(f"http://{urlsplit(server.address).netloc}{address}").text

    assert '<p class="soft" id="counts-of">test, epoch 2</p>' in first
    assert "rows match." in first
    for text in (changed.text, again):
        assert '<p class="soft" id="counts-of">train, epoch 0</p>' in text
        assert "rows match." not in text
    assert 'name="seed" value="0"' in again


def test_server__keeps_options_beside_a_file_with_a_space_in_its_name(chem: Shards) -> None:
    corpus = Corpus(chem, live=True)
    corpus.add("my file.toml", chem.strategy("span"))
    form = "form.names=my+file.toml&form.names=joint&form.names=my+file.toml"
    with served(corpus) as server:
        answer = fragment(
            server, "rows", f"{form}&s1=my+file.toml&s2=joint&s2.elm=0.3&s3=my+file.toml"
        )

    assert "s2.elm=0.3" in answer.headers["hx-replace-url"]
    assert '<tr data-strategy="my file.toml 2">' in answer.text


def test_server__address_has_only_options_other_than_the_default(chem: Shards) -> None:
    query = "form.names=joint&s1=joint&s1.elm=0.3&s1.blm=0.15&s1.count=fixed&s2=&seed=0&label="
    with served(Corpus(chem, live=True)) as server:
        answer = fragment(server, "rows", query)

    assert answer.headers["hx-replace-url"].endswith("/rows?s1=joint&s1.elm=0.3")


def test_server__reports_a_wrong_option(chem: Shards) -> None:
    with served(Corpus(chem, live=True)) as server:
        answer = fragment(server, "rows", "s1=joint&s1.elm=1.5")

    assert "elm: expected a rate from 0 to 1, such as 0.3, got 1.5" in answer.text
    assert 'data-field="s1.elm"' in answer.text
    assert (answer.status, answer.headers["hx-retarget"]) == (200, "#problem")


@pytest.mark.parametrize(
    ("query", "field", "words"),
    [
        ("s1=joint&s1.elm=abc", "s1.elm", "elm: expected a rate from 0 to 1"),
        ("s1=joint&s2=span&s2.rate=2", "s2.rate", "rate: expected a rate from 0 to 1"),
        ("s1=joint&s1.count=x", "s1.count", "known: bernoulli, fixed"),
        ("s1=joint&least=zz", "least", "tokens, at least: expected a whole number"),
        ("s1=joint&seed=-1", "seed", "seed: expected a whole number"),
        ("split=dev", "split", "no &#39;dev&#39;"),
    ],
)
def test_server__names_the_field_of_a_wrong_value(
    chem: Shards, query: str, field: str, words: str
) -> None:
    with served(Corpus(chem, live=True)) as server:
        answer = fragment(server, "rows", query)

    assert f'data-field="{field}"' in answer.text
    assert words in answer.text


def test_server__takes_a_decimal_comma(chem: Shards) -> None:
    with served(Corpus(chem, live=True)) as server:
        answer = fragment(server, "rows", "s1=joint&s1.elm=0,3")

    assert answer.headers["hx-replace-url"].endswith("/rows?s1=joint&s1.elm=0.3")


def test_server__refuses_a_fourth_strategy(chem: Shards) -> None:
    with served(Corpus(chem, live=True)) as server:
        answer = ask(at(server, "rows", "s1=joint&s2=span&s3=bert&s4=elm"))

    assert "s4: expected at most 3 strategies" in answer.text


def test_server__shows_the_others_beside_a_strategy_that_lacks_its_file(chem: Shards) -> None:
    with served(Corpus(chem, live=True)) as server:
        page = ask(at(server, "rows", "s1=keywords&s2=span")).text
        file = ask(at(server, "page.html", "s1=keywords&s2=span")).text
        alone = ask(at(server, "rows", "s1=keywords")).text

    assert 'data-field="s1"' in page
    assert f"vocab scores table {chem.folder} --from" in page
    assert '<tr data-strategy="span">' in page
    assert "s1=keywords&amp;s2=span" in page  # links keep it
    assert '<tr data-strategy="span">' in file
    assert ("data-view" in alone, 'data-field="s1"' in alone) == (False, True)


def test_server__answers_a_view_that_asks_again_with_its_section_alone(chem: Shards) -> None:
    again = {"HX-Request": "true"}  # the section of a view has no id, so htmx names no target
    with served(Corpus(chem, live=True)) as server:
        section = ask(at(server, "strategy", "s1=keywords&s2=span"), headers=again)
        nothing = ask(at(server, "strategy", "s1=keywords"), headers=again)

    # The message about `keywords` stands above the section and would come twice.
    assert section.text.startswith("<section ")
    assert 'id="problem' not in section.text
    assert "hx-retarget" not in section.headers
    assert nothing.headers["hx-retarget"] == "#problem"
    assert 'data-field="s1"' in nothing.text


def test_form__marks_strategies_that_lack_a_file(chem: Shards) -> None:
    with served(Corpus(chem, live=True)) as server:
        page = ask(server.address).text

    ready, _, lacking = page.partition('<optgroup label="needs a file">')
    assert "<option>keywords</option>" not in ready
    assert "<option>span</option>" in ready
    assert "<option>keywords</option>" in lacking.partition("</optgroup>")[0]


def test_server__shows_no_text_in_internal_errors(
    chem: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("Doxorubicin")

    monkeypatch.setattr("mslm_data.look.server.render_view", fails)
    with served(Corpus(chem, live=True)) as server:
        answer = ask(at(server, "rows"))

    assert (answer.status, answer.text) == (500, "error: RuntimeError")


def test_counts__that_arrive_late_keep_the_counts_of_the_rows(
    chem: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mslm_data.look.counts._QUICK_ROWS", 0)
    with served(Corpus(chem, live=True)) as server:
        early = ask(at(server, "rows", "s1=joint&row=10")).text
        late = fragment(server, "counts", "row=10&s1=joint", target="counts").text
        other = fragment(server, "counts", "row=11&s1=joint", target="counts").text

    shown = re.findall("<small>.*?</small>", early.partition('id="counts"')[2])[:7]
    assert len(shown) == 7
    assert re.findall("<small>.*?</small>", late) == shown
    assert "<small>" not in other


def test_take__names_the_epoch_of_the_command(chem: Shards) -> None:
    with served(Corpus(chem, live=True)) as server:
        first, later = (ask(at(server, "take", query)).text for query in ("", "epoch=4"))

    assert "The command counts epoch 0" not in first
    assert "The command counts epoch 0, and this page and the Python code epoch 4." in later


def test_form__has_context_filters_only_for_mentions_with_context(
    chem: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(Corpus(chem, live=True)) as server:
        without = ask(server.address).text
        monkeypatch.setattr("mslm_data.shard.manifest.Manifest.context", True)
        with_flags = ask(server.address).text

    assert 'value="negated"' not in without
    assert 'value="negated"' in with_flags


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "The split has"),
        ("only=no-mention", "rows match."),
        ("doc=nowhere", "No row matches."),
        ("label=Chemical&row=99999", "No further row matches."),
        ("row=99999", "No row here."),
    ],
)
def test_rows__say_how_many_match(chem: Shards, query: str, expected: str) -> None:
    with served(Corpus(chem, live=True)) as server:
        text = ask(at(server, "rows", query)).text

    status = text.partition('<div class="pager">')[2].partition("</p>")[0]
    assert expected in status
    assert ("Clear the filters" in status) == expected.startswith(("No row m", "No further"))


def test_rows__count_the_matches_of_the_whole_split(chem: Shards) -> None:
    split = chem["train"]
    matches = sum(bool(split[row]["span_starts"]) for row in range(len(split)))
    with served(Corpus(chem, live=True)) as server:
        text = ask(at(server, "rows", "label=Chemical&row=1")).text

    assert f"{matches} of {len(split)} rows match." in text


def test_form__disables_filters_that_no_row_can_pass(chem: Shards) -> None:
    def disabled(text: str) -> set[str]:
        return set(re.findall(r'name="only" value="([a-z-]+)" disabled', text))

    with served(Corpus(chem, live=True)) as server:
        one = ask(at(server, "rows", "s1=joint&only=differ")).text
        two = ask(at(server, "rows", "s1=joint&s2=span&split=test")).text
        other = fragment(server, "rows", "form.names=joint&form.split=train&s1=joint&split=test")

    assert (disabled(one), disabled(two)) == ({"differ", "unseen"}, set())
    assert 'class="row"' in one  # the impossible filter is dropped
    assert other.headers["hx-retarget"] == "#page"


def test_server__takes_the_port_that_it_is_given(chem: Shards) -> None:
    with served(Corpus(chem, live=True)) as first:
        port = urlsplit(first.address).port
    assert port is not None

    server = Server(Corpus(chem, live=True), State(), port=port)
    server._socket.close()

    assert urlsplit(server.address).port == port


def test_page__names_its_folders(chem: Shards, notes: Shards) -> None:
    with served(Corpus(chem, gold=notes, live=True)) as server:
        page = ask(server.address).text

    names = ["/".join(shards.folder.parts[-2:]) for shards in (chem, notes)]
    title = f"{names[0]}, beside gold {names[1]}"
    assert f"<title>{title}: Rows</title>" in page
    assert f"<h1>{title} " in page
    assert "tokenizer of 1,144 ids" in page
    assert "Skip to Rows" in page
