"""The live page in a real browser: actions of a user, and the resulting view."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mslm_data.api.loading import Shards
from mslm_data.look.corpus import Corpus
from mslm_data.look.server import Server
from mslm_data.look.views import VIEWS
from tests.cli.running import run
from tests.look.serving import EVIL, at, served
from tests.support.browser import needs_chromium
from tests.support.driver import Browser, browser

pytestmark = needs_chromium

COUNTS = (
    "n_elm", "n_blm", "w_elm_raw", "w_blm_raw", "w_elm_clipped", "w_blm_clipped", "w_elm", "w_blm", "sequences",
    "tokens", "maskable_tokens", "mentions", "mention_tokens", "masked_mentions", "rows_without_mask",
)  # fmt: skip
SLIDER = "document.querySelector('[data-for=\"s1.elm\"]')"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as one:
        yield one


@pytest.fixture
def live(chem: Shards, tab: Browser) -> Iterator[Server]:
    """The sample, served and open in the browser."""
    tab.leave()
    with served(Corpus(chem, live=True)) as server:
        tab.open(server.address)
        tab.wait_for("window.htmx && document.querySelector('#counts [data-count=n_elm]')")
        yield server
        host = urlsplit(server.address).netloc
        assert [address for address in tab.requests if urlsplit(address).netloc != host] == []
        assert tab.messages == []


def written(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def show_view(tab: Browser, name: str) -> None:
    tab.run(f"document.querySelector('nav a[href^={name}]').click()")
    tab.wait_for(
        f"document.querySelector('nav a[aria-current]').getAttribute('href').startsWith('{name}') "
        "&& window.htmx"
    )


def counted(tab: Browser) -> dict[str, str]:
    """Wait until the split is counted, and return the counts of the first strategy."""
    tab.wait_for("document.querySelector('[data-strategy] [data-count=n_elm]')")
    script = "Object.fromEntries([...document.querySelector('[data-strategy]').querySelectorAll('[data-count]')].map(one => [one.dataset.count, one.innerText]))"
    found: dict[str, str] = tab.run(script)
    return found


@pytest.mark.usefixtures("live")
def test_slider__updates_counts_and_weights_as_mask_stats(chem: Shards, tab: Browser) -> None:
    tab.run(f"{SLIDER}.value = '0.25'")
    tab.run(f"{SLIDER}.dispatchEvent(new Event('input', {{bubbles: true}}))")
    tab.set("s1.blm", "0.075")
    tab.wait_for(
        "location.search.includes('s1.elm=0.25') && location.search.includes('s1.blm=0.075')"
    )
    words = ("--strategy", "joint", "--elm", "0.25", "--blm", "0.075", "--json")
    expected = run("mask-stats", chem.folder, *words).json

    beside = counted(tab)
    show_view(tab, "strategy")
    seen = counted(tab)

    for shown, names in ((beside, ("n_elm", "n_blm", "w_elm")), (seen, COUNTS)):
        assert {name: shown[name] for name in names} == {
            name: written(expected[name]) for name in names
        }
    assert tab.run("document.getElementById('s1.elm').value") == "0.25"


@pytest.mark.usefixtures("live")
def test_slider__is_in_step_with_its_field(tab: Browser) -> None:
    for text, place in (("0,4", "0.4"), (".25", "0.25"), ("1", "1"), ("", "0.5")):
        tab.set("s1.elm", text)

        assert tab.run(f"{SLIDER}.value") == place
    tab.wait_for("location.search === '?s1=joint'")
    tab.set("s1.elm", ".25")
    tab.wait_for("location.search.includes('s1.elm=0.25')")


@pytest.mark.usefixtures("live")
def test_address__reproduces_the_page(tab: Browser) -> None:
    tab.set("s1.elm", "0.3")
    tab.wait_for("location.search.includes('s1.elm=0.3')")
    tab.set("s1.pool", "generic_only")
    tab.wait_for("location.search.includes('s1.pool=generic_only')")
    tab.set("seed", "7")
    tab.wait_for("location.search.includes('seed=7')")
    seen = counted(tab)
    show_view(tab, "take")

    tab.open(tab.run("location.href").replace("/take?", "/rows?"))
    tab.wait_for("document.querySelector('#counts [data-count=n_elm]')")

    assert counted(tab) == seen
    assert tab.run("document.getElementById('s1.pool').value") == "generic_only"


@pytest.mark.usefixtures("live")
def test_clips__note_and_map_lead_to_rates_without_clipping(chem: Shards, tab: Browser) -> None:
    tab.set("s1.blm", "0")
    tab.wait_for("document.querySelector('#counts .note')?.innerText.includes('both clips')")
    tab.run("document.querySelector('#counts .note a').click()")
    tab.wait_for("document.querySelectorAll('.heat td').length === 16")
    sweep = run("mask-stats", chem.folder, "--sweep", "--json").json["sweep"]
    cells = "[...document.querySelectorAll('.heat td')]"

    fires = tab.run(f"{cells}.map(cell => cell.classList.contains('sat'))")
    current = tab.run("document.querySelector('.heat td.now').className")
    tab.run("document.querySelectorAll('.heat td a')[2].click()")
    tab.wait_for("document.querySelector('#counts [data-count=n_elm]')")

    assert fires == [point["saturated"] for point in sweep]
    assert "sat" in current.split()
    assert counted(tab)["n_blm"] == written(sweep[2]["n_blm"])
    assert tab.run("document.querySelector('#counts .note')") is None


@pytest.mark.usefixtures("live")
def test_filters__and_strategies_change_the_rows_and_stay(tab: Browser) -> None:
    box = "document.querySelector('[value=no-mention]')"
    tab.run(f"{box}.click()")
    tab.wait_for("location.search.includes('only=no-mention')")
    tab.wait_for("document.querySelectorAll('main .m').length === 1")  # the legend's
    tab.set("s2", "span")
    tab.wait_for("document.getElementById('s2.rate')")
    names = "[...new Set([...document.querySelectorAll('.way b')].map(one => one.textContent))]"
    assert tab.run(names) == ["joint", "span"]
    assert tab.run("document.querySelectorAll('article mark.d').length") > 0

    # The fields of a strategy that is taken away are not sent.
    tab.set("s2", "")
    tab.wait_for("!document.getElementById('s2.rate')")
    assert tab.run("location.search") == "?s1=joint&only=no-mention"

    show_view(tab, "corpus")
    assert tab.run(f"{box}.checkVisibility()") is False
    show_view(tab, "rows")
    assert tab.run(f"{box}.checked && {box}.checkVisibility()") is True


@pytest.mark.usefixtures("live")
def test_split__begins_at_its_first_row(tab: Browser) -> None:
    tab.press("j")
    tab.wait_for("location.search.includes('row=50')")
    tab.set("split", "test")

    tab.wait_for("location.search === '?split=test&s1=joint'")
    tab.wait_for("document.getElementById('row0')")


@pytest.mark.usefixtures("live")
def test_keys__turn_pages_and_redraw_masks(tab: Browser) -> None:
    row = "document.querySelector('[name=row]').value"
    tab.press("j")
    tab.wait_for(f"location.search.includes('row=50') && {row} === '50'")
    tab.press("k")
    tab.wait_for(f"!location.search.includes('row=') && {row} === '0'")
    tab.press("s")
    tab.wait_for("location.search.includes('seed=1')")
    tab.press("e")
    tab.wait_for("location.search.includes('epoch=1')")

    tab.run("document.getElementById('doc').focus()")
    tab.press("s")
    assert tab.run("document.getElementById('seed').value") == "1"


@pytest.mark.usefixtures("live")
def test_wrong_value__keeps_the_view_and_says_so_at_its_field(tab: Browser) -> None:
    tab.set("s1.elm", "1.5")
    tab.wait_for("document.getElementById('s1.elm').ariaInvalid === 'true'")
    message = tab.text("#state .note[role=alert]")
    rows = tab.run("document.querySelectorAll('article.row').length")
    tab.set("s1.elm", "0,25")
    tab.wait_for("location.search.includes('s1.elm=0.25')")
    tab.wait_for("!document.querySelector('[aria-invalid], #state .note')")

    assert message == "elm: expected a rate from 0 to 1, such as 0.3, got 1.5"
    assert rows == 50
    # Browsers note each answer that is no success.
    assert len(tab.messages) == tab.messages[0].count("status of 422") == 1
    tab.messages.clear()


@pytest.mark.usefixtures("live")
def test_strategy__that_needs_a_file_keeps_the_rows(tab: Browser) -> None:
    tab.set("s1", "keywords")
    tab.wait_for("document.getElementById('s1.lexicon')")

    assert "vocab scores table" in tab.text("#problem")
    assert tab.run("document.querySelectorAll('article.row').length") == 50
    assert tab.run("document.getElementById('s1').ariaInvalid") == "true"


@pytest.mark.usefixtures("live")
def test_page__is_accessible_without_colour(tab: Browser) -> None:
    """Mentions, labels and masks are in the text, and masks have a mark besides their colour."""
    heard = "getComputedStyle(document.querySelector('article SELECTOR'), '::before').content"
    mention = tab.run(heard.replace("SELECTOR", "u.m"))
    mask = tab.run(heard.replace("SELECTOR", "mark.e"))
    line = tab.run("document.querySelector('article mark.e').closest('p').textContent")
    lines = tab.run(
        "[...document.querySelectorAll('mark.e, mark.b')].map(one => getComputedStyle(one).boxShadow !== 'none')"
    )
    unnamed = tab.run(
        "[...document.querySelectorAll('input:not([type=hidden]), select, textarea, button')].filter("
        "one => !(one.labels?.length || one.ariaLabel || one.innerText)).length"
    )

    assert ("mention" in mention, "masked term" in mask) == (True, True)
    assert "Chemical" in line
    assert all(lines)
    assert unnamed == 0


@pytest.mark.parametrize("width", [420, 1280])
def test_page__is_no_wider_than_the_window(live: Server, tab: Browser, width: int) -> None:
    for view in VIEWS:
        tab.open(at(live, view, "s1=joint&s2=span&s3=bert"), width=width, height=600)
        tab.wait_for("document.querySelector('#main h2')")
        assert tab.run("document.documentElement.scrollWidth") <= width, view

        # A table that is wider scrolls in its own frame, and so does the form.
        for table in ("scroll", "panel"):
            style = f"getComputedStyle(document.querySelector('.{table}'))"
            if tab.run(f"document.querySelector('.{table}') !== null"):
                assert "gradient" in tab.run(f"{style}.backgroundImage"), (view, table)
    if width > 900:
        bottom = tab.run("document.querySelector('.panel').getBoundingClientRect().bottom")
        assert bottom <= 600
        assert tab.run("document.querySelector('input[type=range]').offsetWidth") > 180


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("option", ["elm", "count"])
def test_help__has_the_width_of_its_field(tab: Browser, option: str) -> None:
    help_ = f"document.getElementById('s1.{option}-help')"
    tab.run(f"{help_}.closest('details').querySelector('summary').click()")

    wide = tab.run(f"{help_}.offsetWidth / {help_}.closest('.field').offsetWidth")

    assert wide == 1
    assert tab.run(f"{help_}.innerText.includes('`')") is False


def test_counts__of_a_long_job_come_later_in_their_place(
    chem: Shards, tab: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mslm_data.look.background._PATIENCE_S", 0)
    tab.leave()
    with served(Corpus(chem, live=True)) as server:
        tab.open(server.address)
        first = counted(tab)["n_elm"]
        tab.set("s1.elm", "0")
        tab.wait_for("document.querySelector('#counts [data-count=n_elm]')?.innerText === '0'")
        show_view(tab, "strategy")
        tab.set("seed", "3")
        tab.wait_for("location.search.includes('seed=3')")
        counted(tab)

        assert int(first) > 0
        # A view that asks again replaces its section, and adds nothing above it.
        assert tab.run("document.querySelectorAll('#main > *').length") == 2
    assert tab.messages == []


def test_end__stops_the_server_and_confirms(chem: Shards, tab: Browser) -> None:
    tab.leave()
    with served(Corpus(chem, live=True)) as server:
        tab.open(server.address)
        tab.run("document.querySelector('form[action=end] button').click()")

        tab.wait_for("document.querySelector('h1').innerText === 'Ended'")
        assert server._server.should_exit


def test_ended__a_change_after_the_servers_end_says_so(chem: Shards, tab: Browser) -> None:
    tab.leave()
    with served(Corpus(chem, live=True)) as server:
        tab.open(server.address)
        tab.wait_for("window.htmx && document.querySelector('#counts [data-count=n_elm]')")
    tab.set("s1.elm", "0.3")
    tab.wait_for("document.querySelector('#ended[role=alert]')")

    enabled = "document.querySelectorAll('#state :is(input, select, button):enabled').length"
    assert "The server has ended" in tab.text("#ended")
    assert tab.run(enabled) == 0
    tab.messages.clear()  # the refused connection


def test_page__runs_no_script_of_a_corpus(evil: Shards, tab: Browser) -> None:
    tab.leave()
    with served(Corpus(evil, live=True)) as server:
        for view in (*VIEWS, "rows"):
            tab.open(at(server, view))
            tab.wait_for("window.htmx && document.querySelector('#main h2')")
        host = urlsplit(server.address).netloc

        line = tab.text("article p")
        assert all(word in line for word in EVIL if word.isascii())
        assert {urlsplit(address).netloc for address in tab.requests} == {host}
        assert not [address for address in tab.requests if address.endswith("/end")]
        assert tab.messages == []
        assert tab.run("document.querySelectorAll('main :is(script, img, iframe)').length") == 0


def test_page__refuses_requests_of_another_origin(
    chem: Shards, tab: Browser, tmp_path: Path
) -> None:
    """A page of another origin that knows the address cannot send requests or embed the page."""
    with served(Corpus(chem, live=True)) as server:
        other = tmp_path / "other.html"
        other.write_text("<title>other</title>", encoding="utf-8")
        tab.open(other.as_uri())

        read = tab.run(f"fetch({json.dumps(server.address)}).then(() => 'read', () => 'refused')")
        end = f"fetch({json.dumps(at(server, 'end'))}, {{method: 'POST', mode: 'no-cors'}})"
        tab.run(f"{end}.then(() => 1, () => 0)")

        assert read == "refused"
        assert not server._server.should_exit
