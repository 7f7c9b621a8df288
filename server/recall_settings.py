"""The constants of recall: what each does stands with its default in ``memory/recall_rules.py``."""

from pydantic import Field

from layerlore.server.settings_section import Section


class RecallSettings(Section):
    """How recall finds candidates, weighs them, and holds back what is not relevant."""

    candidates: int = Field(default=30, ge=1, le=500, description="Ranked of each list: by words, and by vectors.")
    rescored: int = Field(default=200, ge=1, le=5000, description="Nearest by bit code that are compared in full.")
    rows_per_word: int = Field(default=20_000, ge=1, le=1_000_000, description="The newest rows of a common word.")
    lexical_share: float = Field(default=0.5, ge=0, le=1, description="Share of the query the best match counts as.")
    context_weight: float = Field(default=0.5, ge=0, le=1, description="A word that only the messages around have.")
    context_chars: int = Field(default=320, ge=0, description="Longest message with a context, or in one.")
    speaker_weight: float = Field(default=0.4, ge=0, le=10, description="Said by the one speaker the query names.")
    user_weight: float = Field(default=0.3, ge=0, le=10, description="Said by the user of an assistant.")
    session_weight: float = Field(default=0.3, ge=0, lt=1, description="Share of the best score in the session.")
    half_life_days: float = Field(default=180.0, gt=0, description="Age at which an entry counts half.")
    recency_floor: float = Field(default=0.5, ge=0, le=1, description="What an old entry counts at least.")
    floor: float = Field(default=0.25, ge=0, le=1, description="Relevance below which nothing is answered; 0: never.")
    lexical_floor: float = Field(default=0.2, ge=0, le=1, description="The same where words alone decide.")
    tail: float = Field(default=0.4, ge=0, le=1, description="Share of the best score below which hits are held back.")
