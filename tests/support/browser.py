"""Inspect pages in a headless Chromium, if one is installed."""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.driver import CHROMIUM

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

_PATIENCE_S = 300
_LOOK = """<!doctype html><meta charset="utf-8"><body><script>
const look = (document, window) => {LOOK};
const pages = PAGES, seen = {};
const next = () => {
  const page = pages.shift();
  if (page === undefined) {
    const said = document.createElement("pre");
    said.id = "seen";
    said.textContent = JSON.stringify(seen);
    document.body.replaceChildren(said);
    return;
  }
  const frame = document.createElement("iframe");
  frame.style = "border: 0; width: WIDTHpx; height: 900px";
  frame.onload = () => setTimeout(() => {
    seen[page] = look(frame.contentDocument, frame.contentWindow);
    frame.remove();
    next();
  }, WAIT);
  frame.src = page;
  document.body.append(frame);
};
next();
</script>"""


def seen_on(
    folder: Path, pages: Sequence[str], *, look: str, width: int, wait_ms: int = 50
) -> Mapping[str, Any]:
    """Run JavaScript on pages, and return page -> result.

    All pages are loaded in turn into a frame of `probe.html`, so the browser starts only once.

    Args:
        folder: Folder of the pages, in which `probe.html` is written.
        pages: Paths in the folder, optionally with a query.
        look: Body of a JavaScript function of `document` and `window`.
        width: Width of the frame in pixels.
        wait_ms: Time in ms between the load of a page and the call. Default: 50.
    """
    script = _LOOK.replace("{LOOK}", f"{{{look}}}").replace("PAGES", json.dumps(list(pages)))
    script = script.replace("WIDTH", str(width)).replace("WAIT", str(wait_ms))
    (folder / "probe.html").write_text(script, encoding="utf-8")
    dom = _chromium(
        "--allow-file-access-from-files", "--dump-dom", (folder / "probe.html").as_uri(),
        profile=folder.parent / "chromium",
    )  # fmt: skip
    result = re.search(r'<pre id="seen">(.*?)</pre>', dom, re.DOTALL)
    assert result is not None, "the browser did not come to the last page"
    return json.loads(html.unescape(result[1]))


def _chromium(*words: str, profile: Path) -> str:
    assert CHROMIUM is not None
    fixed = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=600000")
    done = subprocess.run(
        [CHROMIUM, *fixed, f"--user-data-dir={profile}", *words],
        capture_output=True, text=True, check=True, timeout=_PATIENCE_S,
    )  # fmt: skip
    return done.stdout
