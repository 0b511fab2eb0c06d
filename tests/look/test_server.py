"""The live page without a browser: access, forms, messages and protected text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mslm_data import plugins
from mslm_data.api.loading import Shards
from mslm_data.look.corpus import Corpus
from mslm_data.look.options import fields, strategy_names
from mslm_data.look.server import Server
from mslm_data.look.state import State
from mslm_data.look.views import VIEWS
from tests.look.serving import EVIL, EVIL_LABEL, ask, at, served
from tests.support.plugins import put
from tests.support.waiting import wait_for

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


@pytest.fixture(scope="module")
def live(chem: Shards) -> Iterator[Server]:
    """The sample, served to all tests of this file that only read."""
    with served(Corpus(chem, live=True)) as server:
        yield server


def field_values(page: str) -> dict[str, str]:
    """Return the value of each text field of the form."""
    inputs = re.findall(r'<input type="text"[^>]* name="([^"]*)" value="([^"]*)"', page)
    return dict(inputs)


# Access -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("view", ["rows", "page.html", "static/style.css"])
def test_server__refuses_requests_of_other_origins(live: Server, name: str, view: str) -> None:
    port = urlsplit(live.address).port
    headers = {header: value.format(port=port) for header, value in HOSTILE[name].items()}

    answer = ask(at(live, view), headers=headers)

    assert answer.status in (403, 421)
    assert len(answer.text) < 20


@pytest.mark.parametrize("token", ["", "x", "..", "%2e%2e", "%C3%A9"])
def test_server__refuses_another_token(live: Server, token: str) -> None:
    host = urlsplit(live.address).netloc

    answer = ask(f"http://{host}/{token}/rows")

    assert answer.status == 404
    assert live.address.split("/")[3] not in str(answer)


def test_server__is_local_and_its_token_long_and_new(chem: Shards) -> None:
    tokens = set()
    for _ in range(3):
        with served(Corpus(chem, live=True)) as server:
            tokens.add(server.address.split("/")[3])
            assert server._socket.getsockname()[0] == "127.0.0.1"

    assert len(tokens) == 3
    assert min(map(len, tokens)) >= 32


@pytest.mark.parametrize(
    "view", [*VIEWS, "page.html", "static/style.css", "static/page.js", "nowhere"]
)
def test_server__every_answer_has_the_policy(live: Server, view: str) -> None:
    answer = ask(at(live, view))

    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; base-uri 'none'")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<[^>]*\sstyle=", answer.text)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_server__accepts_post_only_for_the_end(live: Server, method: str) -> None:
    assert ask(at(live, "rows"), method=method).status == 405
    assert ask(at(live, "end")).status in (404, 405)


def test_server__stops_on_request(chem: Shards) -> None:
    with served(Corpus(chem, live=True)) as server:
        origin = "http://" + urlsplit(server.address).netloc

        answer = ask(at(server, "end"), method="POST", headers={"Origin": origin})

    assert answer.status == 200
    assert "Ended" in answer.text
    with pytest.raises(OSError, match="refused"):
        ask(server.address)


def test_server__takes_the_port_that_it_is_given(chem: Shards) -> None:
    with served(Corpus(chem, live=True)) as first:
        port = urlsplit(first.address).port
    assert port is not None

    server = Server(Corpus(chem, live=True), State(), port=port)
    server._socket.close()

    assert urlsplit(server.address).port == port


@pytest.mark.parametrize("name", ["os:system", "/etc/passwd.toml", "mask.toml", "../x"])
def test_server__address_reads_no_file_and_imports_no_module(live: Server, name: str) -> None:
    assert "unknown strategy" in ask(at(live, "rows", f"s1={name}")).text


# Text ---------------------------------------------------------------------------------------------


def test_server__shows_no_protected_text_by_default(notes: Shards) -> None:
    with served(Corpus(notes, live=True)) as server:
        pages = [ask(at(server, view)) for view in (*VIEWS, "page.html")]

    for page in pages:
        assert page.status == 200
        assert not re.search("olanzapine|proteinuria|Doxorubicin", page.text)


def test_server__shows_protected_text_on_request_but_never_writes_it(notes: Shards) -> None:
    with served(Corpus(notes, show_text=True, live=True)) as server:
        page = ask(at(server, "rows"))
        file = ask(at(server, "page.html"))

    assert "proteinuria" in page.text
    assert page.headers["cache-control"] == "no-store"
    assert file.status == 200
    assert "proteinuria" not in file.text


def test_server__escapes_text_of_a_corpus(evil: Shards) -> None:
    with served(Corpus(evil, live=True)) as server:
        pages = [ask(at(server, view, "s1=joint&s2=span")) for view in (*VIEWS, "page.html")]

    for page in pages:
        assert page.status == 200
        for word in [*EVIL, EVIL_LABEL]:
            if re.search('[<>"\u202e]', word):
                assert word not in page.text
        assert "\u202e" not in page.text
        assert not re.search(r"<script(?! src=\"static/)", page.text)
        assert not re.search(r"<[^>]*\son\w+=", page.text)
        assert html.escape(EVIL_LABEL) in page.text
    assert "\\u202eevil" in pages[0].text


@pytest.mark.parametrize(
    "query",
    ["s1=<script>1</script>", "split=<img>", "s1=joint&s1.elm=<b>", 'doc="><b>', "<img>=1"],
)
def test_server__escapes_the_address(live: Server, query: str) -> None:
    answer = ask(at(live, "rows", query))

    assert "<script>1" not in answer.text
    assert "<img>" not in answer.text
    assert "<b>" not in answer.text.replace("<b>joint</b>", "")


def test_server__shows_no_text_in_internal_errors(
    chem: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("Doxorubicin")

    monkeypatch.setattr("mslm_data.look.server.render_view", fails)
    with served(Corpus(chem, live=True)) as server:
        answer = ask(at(server, "rows"))

    assert answer.status == 500
    assert re.fullmatch(r"error: RuntimeError in test_server\.py:\d+", answer.text)


# Strategies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", strategy_names())
def test_server__has_a_form_for_each_strategy(live: Server, name: str) -> None:
    page = ask(at(live, "rows", f"s1={name}")).text

    assert f"<option selected>{name}</option>" in page
    for field in fields(name, {}):
        control = re.search(rf'<(?:input|select)[^>]* id="s1\.{field.name}"[^>]*>', page)
        assert control is not None, field.name
        assert f'name="s1.{field.name}"' in control[0]
        # Another strategy has no such option.
        assert re.search(rf'hx-params="not [^"]*s1\.{field.name}\b', page)


def test_server__shows_the_others_beside_a_strategy_that_lacks_its_file(
    chem: Shards, live: Server
) -> None:
    page = ask(at(live, "rows", "s1=keywords&s2=span"))
    alone = ask(at(live, "rows", "s1=keywords"))
    file = ask(at(live, "page.html", "s1=keywords&s2=span"))

    for answer in (page, alone):
        assert answer.status == 200
        assert 'data-field="s1"' in answer.text
        assert f"vocab scores table {chem.folder} --from" in answer.text
        assert 'name="s1.lexicon"' in answer.text  # the form is there, to set another file
        assert answer.text.count('class="row"') == 50
    assert '<tr data-strategy="span">' in page.text
    assert "s1=keywords&amp;s2=span" in page.text  # links keep it
    assert "<mark" not in alone.text.partition("hx-disable")[2]
    # A file would show less than it was asked for.
    assert file.status == 422
    assert "vocab scores table" in file.text


def test_form__lists_strategies_that_lack_a_file_apart(live: Server) -> None:
    ready, _, lacking = ask(live.address).text.partition('<optgroup label="needs a file">')

    assert "<option>keywords</option>" not in ready
    assert "<option>span</option>" in ready
    assert "<option>keywords</option>" in lacking.partition("</optgroup>")[0]


def test_form__leaves_out_a_broken_plugin(
    chem: Shards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"broken": "nowhere:make", "span": "nowhere:make"}  # one has a shipped name
    put(tmp_path, "broken", {"mslm_data.strategies": names})
    monkeypatch.syspath_prepend(tmp_path)
    plugins.find_plugins.cache_clear()
    try:
        with served(Corpus(chem, live=True)) as server:
            page = ask(server.address)
            chosen = ask(at(server, "rows", "s1=broken&s2=span"))
    finally:
        plugins.find_plugins.cache_clear()

    assert page.status == 200
    assert "<option selected>joint</option>" in page.text
    assert "<option>broken</option>" not in page.text
    assert page.text.count("<option>span</option>") == 2  # once in each list
    assert "expected nowhere:make to be imported" in chosen.text
    assert '<tr data-strategy="span">' in chosen.text


def test_form__has_filters_that_the_folder_has_data_for(
    chem: Shards, notes: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    def filters(gold: Shards | None = None) -> set[str]:
        with served(Corpus(chem, gold=gold, live=True)) as server:
            return set(re.findall('name="only" value="([a-z-]+)"', ask(server.address).text))

    plain = filters()
    with_gold = filters(notes)
    monkeypatch.setattr("mslm_data.shard.manifest.Manifest.context", True)
    with_context = filters()

    assert "unseen" in plain
    assert with_gold - plain == {"found", "missed", "wrong"}
    assert "negated" in with_context - plain


# The address --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "address"),
    [
        ("s1=joint&s1.elm=0.3&s1.blm=0.15&s1.count=fixed&s2=&seed=0&label=", "s1=joint&s1.elm=0.3"),
        ("s1=joint&s1.elm=0,3", "s1=joint&s1.elm=0.3"),
        ("s1=joint&s1.elm=.25&row=0", "s1=joint&s1.elm=0.25"),
        ("s1=span&row=59&back=1", "row=9&s1=span"),
    ],
)
def test_server__address_has_only_what_is_not_the_default(
    live: Server, query: str, address: str
) -> None:
    assert ask(at(live, "rows", query)).headers["hx-replace-url"] == f"rows?{address}"


def test_server__values_of_the_command_can_be_set_back(chem: Shards) -> None:
    start = State(split="test", seed=5, epoch=2, label="Chemical", least=9)
    form = "s1=joint&split=train&seed=0&epoch=0&label=&least="
    with served(Corpus(chem, live=True), start) as server:
        first = ask(server.address).text
        changed = ask(at(server, "rows", form))
        again = ask(at(server, *changed.headers["hx-replace-url"].split("?"))).text

    assert '<p class="soft" id="counts-of">test, epoch 2</p>' in first
    assert "rows match." in first
    for text in (changed.text, again):
        assert '<p class="soft" id="counts-of">train, epoch 0</p>' in text
        assert "rows match." not in text
    assert field_values(again)["seed"] == "0"


def test_server__keeps_options_beside_a_file_with_a_space_in_its_name(chem: Shards) -> None:
    corpus = Corpus(chem, live=True)
    corpus.add("my file.toml", chem.strategy("span"))
    with served(corpus) as server:
        answer = ask(at(server, "rows", "s1=my file.toml&s2=joint&s2.elm=0.3&s3=my file.toml"))

    assert "s2.elm=0.3" in answer.headers["hx-replace-url"]
    assert '<tr data-strategy="my file.toml 2">' in answer.text


# Rows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "The split has 60."),
        ("label=Chemical", "17 of 60 rows match."),
        ("label=Chemical&row=1", "17 of 60 rows match."),
        ("doc=nowhere", "No row matches."),
        ("label=Chemical&row=59", "No further row matches."),
        ("only=differ", "No row matches."),
    ],
)
def test_rows__say_how_many_match(chem: Shards, live: Server, query: str, expected: str) -> None:
    def status() -> str:
        text = ask(at(live, "rows", query)).text
        return text.partition('<div class="pager">')[2].partition("</p>")[0]

    # While matches are counted in the background, the message asks again.
    wait_for(lambda: "hx-get" not in status())

    assert expected in status()
    clears = expected.startswith(("No row m", "No further"))
    assert ("Clear the filters" in status()) == clears
    assert sum(bool(chem["train"][row]["span_starts"]) for row in range(60)) == 17


def test_page__names_its_folders(chem: Shards, notes: Shards) -> None:
    with served(Corpus(chem, gold=notes, live=True)) as server:
        page = ask(server.address).text

    names = ["/".join(shards.folder.parts[-2:]) for shards in (chem, notes)]
    title = f"{names[0]}, beside gold {names[1]}"
    assert f"<title>{title}: Rows</title>" in page
    assert f"<h1>{title} " in page
    assert "tokenizer of 1,144 ids" in page
    assert "Skip to Rows" in page
