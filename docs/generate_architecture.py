"""Prints docs/architecture.svg: the floors and rooms of docs/rooms.toml, which the layout test holds."""

import sys
import textwrap
import tomllib
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

WIDTH = 1000
MARGIN = 16
TITLE_WIDTH = 150
ROOM_WIDTH = 126
ROOM_HEIGHT = 54
GAP = 10
FONT = "font-family='system-ui, sans-serif'"
INK = "#1f2933"
COLOURS = {
    "server": "#d9e8fb",
    "extraction": "#e6defa",
    "memory": "#dcf3e4",
    "storage": "#fdebd3",
    "prompts": "#f1f3f5",
}


@dataclass(frozen=True, slots=True)
class Floor:
    name: str
    text: str
    imports: list[str]
    rooms: dict[str, str]

    @property
    def rows(self) -> list[list[str]]:
        """The names of its rooms, as many in a row as there is room for."""
        a_row = (WIDTH - 2 * MARGIN - TITLE_WIDTH) // (ROOM_WIDTH + GAP)
        names = list(self.rooms)
        return [names[start : start + a_row] for start in range(0, len(names), a_row)]

    @property
    def height(self) -> int:
        return max(len(self.rows) * (ROOM_HEIGHT + GAP) + GAP, 84)


def read_floors(path: Path) -> list[Floor]:
    """The floors in the order of the file, top first. Raises OSError and tomllib.TOMLDecodeError."""
    described: dict[str, dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Floor(name, floor["text"], floor["imports"], floor["rooms"]) for name, floor in described.items()]


def text_lines(text: str, x: int, y: int, width: int, *, size: int, weight: str = "normal") -> list[str]:
    """SVG texts, one for each line of ``width`` characters."""
    return [
        f"<text x='{x}' y='{y + number * (size + 3)}' {FONT} font-size='{size}' font-weight='{weight}' fill='{INK}'>"
        f"{escape(line)}</text>"
        for number, line in enumerate(textwrap.wrap(text, width))
    ]


def draw_floor(floor: Floor, y: int) -> list[str]:
    width = WIDTH - 2 * MARGIN
    drawn = [
        f"<rect x='{MARGIN}' y='{y}' width='{width}' height='{floor.height}' rx='8' fill='{COLOURS[floor.name]}'/>"
    ]
    drawn += text_lines(floor.name + "/", MARGIN + 12, y + 24, 20, size=16, weight="bold")
    drawn += text_lines(floor.text, MARGIN + 12, y + 40, 23, size=10)
    for row, names in enumerate(floor.rows):
        for column, name in enumerate(names):
            left = MARGIN + TITLE_WIDTH + column * (ROOM_WIDTH + GAP)
            top = y + GAP + row * (ROOM_HEIGHT + GAP)
            drawn.append(
                f"<g><title>{escape(floor.name)}/{escape(name)}: {escape(floor.rooms[name])}</title>"
                f"<rect x='{left}' y='{top}' width='{ROOM_WIDTH}' height='{ROOM_HEIGHT}' rx='5' fill='white'/>"
            )
            drawn += text_lines(name, left + 8, top + 15, 24, size=12, weight="bold")
            drawn += text_lines(floor.rooms[name], left + 8, top + 28, 26, size=8)
            drawn.append("</g>")
    return drawn


def draw(floors: list[Floor]) -> str:
    """One SVG: a band for each floor, top first, and its rooms from left to right, lowest first."""
    drawn: list[str] = []
    y = MARGIN
    for floor in floors:
        drawn += draw_floor(floor, y)
        y += floor.height + GAP
    legend = (
        "A module imports only floors below its own, and inside its floor only rooms to the left of (or above) its own."
    )
    drawn += text_lines(legend, MARGIN, y + 12, 140, size=11)
    height = y + 12 + MARGIN
    frame = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' height='{height}'>"
    background = f"<rect width='{WIDTH}' height='{height}' fill='#ffffff'/>"
    return "\n".join([frame, background, *drawn, "</svg>"])


if __name__ == "__main__":
    sys.stdout.write(draw(read_floors(Path(__file__).with_name("rooms.toml"))) + "\n")
