"""The conversations that ``layerlore demo`` remembers, and what it asks about them."""

import secrets
from dataclasses import dataclass

Conversation = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Story:
    """Two conversations by their threads, a question they answer, one whose answer has none of its words, one they do
    not answer, and the thread that is read back."""

    conversations: dict[str, Conversation]
    question: str
    in_other_words: str
    unanswered: str
    read_back: str


def story() -> Story:
    """The story, with a new token in it that looks real and opens nothing."""
    token = f"ghp_{secrets.token_hex(18)}"
    return Story(
        conversations={
            "birthday": [
                _user("Mira turns 7 on Saturday. Submarine cake! She is allergic to nuts."),
                _assistant("A yellow one: lemon sponge, chocolate portholes, not one nut."),
                _user("Grandma Ilse bakes it. She needs the recipe by Thursday."),
                _assistant("It goes out on Wednesday, with a drawing of the periscope."),
            ],
            "home-server": [
                _user(f"Our home server is called Nautilus. Its deploy token is {token}"),
                _assistant("Noted. I will use the token and repeat it to nobody."),
                _user("Its backups stutter through film night. Can they move?"),
                _assistant("Done: they run at 03:00 now, when only the cat is watching."),
            ],
        },
        question="What is Mira allergic to?",
        in_other_words="Who prepares our party dessert?",
        unanswered="Where did I park the bicycle?",
        read_back="home-server",
    )


def _user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def _assistant(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}
