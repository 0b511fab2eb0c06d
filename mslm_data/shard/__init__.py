"""Built folders: `Examples` in Arrow files, with a manifest. FORMAT.md is the specification."""
