"""What a bucket gives, and which accounts are kept."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.server.limits.throttle import BURST_SECONDS, Accounts, Bucket

# Numbers that floats hold exactly, as far as they go: what is proved is the rule, not how well it is rounded.
RATES = st.integers(1, 64).map(lambda number: number / 4)
BURSTS = st.integers(1, 64).map(float)
AMOUNTS = st.integers(1, 100)
# When each is asked for after the one before, in seconds, and how much.
ASKED = st.lists(st.tuples(st.integers(0, 64).map(lambda number: number / 16), AMOUNTS), max_size=40)
LITTLE = 1e-6

Asked = Sequence[tuple[float, int]]


def most_in_any_time(given_: Sequence[tuple[float, int]], rate: float, burst: float) -> float:
    """By how much more was given, in any stretch of time, than the rate and one burst (or one larger amount) allow."""
    over = float("-inf")
    for first in range(len(given_)):
        total = largest = 0
        for at, amount in given_[first:]:
            total += amount
            largest = max(largest, amount)
            over = max(over, total - max(burst, largest) - rate * (at - given_[first][0]))
    return over


@given(RATES, BURSTS, ASKED)
def test_no_more_is_given_in_any_time_than_the_burst_and_the_rate_times_it(
    rate: float, burst: float, asked: Asked
) -> None:
    bucket, at, taken = Bucket(rate, burst, 0.0), 0.0, []
    for pause, amount in asked:
        at += pause
        if not bucket.take(amount, at):
            taken.append((at, amount))
    assert most_in_any_time(taken, rate, burst) <= LITTLE


@given(RATES, BURSTS, ASKED)
def test_the_same_holds_for_what_is_taken_ahead_and_waited_for(rate: float, burst: float, asked: Asked) -> None:
    bucket, at, begun = Bucket(rate, burst, 0.0), 0.0, []
    for pause, amount in asked:
        at += pause
        begun.append((at + bucket.wait(amount, at), amount))
        bucket.spend(amount, at)
    assert all(later - earlier >= -LITTLE for (earlier, _), (later, _) in itertools.pairwise(begun))
    assert most_in_any_time(begun, rate, burst) <= LITTLE


@given(RATES, BURSTS, ASKED, AMOUNTS)
def test_a_waiting_time_is_exact(rate: float, burst: float, asked: Asked, amount: int) -> None:
    bucket, at = Bucket(rate, burst, 0.0), 0.0
    for pause, before in asked:
        at += pause
        bucket.take(before, at)
    seconds = bucket.take(amount, at)
    if seconds:
        assert bucket.take(amount, at + seconds - LITTLE)
        assert bucket.take(amount, at + seconds) == 0


@given(RATES, BURSTS, AMOUNTS)
def test_nothing_is_impossible_and_what_is_larger_than_the_burst_is_paid_for_afterwards(
    rate: float, burst: float, amount: int
) -> None:
    bucket = Bucket(rate, burst, 0.0)
    assert bucket.take(amount, 0.0) == 0
    assert bucket.wait(burst, 0.0) == pytest.approx(amount / rate)


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = Bucket(1.0, 1.0, 10.0)
    bucket.spend(1, 10.0)
    assert bucket.wait(1, 5.0) == 1.0
    assert bucket.wait(1, 11.0) == 0.0


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_account_has_two_seconds_worth_and_none_for_what_is_not_limited() -> None:
    accounts = Accounts({"calls": 5, "rows": 0}, Clock())
    account = accounts.of("ana")
    assert set(account.buckets) == {"calls"}
    assert account.buckets["calls"].take(5 * BURST_SECONDS, 0.0) == 0
    assert account.buckets["calls"].take(1, 0.0) == pytest.approx(1 / 5)
    assert accounts.of("ana") is account


def test_idle_accounts_are_dropped() -> None:
    clock = Clock()
    accounts = Accounts({"calls": 1}, clock, most=100)
    for number in range(50):
        accounts.of(f"one {number}").buckets["calls"].spend(1, clock.now)
    assert len(accounts) == 50
    clock.now += 1
    for number in range(30):
        accounts.of(f"other {number}").buckets["calls"].spend(1, clock.now)
    assert len(accounts) == 30


def test_there_are_never_more_than_allowed_and_who_was_dropped_begins_anew() -> None:
    clock = Clock()
    accounts = Accounts({"calls": 1}, clock, most=3)
    for name in ("ana", "ben", "eve"):
        accounts.of(name).buckets["calls"].spend(2, clock.now)
    accounts.of("ana")
    accounts.of("mia").buckets["calls"].spend(2, clock.now)
    assert len(accounts) == 3
    assert accounts.of("ana").buckets["calls"].wait(1, 0.0) == 1.0
    assert accounts.of("ben").buckets["calls"].wait(1, 0.0) == 0.0


def test_an_account_whose_calls_are_under_way_is_never_dropped() -> None:
    accounts = Accounts({"calls": 1}, Clock(), most=2)
    busy = accounts.of("busy")
    busy.under_way = 1
    for number in range(10):
        accounts.of(f"other {number}")
    assert accounts.of("busy") is busy
    assert len(accounts) <= 3
