"""What a host writes into a user's message around the user's own words, each host with tags of its own.

What stands in such a tag may be a file, a terminal's output or a selection, so that it can hold any text, the tag's own
end included. A tag therefore reaches from its first beginning to its last end in the text. It is better that a word of
the user's is not kept than that a word of a file is kept as the user's.
"""

from dataclasses import dataclass

from layerlore.storage.core import linear_re

_TAG = linear_re.compile(r"<(/?)([A-Za-z][A-Za-z_-]{0,39})(?:\s[^<>]{0,120})?>")


@dataclass(frozen=True, slots=True)
class HostTags:
    """``added``: tags with what the host adds. ``around``: tags around words that the user typed. ``request``: the tag that
    holds all that the user typed, as far as the text has one. ``beginnings``: what a text of the host begins with."""

    added: frozenset[str] = frozenset()
    around: frozenset[str] = frozenset()
    request: str = ""
    beginnings: tuple[str, ...] = ()

    def find_users_words(self, text: str) -> str:
        """What the user typed of a text; "" where that is nothing."""
        if text.lstrip().startswith(self.beginnings):
            return ""
        if "<" in text:
            text = self._strip_added(text)
        if self.request:
            text = _find_last_element(text, self.request)
        return text.strip()

    def _strip_added(self, text: str) -> str:
        tags = list(_TAG.finditer(text))
        last_ends = {tag[2]: tag.end() for tag in tags if tag[1]}
        kept: list[str] = []
        at = 0
        for tag in tags:
            name = tag[2]
            if tag.start() < at:
                continue
            if name in self.around:
                kept.append(text[at : tag.start()])
                at = tag.end()
            elif name in self.added and not tag[1]:
                end = last_ends.get(name, 0)
                if end > tag.end():
                    kept.append(text[at : tag.start()])
                    at = end
                elif not "".join([*kept, text[at : tag.start()]]).strip():
                    return ""  # the host began it, and its end was cut off
        return "".join([*kept, text[at:]])


def _find_last_element(text: str, name: str) -> str:
    """What stands in the last element of that name; the whole text where there is none. Elements before it are in what the
    host added."""
    tags = [tag for tag in _TAG.finditer(text) if tag[2] == name]
    ends = [number for number, tag in enumerate(tags) if tag[1]]
    if not ends:
        return text
    depth = 0
    for tag in reversed(tags[: ends[-1] + 1]):
        depth += 1 if tag[1] else -1
        if depth == 0:
            return text[tag.end() : tags[ends[-1]].start()]
    return text
