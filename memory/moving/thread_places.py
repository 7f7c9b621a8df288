"""Where the messages of a moved thread are now: mostly where they were."""

from layerlore.storage.moving.moved_messages import MessagePut


class ThreadPlaces:
    """By the seq that a message had, where it is. Only what is elsewhere is written down. ``same_uid``: the thread has the
    uid that it had."""

    def __init__(self, uid: str, same_uid: bool) -> None:
        self.uid = uid
        self.same_uid = same_uid
        self.same = True
        self._elsewhere: dict[int, tuple[int, int] | None] = {}
        self._texts: set[int] = set()

    def put(self, seq: int, revision: int, put: MessagePut, changed: bool) -> None:
        """Note where a message is. ``changed``: its text is another, so that no place in it is where it was."""
        if put.seq != seq or put.revision != revision:
            self._elsewhere[seq] = (put.seq, put.revision)
        if changed or put.status == "kept":
            self._texts.add(seq)
        if put.seq != seq or put.status == "kept":
            self.same = False

    def lose(self, seq: int) -> None:
        """Note that a message is not here."""
        self._elsewhere[seq] = None
        self.same = False

    def find(self, seq: int, revision: int | None = None) -> tuple[int, int] | None:
        """The seq and the revision of a message; None if it is not here, or not with the text of that revision."""
        if revision is not None and seq in self._texts:
            return None
        return self._elsewhere.get(seq, (seq, revision or 1))

    def find_run(self, first: int, last: int) -> tuple[int, int] | None:
        """The shortest run that has all messages of a run; None if none of them is here."""
        moved = {seq: place for seq, place in self._elsewhere.items() if first <= seq <= last}
        seqs = [place[0] for place in moved.values() if place is not None]
        while first in moved:
            first += 1
        while last in moved:
            last -= 1
        seqs += [first, last] if first <= last else []
        return (min(seqs), max(seqs)) if seqs else None
