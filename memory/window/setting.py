"""A policy on its way in: what update_thread is given, turned into what is stored with the thread."""

from typing import Any

from layerlore.memory.acceptance import check_metadata, check_text, json_bytes, load_json, shown
from layerlore.memory.engine import Engine
from layerlore.memory.window.policy import WindowPolicy, as_json, policy_from
from layerlore.storage.errors import InvalidInput, LimitExceeded
from layerlore.storage.json_text import to_json
from layerlore.storage.records import Json

WHERE = "window"
PROFILE = "profile"

FORMS = (
    'the name of a profile, an object of a policy\'s fields (with "profile": NAME over that profile, else over the '
    'server\'s default), or "" or null to remove it'
)


def stored_policy(engine: Engine, raw: Any) -> tuple[str, int]:
    """The JSON to store for a profile's name or an object of a policy's fields ("" for "", which removes it), and how
    many secrets were masked.

    An object becomes a whole policy: what its profile or the server's default says by then is kept with it.

    Raises InvalidInput, LimitExceeded.
    """
    given = _read(raw)
    if given == "":
        return "", 0
    if isinstance(given, str):
        engine.windows.profile(given, WHERE)
        return to_json(given), 0
    check_metadata(given, WHERE, engine.limits)
    policy, masked = _policy(engine, given)
    size = json_bytes(policy)
    if size > engine.limits.metadata_bytes:
        raise LimitExceeded(
            f"{WHERE}: {size:,} bytes of JSON with what it is set over; {engine.limits.metadata_bytes:,} are allowed"
        )
    return to_json(policy), masked


def _read(raw: Any) -> Json | str:
    if isinstance(raw, str):
        raw = check_text(raw, WHERE).strip()
        if raw.startswith("{"):
            try:
                raw = load_json(raw, WHERE)
            except ValueError as error:
                raise InvalidInput(f"{WHERE}: it cannot be read as JSON: {error}; allowed: {FORMS}") from None
    if not isinstance(raw, str | dict):
        raise InvalidInput(f"{WHERE}: must be {FORMS}, not {shown(raw)}")
    return raw


def _policy(engine: Engine, given: Json) -> tuple[Json, int]:
    fields = {key: value for key, value in given.items() if key != PROFILE}
    name = given.get(PROFILE)
    if name is not None and not isinstance(name, str):
        raise InvalidInput(f"{WHERE}.{PROFILE}: must be the name of a profile, not {shown(name)}")
    base = engine.windows.default if name is None else engine.windows.profile(name, f"{WHERE}.{PROFILE}")
    masked = 0

    def mask(parts: list[Json]) -> tuple[list[Json], int]:
        nonlocal masked
        clean, found = engine.masked_parts(parts)
        masked += found
        return clean, found

    policy = as_json(policy_from(fields, WHERE, base, engine.tokens, engine.limits, mask))
    # Masking makes text longer: what is stored must be within the limits, too, or it could not be read again.
    policy_from(policy, WHERE, WindowPolicy(), engine.tokens, engine.limits, engine.masked_parts)
    return policy, masked
