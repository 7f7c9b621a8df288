"""How a budget is shared by those who do not fit into it together."""

from collections.abc import Sequence


def level(costs: Sequence[int], budget: int) -> int:
    """The highest level at which they fit into the budget when what is above it is cut off (water-filling): the small
    ones stay whole, the large ones become equal. It is the largest cost where all of them fit, and may be negative."""
    left, above = budget, len(costs)
    for cost in sorted(costs):
        if cost * above > left:
            return left // above
        left -= cost
        above -= 1
    return max(costs, default=budget)
