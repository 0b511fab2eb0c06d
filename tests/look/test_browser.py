"""The live page in a real browser: actions of a user, and the resulting view."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mslm_data.api.loading import Shards
from mslm_data.look.corpus import Corpus
from mslm_data.look.server import Server
from tests.cli.running import run
from tests.look.serving import EVIL, served
from tests.support.browser import needs_chromium
from tests.support.driver import Browser, browser
from tests.support.waiting import wait_for

pytestmark = needs_chromium

COUNTS = (
    "n_elm", "n_blm", "w_elm_raw", "w_blm_raw", "w_elm_clipped", "w_blm_clipped", "w_elm", "w_blm", "sequences",
    "tokens", "maskable_tokens", "mentions", "mention_tokens", "masked_mentions", "rows_without_mask",
)  # fmt: skip


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
    tab.run(f"document.querySelector('nav a[hx-get={name}]').click()")
    tab.wait_for(
        f"document.querySelector('nav a[aria-current]').getAttribute('hx-get') === '{name}'"
    )


def counted(tab: Browser) -> dict[str, str]:
    """Wait until the split is counted, and return the counts of the first strategy."""
    tab.wait_for("document.querySelector('[data-strategy] [data-count=n_elm]')")
    script = "Object.fromEntries([...document.querySelector('[data-strategy]').querySelectorAll('[data-count]')].map(one => [one.dataset.count, one.innerText]))"
    found: dict[str, str] = tab.run(script)
    return found


@pytest.mark.usefixtures("live")
def test_slider__updates_counts_and_weights_as_mask_stats(chem: Shards, tab: Browser) -> None:
    tab.run("document.querySelector('[data-for=\"s1.elm\"]').value = '0.25'")
    tab.run(
        "document.querySelector('[data-for=\"s1.elm\"]').dispatchEvent(new Event('input', {bubbles: true}))"
    )
    tab.set("s1.blm", "0.075")
    tab.wait_for(
        "location.search.includes('s1.elm=0.25') && location.search.includes('s1.blm=0.075')"
    )
    expected = run(
        "mask-stats",
        chem.folder,
        "--strategy",
        "joint",
        "--elm",
        "0.25",
        "--blm",
        "0.075",
        "--json",
    ).json

    beside = counted(tab)
    show_view(tab, "strategy")
    seen = counted(tab)

    assert {name: beside[name] for name in ("n_elm", "n_blm", "w_elm")} == {
        name: written(expected[name]) for name in ("n_elm", "n_blm", "w_elm")
    }
    assert {name: seen[name] for name in COUNTS} == {
        name: written(expected[name]) for name in COUNTS
    }
    assert tab.run("document.getElementById('s1.elm').value") == "0.25"


@pytest.mark.usefixtures("live")
def test_take__command_and_address_reproduce_the_page(
    tab: Browser,
) -> None:
    tab.set("s1.elm", "0.3")
    tab.wait_for("location.search.includes('s1.elm=0.3')")
    tab.set("s1.pool", "generic_only")
    tab.wait_for("location.search.includes('s1.pool=generic_only')")
    tab.set("seed", "7")
    tab.wait_for("location.search.includes('seed=7')")
    seen = counted(tab)
    show_view(tab, "take")
    command = shlex.split(tab.run("document.getElementById('command1').value"))
    again = shlex.split(tab.run("document.getElementById('again').value"))

    done = run(*command[1:], "--json").json

    assert (written(done["n_elm"]), written(done["n_blm"])) == (seen["n_elm"], seen["n_blm"])
    assert again[-1].startswith("rows?")
    address = tab.run("location.href").replace("/take?", "/rows?")
    tab.open(address)
    tab.wait_for("document.querySelector('#counts [data-count=n_elm]')")
    assert counted(tab) == seen
    assert tab.run("document.getElementById('s1.pool').value") == "generic_only"


@pytest.mark.usefixtures("live")
def test_rates__a_cell_opens_the_rows_at_its_rates(chem: Shards, tab: Browser) -> None:
    show_view(tab, "rates")
    tab.wait_for("document.querySelectorAll('.heat td').length === 16")
    sweep = run("mask-stats", chem.folder, "--sweep", "--json").json["sweep"]

    fires = tab.run(
        "[...document.querySelectorAll('.heat td')].map(cell => cell.classList.contains('sat'))"
    )
    tab.run("document.querySelectorAll('.heat td a')[2].click()")
    tab.wait_for("document.querySelector('#counts [data-count=n_elm]')")

    assert fires == [point["saturated"] for point in sweep]
    assert counted(tab)["n_blm"] == written(sweep[2]["n_blm"])


@pytest.mark.usefixtures("live")
def test_clips__note_and_map_lead_to_rates_without_clipping(tab: Browser) -> None:
    tab.set("s1.blm", "0")
    tab.wait_for("document.querySelector('#counts .note')?.innerText.includes('both clips')")
    tab.run("document.querySelector('#counts .note a').click()")
    tab.wait_for("document.querySelectorAll('.heat td').length === 16")
    current = tab.run("document.querySelector('.heat td.now').className")
    tab.run("document.querySelector('.heat td:not(.sat) a').click()")
    tab.wait_for("document.querySelector('#counts [data-count=n_elm]')")

    assert "sat" in current.split()
    assert tab.run("document.querySelector('#counts .note')") is None


@pytest.mark.usefixtures("live")
def test_filters__and_strategies_change_the_rows(tab: Browser) -> None:
    tab.run("document.querySelector('[value=no-mention]').click()")
    tab.wait_for("location.search.includes('only=no-mention')")
    tab.wait_for("document.querySelectorAll('main .m').length === 1")  # the legend's
    tab.set("s2", "span")
    tab.wait_for("document.getElementById('s2.rate')")

    assert tab.run(
        "[...new Set([...document.querySelectorAll('.way b')].map(one => one.textContent))]"
    ) == ["joint", "span"]
    assert tab.run("document.querySelectorAll('article mark.d').length") > 0


@pytest.mark.usefixtures("live")
def test_keys__turn_pages_and_redraw_masks(tab: Browser) -> None:
    tab.press("j")
    tab.wait_for(
        "location.search.includes('row=50') && document.querySelector('[name=row]').value === '50'"
    )
    tab.press("k")
    tab.wait_for(
        "!location.search.includes('row=') && document.querySelector('[name=row]').value === '0'"
    )
    tab.press("s")
    tab.wait_for("location.search.includes('seed=1')")
    tab.press("e")
    tab.wait_for("location.search.includes('epoch=1')")

    tab.run("document.getElementById('doc').focus()")
    tab.press("s")
    assert tab.run("document.getElementById('seed').value") == "1"


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
@pytest.mark.parametrize("view", ["rows", "strategy", "rates", "take"])
def test_page__is_no_wider_than_the_window(
    live: Server, tab: Browser, width: int, view: str
) -> None:
    tab.open(
        live.address.replace("/rows?", f"/{view}?").replace("s1=joint", "s1=joint&s2=span&s3=bert"),
        width=width,
    )

    assert tab.run("document.documentElement.scrollWidth") <= width


@pytest.mark.usefixtures("live")
def test_end__stops_the_server_and_confirms(tab: Browser) -> None:
    tab.run("document.querySelector('[hx-post=end] button').click()")

    tab.wait_for("document.querySelector('h1').innerText === 'Ended'")
    tab.messages.clear()  # later requests of the page, such as its icon, have no answer


def test_page__runs_no_script_of_a_corpus(evil: Shards, tab: Browser) -> None:
    tab.leave()
    with served(Corpus(evil, live=True)) as server:
        for view in ("rows", "strategy", "rates", "take", "rows"):
            tab.open(server.address.replace("/rows?", f"/{view}?"))
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
        base = server.address.rpartition("/")[0]
        other = tmp_path / "other.html"
        other.write_text("<title>other</title>", encoding="utf-8")
        tab.open(other.as_uri())

        read = tab.run(f"fetch({json.dumps(server.address)}).then(() => 'read', () => 'refused')")
        tab.run(
            f"fetch({json.dumps(base + '/end')}, {{method: 'POST', mode: 'no-cors'}}).then(() => 1, () => 0)"
        )

        assert read == "refused"
        assert not server._server.should_exit


def test_counts__show_progress_and_are_cancelled_by_the_next_change(
    chem: Shards, tab: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mslm_data.look.counts._QUICK_ROWS", 0)
    corpus = Corpus(chem, live=True)
    with served(corpus) as server:
        tab.open(server.address)
        tab.wait_for("document.querySelector('#counts [data-count=n_elm]')")
        first = counted(tab)
        tab.set("s1.elm", "0")
        tab.wait_for("document.querySelector('#counts [data-count=n_elm]')?.innerText === '0'")

        assert first["n_elm"] == "81"
        wait_for(lambda: all(job.is_ready for job in corpus.jobs._jobs.values()))

        # A view that asks again replaces its section, and adds nothing above it.
        show_view(tab, "strategy")
        tab.set("seed", "3")
        tab.wait_for("location.search.includes('seed=3')")
        counted(tab)
        assert tab.run("document.querySelectorAll('#main > *').length") == 2


def test_ended__a_change_after_the_servers_end_says_so(chem: Shards, tab: Browser) -> None:
    tab.leave()
    with served(Corpus(chem, live=True)) as server:
        tab.open(server.address)
        tab.wait_for("window.htmx && document.querySelector('#counts [data-count=n_elm]')")
    tab.set("s1.elm", "0.3")
    tab.wait_for("document.querySelector('#ended[role=alert]')")

    enabled = tab.run(
        "document.querySelectorAll('#state :is(input, select, button):enabled').length"
    )
    assert "The server has ended" in tab.text("#ended")
    assert enabled == 0
    tab.messages.clear()  # the refused connection


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("option", ["elm", "count"])
def test_help__has_the_width_of_its_field(tab: Browser, option: str) -> None:
    help_ = f"document.getElementById('s1.{option}-help')"
    tab.run(f"{help_}.closest('details').querySelector('summary').click()")

    wide = tab.run(f"{help_}.offsetWidth / {help_}.closest('.field').offsetWidth")

    assert wide == 1
    assert tab.run(f"{help_}.innerText.includes('`')") is False


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
    assert rows > 0


@pytest.mark.usefixtures("live")
def test_panel__hides_filters_beside_other_views_and_keeps_them(tab: Browser) -> None:
    tab.run("document.querySelector('[value=no-mention]').click()")
    tab.wait_for("location.search.includes('only=no-mention')")
    seen = "document.querySelector('[value=no-mention]').checkVisibility()"
    beside_rows = tab.run(seen)
    show_view(tab, "batches")
    beside_batches = tab.run(seen)
    show_view(tab, "rows")

    assert (beside_rows, beside_batches) == (True, False)
    assert tab.run("document.querySelector('[value=no-mention]').checked") is True


def test_panel__is_wholly_in_the_window_with_wide_sliders(live: Server, tab: Browser) -> None:
    tab.open(live.address, width=1280, height=600)

    bottom = tab.run("document.querySelector('.panel').getBoundingClientRect().bottom")
    scrolls = tab.run(
        "(panel => panel.scrollHeight > panel.clientHeight)(document.querySelector('.panel'))"
    )
    assert (bottom <= 600, scrolls) == (True, True)
    assert tab.run("document.querySelector('input[type=range]').offsetWidth") > 180


def test_tables__are_cut_on_no_side(live: Server, tab: Browser) -> None:
    """The table of batches fits 1,280 pixels; on a phone a table scrolls in its own frame."""
    tab.open(live.address.replace("/rows?", "/batches?"), width=1280)
    tab.wait_for("document.querySelector('.scroll td code')")
    wide = tab.run("(one => one.scrollWidth - one.clientWidth)(document.querySelector('.scroll'))")
    tab.open(live.address, width=420)
    tab.wait_for("document.querySelector('#counts .scroll')")
    table = "document.querySelector('#counts .scroll')"
    cut = tab.run(f"{table}.scrollWidth > {table}.clientWidth")

    assert (wide, cut) == (0, True)
    assert tab.run(f"getComputedStyle({table}).overflowX") == "auto"
    assert "gradient" in tab.run(f"getComputedStyle({table}).backgroundImage")
