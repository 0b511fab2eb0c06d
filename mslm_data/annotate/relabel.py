"""Renames labels of mentions, and leaves out unwanted labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mslm_data.data.documents import Mentions
from mslm_data.data.reason import Reason

UNWANTED = Reason("label not wanted", is_rule=True)
"""Reason for mentions left out by `relabel`."""


def relabel(
    mentions: Mentions, *, rename: Mapping[str, str], labels: Sequence[str]
) -> tuple[Mentions, Counter[Reason]]:
    """Rename labels, and leave out mentions with other labels.

    Args:
        mentions: Mentions of any documents.
        rename: Old label -> new label. Other labels are unchanged.
        labels: Labels to keep, after renaming; empty for all.

    Returns:
        The kept mentions, in order, and reason -> number of mentions left out.
    """
    # Several old labels may have the same new name.
    if any(name in rename for name in mentions.names):
        renamed = [rename.get(name, name) for name in mentions.names]
        names = list(dict.fromkeys(renamed))
        numbers = np.array([names.index(name) for name in renamed], np.int64)
        mentions = replace(mentions, names=names, labels=numbers[mentions.labels])

    if not labels or all(name in labels for name in mentions.names):
        return mentions, Counter()

    wanted = np.array([name in labels for name in mentions.names], np.bool_)
    kept = np.flatnonzero(wanted[mentions.labels])
    num_left_out = len(mentions) - len(kept)
    if not num_left_out:
        return mentions, Counter()
    return mentions.choose(kept), Counter({UNWANTED: num_left_out})
