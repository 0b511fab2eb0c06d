"""A slow twin of `mslm_data.torch.predict.text_windows`: whole lists, searched through."""

from __future__ import annotations

Mention = tuple[int, int, int]


def windows(sizes: list[int], room: int) -> list[tuple[int, int]]:
    """Cut words of these tokens: each window takes words while they fit."""
    found = []
    start = 0
    while True:
        end = start
        while end < len(sizes) and sum(sizes[start : end + 1]) <= room:
            end += 1
        found.append((start, end))
        if end == len(sizes):
            return found
        # The next one takes words back from the end while they have a quarter of a window at most.
        start = end
        while sum(sizes[start - 1 : end]) <= room // 4:
            start -= 1


def owners(sizes: list[int], of_text: list[tuple[int, int]]) -> list[int]:
    """Return the window whose word each word is."""
    owner = [0] * len(sizes)
    for number in range(1, len(of_text)):
        begin, end = of_text[number][0], of_text[number - 1][1]
        places = list(range(begin, end))

        def distance(place: int, begin: int = begin, end: int = end) -> int:
            return abs(sum(sizes[begin:place]) - sum(sizes[place:end]))

        seam = min(places, key=distance) if places else begin
        for word in range(seam, len(sizes)):
            owner[word] = number
    return owner


def joined(
    sizes: list[int], of_text: list[tuple[int, int]], found: list[list[Mention]]
) -> list[Mention]:
    """Return the mentions of a text: for each word that of its window, and these in a row."""
    owner = owners(sizes, of_text)
    of_word = [
        next(((number, m) for m in found[number] if m[0] <= word < m[1]), None)
        for word, number in enumerate(owner)
    ]
    mentions: list[Mention] = []
    for word, has in enumerate(of_word):
        if has is None:
            continue
        _, (start, _, label) = has
        before = of_word[word - 1] if word else None
        goes_on = before is not None and start < word and before[1][2] == label
        if goes_on:
            mentions[-1] = (mentions[-1][0], word + 1, label)
        else:
            mentions.append((word, word + 1, label))
    return mentions
