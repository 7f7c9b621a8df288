"""The thread that docs/windows.md shows the policies with."""

import json

from layerlore.memory.parts.message_shapes import parse_messages
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.rules.validation import Limits
from layerlore.storage.core.records import Json, Message

FORECAST = {"city": "Lisbon", "days": [{"day": day, "high": 24 + day % 4, "rain": day == 3} for day in range(1, 11)]}
ROUTE = "Day by day: " + " ".join(
    f"Stop {stop}: leave at nine, walk the old town until noon, and take the train at three." for stop in range(1, 13)
)
PHOTO = "https://example.com/photos/tram.jpg"

SAID: list[Json] = [
    {"role": "user", "content": "I am planning ten days in Portugal. No flights, please."},
    {"role": "assistant", "content": "Noted: ten days, by train. When do you leave?"},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "On 3 May. I liked this street:"},
            {"type": "image_url", "image_url": {"url": "https://example.com/photos/alfama.jpg"}},
        ],
    },
    {
        "role": "assistant",
        "content": "I look up the weather.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "forecast", "arguments": '{"city": "Lisbon"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": json.dumps(FORECAST)},
    {"role": "assistant", "content": "Mostly sunny, rain on the third day."},
    {"role": "user", "content": "Then start in Porto. Here is what a friend sent me: " + ROUTE},
    {"role": "assistant", "content": "That fits in ten days with two nights in Coimbra."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "And where is this tram?"},
            {"type": "image_url", "image_url": {"url": PHOTO}},
        ],
    },
    {"role": "assistant", "content": "That is line 28 in Lisbon."},
    {"role": "user", "content": "Which trains do I need?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "call_2", "type": "function", "function": {"name": "trains", "arguments": '{"from": "Porto"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_2", "content": "Porto to Coimbra 09:30, Coimbra to Lisbon 10:05"},
    {"role": "assistant", "content": "Two: Porto to Coimbra at 9:30, and on to Lisbon at 10:05."},
    {"role": "user", "content": "Book both."},
]


def sample_thread(counter: TokenCounter) -> list[Message]:
    return [
        Message(
            "trip", seq, f"m{seq}", each.role, None, each.parts, {}, counter.parts(each.parts), counter.name, 0, 0, 1
        )
        for seq, each in enumerate(parse_messages(SAID, Limits()), 1)
    ]
