"""Books the CPU of a process to its parts: of each thread, what it used while a named function was the innermost one that
runs. Functions are wrapped from outside, coroutines step by step, so that nothing is booked while they wait.
"""

import functools
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from types import CodeType
from typing import Any

Spent = dict[str, list[float]]
"""By part the CPU seconds, and how often it began."""


class Books:
    """What each part has used so far. ``bases``: by thread, as its name begins, the part of what no function has; ``""``
    names every other thread's."""

    def __init__(self, bases: dict[str, str]) -> None:
        self._bases = bases
        self._here = threading.local()
        self._threads: list[_ThreadBook] = []

    def begin(self, part: str, *, again: bool = False) -> None:
        """From now on, until ``end``, this thread's CPU is the part's. ``again``: it goes on with what it began before."""
        self._book().begin(part, again)

    def end(self) -> None:
        self._here.book.end()

    def spent(self) -> Spent:
        """By part the CPU seconds of all threads; with what threads used that ran no wrapped function, ``elsewhere``."""
        if hasattr(self._here, "book"):
            self._here.book.settle()
        summed: Spent = {}
        for book in list(self._threads):
            for part, (seconds, times) in list(book.spent.items()):
                held = summed.setdefault(part, [0.0, 0])
                held[0] += seconds
                held[1] += times
        known = sum(seconds for seconds, _ in summed.values())
        return {**summed, "elsewhere": [time.process_time() - known, 0]}

    def _book(self) -> "_ThreadBook":
        try:
            book: _ThreadBook = self._here.book
        except AttributeError:
            name = threading.current_thread().name
            base = next(part for begins, part in self._bases.items() if name.startswith(begins))
            book = self._here.book = _ThreadBook(base)
            self._threads.append(book)
        return book


class _ThreadBook:
    """The parts that run in one thread, innermost last."""

    def __init__(self, base: str) -> None:
        self._running = [base]
        self._since = time.thread_time()
        self.spent: Spent = {base: [0.0, 0]}

    def begin(self, part: str, again: bool) -> None:
        self.settle()
        self._running.append(part)
        held = self.spent.get(part)
        if held is None:
            held = self.spent[part] = [0.0, 0]
        held[1] += not again

    def end(self) -> None:
        self.settle()
        self._running.pop()

    def settle(self) -> None:
        now = time.thread_time()
        self.spent[self._running[-1]][0] += now - self._since
        self._since = now


class _Steps:
    """Awaits a coroutine, each of whose steps is booked to a part."""

    def __init__(self, books: Books, part: str, inner: Coroutine[Any, Any, Any]) -> None:
        self._books = books
        self._part = part
        self._inner = inner

    def __await__(self) -> Generator[Any, Any, Any]:
        failed: BaseException | None = None
        began = False
        while True:
            self._books.begin(self._part, again=began)
            began = True
            try:
                waited = self._inner.send(None) if failed is None else self._inner.throw(failed)
            except StopIteration as done:
                return done.value
            finally:
                self._books.end()
            failed = None
            try:
                yield waited
            except BaseException as error:  # noqa: BLE001 - it belongs to the coroutine
                failed = error


def booked(books: Books, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function, or one that makes a coroutine, booked to a part."""

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        books.begin(part)
        try:
            return function(*args, **kwargs)
        finally:
            books.end()

    @functools.wraps(function)
    async def steps(*args: Any, **kwargs: Any) -> Any:
        return await _Steps(books, part, function(*args, **kwargs))

    return steps if _is_coroutine(function) else inner


def booked_by_caller(
    books: Books, kind: str, function: Callable[..., Any], own_files: tuple[str, ...]
) -> Callable[..., Any]:
    """The same, booked to ``kind`` and the function that called it: the first one beyond the files that end so."""

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        books.begin(f"{kind} {_name_caller(own_files)}")
        try:
            return function(*args, **kwargs)
        finally:
            books.end()

    @functools.wraps(function)
    async def steps(*args: Any, **kwargs: Any) -> Any:
        return await _Steps(books, f"{kind} {_name_caller(own_files)}", function(*args, **kwargs))

    return steps if _is_coroutine(function) else inner


def _is_coroutine(function: Callable[..., Any]) -> bool:
    code: CodeType = function.__code__
    return bool(code.co_flags & 0x80)


def _name_caller(own_files: tuple[str, ...]) -> str:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.endswith(own_files):
        frame = frame.f_back
    module = str(frame.f_globals.get("__name__", "")).rpartition(".")[2]
    return f"{module}.{frame.f_code.co_name.lstrip('_')}"


def replace_everywhere(package: str, old: Any, new: Any) -> None:
    """Put ``new`` in the place of ``old`` in every loaded module of the package that has it by a name."""
    for name, module in list(sys.modules.items()):
        if module is not None and name.startswith(package):
            for each, value in list(vars(module).items()):
                if value is old:
                    setattr(module, each, new)
