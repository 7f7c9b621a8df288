"""Whether a note is about the user, whatever project it came up in."""

import regex

from layerlore.memory.parts.search_words import split_words

USER = regex.compile(
    r"users?|benutzer\w*|nutzer\w*|utilisat\w*|usuari\w*|utente|gebruiker|uzytkown\w*|kullanici\w*|пользовател\w*|用户"
)
"""The words for the user, folded."""
_OF_MYSELF = regex.compile(
    r"^\W*(?:i|i['’]\p{L}+|my|ich|mein\w*|je|j['’]\p{L}+|mon|ma|mes|yo|mi|mis|io|mio|mia|eu|meu|minha|ik|mijn|я|мо[йяеи])\b",
    regex.IGNORECASE,
)
_THIS_PROJECT = regex.compile(
    r"\b(?:this|these|our) (?:projects?|repo(?:sitor(?:y|ies))?s?|code ?base|code|branch|package|service|app|module)\b"
    r"|\b(?:dies\w*|unser\w*|ce|notre|est[ae]|nuestr[oa]) (?:projekt\w*|repo\w*|projet|dépôt|proyecto|código)\b",
    regex.IGNORECASE,
)


def tells_of_user(content: str, kind: str = "") -> bool:
    """Whether a note to keep is about the user, whatever project it came up in: what the user prefers, or what it says of
    the user or in the first person. What a decision is about, or this project, is the project's."""
    if kind == "decision" or _THIS_PROJECT.search(content):
        return False
    return kind == "preference" or bool(
        _OF_MYSELF.search(content) or any(USER.fullmatch(word) for word in split_words(content)[:3])
    )
