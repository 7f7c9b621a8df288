"""A support chat of a shop: a customer who writes a lot and changes their mind, and an agent with few tools."""

from benchmarks.long_runs.draw import Draw
from benchmarks.long_runs.support_phrases import SUPPORT
from benchmarks.long_runs.toolwork import Step, Toolwork, many, paragraphs

_REMARKS = ("One moment please, I look it up.", "Let me check that for you.", "I'll see what I can do.")
_ANSWERS = (
    "Thank you for your patience.",
    "I have made a note of it.",
    "The {item} is in stock and could leave our warehouse within two days.",
    "Unfortunately I can't see that in my system.",
    "Shipping takes three to five working days.",
    "Is there anything else that I can help you with?",
    "Of course, that is possible.",
    "I understand that this is annoying, and I am sorry about it.",
    "Das habe ich gerne für Sie geändert.",
    "Con mucho gusto.",
    "You will get a message as soon as it is on its way.",
    "The warranty covers two years.",
    "Our {item} in {colour} is the most popular one.",
    "I passed this on to my colleagues in the warehouse.",
    "Returns are free within thirty days.",
    "If you like, I can also put it aside for you.",
    "The difference would be {price} euros.",
    "Please keep the box until then.",
)
_ERRORS = (
    "payment provider declined the request: code [{issue}]",
    "address validation failed for postal code [{zip}]",
    "carrier API returned 503, request [{commit}]",
    "voucher [{variable}] has expired",
    "warehouse lock held by [{service}], try again later",
    "stock of article [{number}] is inconsistent",
)


class Support:
    phrases = SUPPORT
    steps_of_a_turn = (0, 1)

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._tools = Toolwork(draw, _REMARKS)

    def noise(self) -> Step:
        return self._draw.one((self._stock, self._find, self._article))()

    def telling_id(self) -> Step:
        return self._draw.one((self._return, self._refund, self._parcel, self._reserve))()

    def error(self) -> Step:
        text, values = self._draw.filled(self._draw.one(_ERRORS))
        if self._draw.chance(0.5):
            return self._tools.with_error("update_order", {}, {"ok": False, "error": text}, values, marked=False)
        return self._tools.with_error("update_order", {}, f"Error: {text}", values, marked=True)

    def answer(self) -> str:
        return paragraphs(self._draw, _ANSWERS, 2, 12)

    def pasted(self) -> str:
        """What a user pastes between what they say."""
        return "\n".join(
            f"{self._draw.of('item')}  1 x {self._draw.of('price')}" for _ in range(self._draw.number(3, 8))
        )

    def _stock(self) -> Step:
        rows = many(
            self._draw,
            4,
            18,
            lambda: {"sku": self._draw.letters(8), "colour": self._draw.of("colour"), "left": self._draw.number(0, 90)},
        )
        return self._tools.step("check_stock", {"item": self._draw.of("item")}, {"variants": rows})

    def _find(self) -> Step:
        lines = many(
            self._draw,
            2,
            9,
            lambda: {
                "item": self._draw.of("item"),
                "price": self._draw.of("price"),
                "status": self._draw.one(("sent", "open")),
            },
        )
        return self._tools.step(
            "find_order", {}, {"lines": lines, "currency": "EUR", "warehouse": self._draw.of("city")}
        )

    def _article(self) -> Step:
        text = " ".join(self._draw.said(self._draw.one(_ANSWERS[2:14])) for _ in range(self._draw.number(4, 12)))
        return self._tools.step("search_help", {"query": self._draw.words(2)}, text)

    def _return(self) -> Step:
        number = f"RMA-{self._draw.number(100_000, 999_999)}"
        return self._tools.with_id("create_return", {}, {"rma": number, "label": "sent by mail", "days": 30}, number)

    def _refund(self) -> Step:
        number = f"rf_{self._draw.letters(12)}"
        result = {
            "object": "refund",
            "status": "pending",
            "balance_transaction": None,
            "id": number,
            "reason": "requested",
        }
        return self._tools.with_id("refund", {}, result, number)

    def _parcel(self) -> Step:
        number = f"JD{self._draw.number(10**11, 10**12 - 1)}"
        return self._tools.with_id("create_shipment", {}, f"Shipment booked, tracking number {number}.", number)

    def _reserve(self) -> Step:
        number = f"RES-{self._draw.letters(6).upper()}"
        return self._tools.with_id("reserve_item", {}, {"reservation": number, "until": "in three days"}, number)
