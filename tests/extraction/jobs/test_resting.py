"""When a model is left alone: because it does not answer, never because of what it answers."""

from layerlore.extraction.chat.chat_port import ChatFailed
from layerlore.extraction.jobs.budget import OUTAGE, OUTAGE_MS, ModelPauses
from layerlore.storage.audit.usage_rows import UsageSums


def down(**options: object) -> ChatFailed:
    return ChatFailed("it is down", **{"retryable": True, **options})  # type: ignore[arg-type]


def rest_after(*errors: ChatFailed, now: int = 0) -> ModelPauses:
    rest = ModelPauses()
    for error in errors:
        rest.note_failure(error, now)
    return rest


def until(rest: ModelPauses, now: int = 0) -> int | None:
    pause = rest.at(now)
    return pause.until if pause else None


def test_a_model_that_gives_no_answer_again_and_again_is_left_alone() -> None:
    assert until(rest_after(*[down()] * (OUTAGE - 1))) is None
    assert until(rest_after(*[down()] * OUTAGE)) == OUTAGE_MS


def test_requests_that_were_under_way_when_the_pause_began_do_not_make_it_longer() -> None:
    rest = rest_after(*[down()] * (OUTAGE + 20))
    assert until(rest) == OUTAGE_MS
    rest.note_failure(down(), OUTAGE_MS)
    assert until(rest, OUTAGE_MS) == OUTAGE_MS * 3


def test_a_model_that_answers_is_not_left_alone_however_useless_its_answers_are() -> None:
    useless = down(spent=UsageSums(1, 10, 10, 0))
    assert until(rest_after(*[useless] * OUTAGE * 9)) is None
    assert until(rest_after(down(), down(), useless, down(), down())) is None


def test_a_time_that_the_provider_asks_for_is_no_outage_and_holds_if_it_is_the_longest() -> None:
    rest = rest_after(*[down(retry_after_ms=100)] * OUTAGE * 9, down(retry_after_ms=50))
    assert until(rest) == 100
    assert until(rest_after(*[down()] * OUTAGE, down(retry_after_ms=OUTAGE_MS * 4))) == OUTAGE_MS * 4
