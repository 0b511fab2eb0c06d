"""Settings of the manual, which `make docs` builds. References are made from the code itself."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from _site import contents, links, references
from sphinx.application import Sphinx

from mslm_data import __version__

project = "mslm-data"
version = release = __version__
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
]
exclude_patterns = ["_site", "_static", "notebooks"]
nitpicky = False
smartquotes = False  # two dashes of an option stay two
default_role = "code"  # docstrings name code in single backticks

myst_enable_extensions = ["deflist", "fieldlist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"
copybutton_here_doc_delimiter = "EOF"

html_theme = "furo"
html_title = f"mslm-data {version}"
html_static_path = ["_static", "../mslm_data/draw/look"]
html_css_files = ["look.css", "site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False


def setup(app: Sphinx) -> None:
    """Write references before pages are read; make navigation, links and drawings."""
    app.connect("builder-inited", lambda app: references.write(Path(app.srcdir)))
    app.connect("source-read", contents.rewrite_page)
    app.connect("source-read", links.rewrite_page)
    app.connect("sphinx-click-process-description", references.show_examples_as_code)
    app.connect("sphinx-click-process-arguments", references.leave_out_nameless)
