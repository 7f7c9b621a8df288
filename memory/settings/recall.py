"""The settings of recall.

Where no source is named, the defaults were measured on the first halves of LoCoMo, REALTALK and BEAM. The optimum is
flat: in the neighbourhood of its default, no setting is worth more than a point.
"""

from typing import Annotated

from pydantic import Field

from layerlore.memory.settings.section import Characters, Section, Unit


class RecallRules(Section):
    """How recall_memory finds candidates, ranks them, and holds back what is not relevant. The defaults were measured,
    and the ranking changes little around them."""

    candidates: int = Field(
        default=30, ge=1, le=500, description="How many are ranked of each list: by words, and by vectors."
    )
    rescored: int = Field(
        default=200,
        ge=1,
        le=5000,
        description="How many of the rows with the nearest bit codes are compared in full: several times `candidates` "
        "make up for what the bits lose.",
    )
    rows_per_word: int = Field(
        default=20_000,
        ge=1,
        le=1_000_000,
        description="A word that more rows have says little: only its newest rows are searched.",
    )
    context_chars: Characters = Field(
        default=320, ge=0, description="Longest message that is given a context, and longest message in a context."
    )
    half_life_days: Annotated[float, Unit("days")] = Field(
        default=180.0, gt=0, description="Age at which an entry counts half."
    )
    recency_floor: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="What an old entry counts at least, so that an exact one stays ahead of new noise.",
    )
    floor: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description='An answer of less relevance (0 to 1) than this is held back: "nothing relevant". 0: nothing '
        "is, and all is sure. In a store of fewer than 12 rows it is less.",
    )
    sure: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Relevance from which on an answer is surely about the query. Below it the nearest are shown, few, as "
        '"not sure".',
    )
    lexical_floor: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="The `floor` where words alone decide: without an embedder, or with one that nobody has calibrated.",
    )
    lexical_sure: float = Field(default=0.25, ge=0, le=1, description="The bound `sure` where words alone decide.")
    unsure_hits: int = Field(
        default=5, ge=1, le=50, description="How many hits an answer has at most that is not sure."
    )
    tail: float = Field(
        default=0.0005,
        ge=0,
        le=1,
        description="A hit that holds the answer with less than this share of the best one's likelihood is held back. 0: none.",
    )

    def for_limit(self, limit: int) -> "RecallRules":
        """These rules with at least as many candidates as hits are asked for."""
        if limit <= self.candidates:
            return self
        return self.model_copy(update={"candidates": limit, "rescored": max(self.rescored, limit)})
