"""Maps the source's labels to the pipeline's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mslm_data.data.documents import Mentions
from mslm_data.data.reason import Reason

UNWANTED = Reason("label not wanted", is_rule=True)
"""Reason for which mentions are left out here."""


def relabel(
    mentions: Mentions, *, rename: Mapping[str, str], labels: Sequence[str]
) -> tuple[Mentions, Counter[Reason]]:
    """Rename labels, and drop mentions of other labels.

    Args:
        mentions: Those of any documents.
        rename: The source's label -> ours; a label that is not here stays.
        labels: Wanted labels, after renaming; empty for all.

    Returns:
        The mentions kept, in order, and reason -> number of those not kept.
    """
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
