"""The cache of values that are valid while their stamp is equal."""

from layerlore.storage.core.stamped_cache import StampedCache


def test_a_value_is_found_by_its_own_stamp_alone() -> None:
    cache = StampedCache[str, int, str](2)
    cache.keep("a", 1, "tea")
    assert cache.find("a", 1) == "tea"
    assert cache.find("a", 2) is None
    assert cache.find_any("a") == (1, "tea")
    assert cache.find_any("b") is None


def test_the_value_used_longest_ago_makes_room() -> None:
    cache = StampedCache[str, int, str](2)
    for key in ("a", "b"):
        cache.keep(key, 1, key)
    assert cache.find("a", 1) == "a"
    cache.keep("c", 1, "c")
    assert cache.list_keys() == ["a", "c"]


def test_values_are_bounded_by_their_number_and_by_their_size() -> None:
    cache = StampedCache[str, int, str](2, size=len, most_size=10)
    cache.keep("a", 1, "123456")
    cache.keep("b", 1, "12345")
    assert cache.list_keys() == ["b"]
    cache.keep("c", 1, "")
    cache.keep("d", 1, "")
    assert cache.list_keys() == ["c", "d"]
    cache.keep("d", 2, "longer than all")
    assert cache.list_keys() == ["c"]


def test_values_are_forgotten_by_their_keys() -> None:
    cache = StampedCache[str, int, str](3)
    for key in ("a", "ab", "c"):
        cache.keep(key, 1, key)
    cache.forget(lambda key: key.startswith("a"))
    assert cache.list_keys() == ["c"]


def test_a_value_that_grew_leaves_as_much_room_as_it_took() -> None:
    cache = StampedCache[str, int, list[int]](3, size=len, most_size=4)
    grown = cache.keep("a", 1, [1, 2])
    grown += [3, 4]
    cache.forget(lambda key: key == "a")
    cache.keep("b", 1, [1, 2, 3])
    cache.keep("c", 1, [1, 2, 3])
    assert cache.list_keys() == ["c"]
