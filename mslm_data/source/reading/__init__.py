"""Parts that formats share: files, rows, tags, offsets, marks and windows."""
