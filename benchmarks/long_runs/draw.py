"""Chance, by a seed: names, numbers and ids as they stand in real work, and sentences with such values in them."""

import random
import re
import string
from collections.abc import Callable, Sequence
from typing import TypeVar

_T = TypeVar("_T")
_SLOT = re.compile(r"\{([a-z_]+?)(\d?)\}")
_TELLING = re.compile(r"\[([^\[\]]+)\]")

_FIRST_NAMES = (
    *("Amara", "Bastian", "Chiara", "Dmitri", "Elif", "Farid", "Greta", "Hassan", "Ines", "Jakub", "Kirsten", "Liam"),
    *("Marta", "Nikhil", "Oona", "Paulo", "Quentin", "Rosa", "Sven", "Tomoko", "Ulrike", "Viktor", "Wanda", "Yusuf"),
)
_LAST_NAMES = (
    *("Abernathy", "Brandstetter", "Castellano", "Dvorak", "Eriksen", "Fontaine", "Gruber", "Hidalgo", "Ivanova"),
    *("Jankowski", "Kessler", "Lindqvist", "Moreau", "Novak", "Okafor", "Pettersson", "Quiroga", "Rahimi", "Schuster"),
)
_CITIES = (
    *("Aarhus", "Bergen", "Cardiff", "Dresden", "Eindhoven", "Florence", "Ghent", "Innsbruck", "Krakow", "Lyon"),
    *("Malmö", "Nantes", "Ostrava", "Porto", "Rotterdam", "Salzburg", "Tallinn", "Utrecht", "Valencia", "Winterthur"),
)
_STREETS = (
    *("Ahornweg", "Birkenallee", "Church Lane", "Dorfstraße", "Elm Road", "Fischergasse", "Gartenweg", "Harbour St"),
    *("Kings Avenue", "Lindenstraße", "Mill Lane", "Nordring", "Orchard Close", "Parkgasse", "Rue Lepic", "Via Roma"),
)
_TEAMS = (
    "atlas",
    "borealis",
    "cobalt",
    "delta",
    "ember",
    "falcon",
    "granite",
    "harbor",
    "indigo",
    "juniper",
    "kestrel",
)
_TOPICS = (
    "billing",
    "search",
    "checkout",
    "ledger",
    "catalog",
    "invoicing",
    "shipping",
    "signup",
    "pricing",
    "reports",
)
_WORDS = (
    *("alpha", "anchor", "basket", "beacon", "bridge", "buffer", "cargo", "cedar", "cluster", "column", "copper"),
    *("delta", "docket", "engine", "export", "feeder", "filter", "galley", "gateway", "hinge", "import", "island"),
    *("kernel", "ladder", "lantern", "ledger", "marble", "meadow", "mirror", "module", "needle", "oyster", "packet"),
    *("parser", "pebble", "planner", "quarry", "record", "render", "ribbon", "router", "saddle", "sample", "shader"),
    *("signal", "socket", "sorter", "spiral", "stream", "tally", "tenant", "thread", "timber", "token", "valley"),
    *("vector", "volume", "walker", "widget", "window", "worker", "zephyr"),
)
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
_ITEMS = (
    *("desk lamp", "rain jacket", "espresso grinder", "office chair", "hiking boots", "water filter", "baby monitor"),
    *("bike helmet", "bookshelf", "cast iron pan", "garden hose", "wool blanket", "standing desk", "tent", "toaster"),
)
_COLOURS = ("navy", "olive", "burgundy", "charcoal", "mustard", "teal", "ivory", "terracotta", "graphite", "mint")


class Draw:
    """The same seed draws the same. No value is drawn twice, so that each is seen only where it stands."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self._seen: set[str] = set()
        self._of: dict[str, Callable[[], str]] = {
            "amount": lambda: f"{self.number(1_100, 98_000):,}",
            "branch": lambda: f"{self.one(('feature', 'fix', 'release', 'chore'))}/{self.words(2, '-')}",
            "channel": lambda: f"#{self.one(_TOPICS)}-{self.words(1)}",
            "city": lambda: self.one(_CITIES),
            "class": lambda: "".join(word.title() for word in self.words(2).split()),
            "colour": lambda: self.one(_COLOURS),
            "commit": lambda: self.letters(8, "0123456789abcdef"),
            "day": lambda: f"{self.number(2, 28)} {self.one(_MONTHS)}",
            "deploy": lambda: f"dep-{self.letters(7)}",
            "email": lambda: f"{self.words(1)}.{self.one(_LAST_NAMES).lower()}@{self.words(1)}.example",
            "file": lambda: f"src/{self.words(2, '/')}_{self.words(1)}.py",
            "first": lambda: self.one(_FIRST_NAMES),
            "function": lambda: f"{self.one(('load', 'merge', 'parse', 'emit', 'fold', 'sync'))}_{self.words(2, '_')}",
            "host": lambda: f"{self.words(1)}-{self.one(('db', 'web', 'mq', 'cache', 'edge'))}-{self.number(11, 99)}",
            "incident": lambda: f"INC-{self.number(20_000, 99_999)}",
            "ip": lambda: f"10.{self.number(20, 250)}.{self.number(20, 250)}.{self.number(20, 250)}",
            "issue": lambda: f"{self.letters(3, string.ascii_uppercase)}-{self.number(1_000, 9_999)}",
            "item": lambda: self.one(_ITEMS),
            "minutes": lambda: str(self.number(13, 89)),
            "name": lambda: f"{self.one(_FIRST_NAMES)} {self.one(_LAST_NAMES)}",
            "number": lambda: str(self.number(1_200, 9_800)),
            "order": lambda: f"{self.letters(2, string.ascii_uppercase)}-{self.number(100_000, 999_999)}",
            "path": lambda: f"/srv/{self.words(2, '/')}/{self.words(1)}",
            "percent": lambda: f"{self.number(11, 79)}",
            "phone": lambda: f"ext. {self.number(2_100, 8_900)}",
            "port": lambda: str(self.number(5_100, 9_700)),
            "price": lambda: f"{self.number(21, 940)}.{self.number(10, 99)}",
            "service": lambda: f"{self.one(_TOPICS)}-{self.words(1)}",
            "size": lambda: str(self.number(36, 58)),
            "street": lambda: f"{self.one(_STREETS)} {self.number(3, 190)}",
            "table": lambda: f"{self.one(_TOPICS)}_{self.words(1)}s",
            "team": lambda: f"team {self.one(_TEAMS)} {self.words(1)}",
            "ticket": lambda: f"OPS-{self.number(1_000, 9_999)}",
            "time": lambda: f"{self.number(6, 22):02}:{self.number(1, 59):02}",
            "variable": lambda: self.words(2, "_").upper(),
            "version": lambda: f"{self.number(2, 19)}.{self.number(10, 60)}.{self.number(1, 30)}",
            "zip": lambda: str(self.number(10_200, 98_900)),
        }

    def one(self, of: Sequence[_T]) -> _T:
        return self.random.choice(of)

    def number(self, least: int, most: int) -> int:
        return self.random.randint(least, most)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def words(self, count: int, between: str = " ") -> str:
        return between.join(self.random.sample(_WORDS, count))

    def letters(self, length: int, of: str = string.ascii_lowercase + string.digits) -> str:
        return "".join(self.random.choice(of) for _ in range(length))

    def uuid(self) -> str:
        drawn = f"{self.random.getrandbits(128):032x}"
        return "-".join((drawn[:8], drawn[8:12], drawn[12:16], drawn[16:20], drawn[20:]))

    def of(self, kind: str) -> str:
        """A new value of a kind; of the kinds that have only few (cities, colours), one that may have been there."""
        for _ in range(50):
            if (value := self._of[kind]()) not in self._seen:
                break
        self._seen.add(value)
        return value

    def filled(self, template: str) -> tuple[str, tuple[str, ...]]:
        """The sentence of a template, in which ``{port}`` is a value (``{port2}`` another one), and what tells in it:
        the words in square brackets."""
        values: dict[str, str] = {}

        def value_of(match: re.Match[str]) -> str:
            if match[0] not in values:
                values[match[0]] = self.of(match[1])
            return values[match[0]]

        text = _SLOT.sub(value_of, template)
        return _TELLING.sub(r"\1", text), tuple(_TELLING.findall(text))

    def said(self, template: str) -> str:
        return self.filled(template)[0]
