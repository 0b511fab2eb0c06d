"""Make the screenshot of `mslm-data look` in the README: `python -m docs._site.look_picture`.

It shows the shipped sample in a local Chromium. Run it again when the page has changed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import mslm_data as md
from mslm_data.look.corpus import Corpus
from mslm_data.look.state import Choice, State
from tests.look.serving import served
from tests.support.driver import browser

PICTURE = Path(__file__).parents[1] / "_static" / "look.png"


def make() -> None:
    """Write the screenshot."""
    with tempfile.TemporaryDirectory(prefix="mslm-look-") as folder:
        shards = md.build(
            "blurb/bc5cdr-chem", sample=True, out=Path(folder) / "shards" / "chem", workers=1
        )
        choices = (Choice("joint"), Choice("span"))
        state = State(row=36, strategies=choices)
        with (
            served(Corpus(shards, live=True), state) as server,
            browser(Path(folder) / "chromium") as tab,
        ):
            tab.open(server.address, width=1200, height=760)
            tab.wait_for("window.htmx && document.querySelector('#counts [data-count=n_elm]')")
            tab.screenshot(PICTURE)


if __name__ == "__main__":
    make()
