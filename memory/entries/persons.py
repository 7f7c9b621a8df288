"""Whether a note is about the user, whatever project it came up in."""

from layerlore.memory.parts.search_words import split_words
from layerlore.storage.core import linear_re

USER = linear_re.compile(
    r"users?|benutzer\w*|nutzer\w*|utilisat\w*|usuari\w*|utente|gebruiker|uzytkown\w*|kullanici\w*|пользовател\w*|用户"
)
"""The words for the user, folded."""
_OF_MYSELF = linear_re.compile(
    r"^\W*(?:i|i['’][^\W\d_]+|my|ich|mein\w*|je|j['’][^\W\d_]+|mon|ma|mes|yo|mi|mis|io|mio|mia|eu|meu|minha|ik|mijn|я|мо[йяеи])\b",
    linear_re.IGNORECASE,
)
_THIS_PROJECT = linear_re.compile(
    r"\b(?:this|these|our) (?:projects?|repo(?:sitor(?:y|ies))?s?|code ?base|code|branch|package|service|app|module)\b"
    r"|\b(?:dies\w*|unser\w*|ce|notre|est[ae]|nuestr[oa]) (?:projekt\w*|repo\w*|projet|dépôt|proyecto|código)\b",
    linear_re.IGNORECASE,
)


def tells_of_user(content: str, kind: str = "") -> bool:
    """Whether a note to keep is about the user, whatever project it came up in: what the user prefers, or what it says of
    the user or in the first person. What a decision is about, or this project, is the project's."""
    if kind == "decision" or _THIS_PROJECT.search(content):
        return False
    return kind == "preference" or bool(
        _OF_MYSELF.search(content) or any(USER.fullmatch(word) for word in split_words(content)[:3])
    )
