"""The constants of recall: each is a setting. Where no source is named, they were measured on the first halves of
LoCoMo, REALTALK and BEAM; the optimum is flat, and none of them is worth more than a point in its neighbourhood."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class RecallRules:
    """How candidates are found, weighed, and held back."""

    candidates: int = 30
    """How many of each list, words and vectors, are ranked; with more, recall@10 is no better."""
    rescored: int = 200
    """Of the rows with the nearest bit codes, how many are compared in full: several times ``candidates`` make up for
    what the bits lose."""
    rows_per_word: int = 20_000
    """A word that more rows have says little: the newest of them serve."""
    lexical_share: float = 0.5
    """The lexical score is a share of the best candidate's, which counts as having at least this share of what was
    asked: where all that was found is a stray word, meaning decides."""
    context_weight: float = 0.5
    """What a word weighs that only the messages around a short one have."""
    context_chars: int = 320
    """How long a message with a context, and one that is a context, may be, in characters."""
    speaker_weight: float = 0.4
    """For what was said by the one known speaker whom the query names."""
    user_weight: float = 0.3
    """For what the user said, in threads of a user and an assistant; and for entries."""
    session_weight: float = 0.3
    """The share that each message gets of the best score in its session."""
    half_life_days: float = 180.0
    """Entries: the age at which one counts half (seed 004)."""
    recency_floor: float = 0.5
    """Entries: what an old one counts at least, so that an old but exact one stays ahead of new noise."""
    floor: float = 0.25
    """Hits of a query that is less relevant than this are held back; 0: none are."""
    lexical_floor: float = 0.2
    """The same where no vectors, or vectors of a model without a calibration, serve."""
    tail: float = 0.4
    """Hits that score less than this share of the best are held back: it costs no recall@10 or @20, more does."""

    def for_limit(self, limit: int) -> "RecallRules":
        """The same, with at least as many candidates as hits are asked for."""
        if limit <= self.candidates:
            return self
        return replace(self, candidates=limit, rescored=max(self.rescored, limit))
