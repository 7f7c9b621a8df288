"""The settings of recall.

Where no source is named, the defaults were measured on the first halves of LoCoMo, REALTALK and BEAM. The optimum is
flat: in the neighbourhood of its default, no setting is worth more than a point.
"""

from typing import Annotated

from pydantic import Field

from layerlore.memory.settings.section import Characters, Section, Unit


class RecallRules(Section):
    """How recall_memory finds candidates, ranks them and marks unsure answers. The defaults were measured, and the
    ranking changes little around them."""

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
        default=0.0,
        ge=0,
        le=1,
        description="Hold back every answer of less relevance (0 to 1) than this. 0 holds nothing back: an answer that "
        "may not be about the query says so, and the model decides.",
    )
    sure: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description='Relevance from which on an answer counts as surely about the query. Below it the answer says "not '
        'sure".',
    )
    lexical_sure: float = Field(
        default=0.25,
        ge=0,
        le=1,
        description="The bound `sure` where words alone decide: without an embedder, or with one that has no calibration.",
    )

    def for_limit(self, limit: int) -> "RecallRules":
        """These rules with at least as many candidates as hits are asked for."""
        if limit <= self.candidates:
            return self
        return self.model_copy(update={"candidates": limit, "rescored": max(self.rescored, limit)})
