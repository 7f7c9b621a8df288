"""Threads that do pieces of work in order."""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

T = TypeVar("T")


class WorkerStopped(Exception):
    """The work was not begun, because the worker has been stopped."""


class Worker:
    """Does its work in order, on up to ``threads`` threads, which begin with the first piece of work."""

    def __init__(self, name: str, threads: int = 1) -> None:
        self._name = name
        self._most = threads
        self._threads: list[threading.Thread] = []
        self._queue: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._changed = threading.Condition()
        self._began: dict[Future[Any], float] = {}
        self._stopped = False

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Cancelling the future takes the work out of the queue; what has begun is finished."""
        future: Future[T] = Future()
        with self._changed:
            if self._stopped:
                future.set_exception(WorkerStopped())
                return future
            # Queries that ran out of patience must not pile up while the model hangs.
            while self._queue and self._queue[0][0].cancelled():
                self._queue.popleft()[0].set_running_or_notify_cancel()
            self._queue.append((future, work))
            # A new thread starts only if all others have work already.
            if len(self._threads) < self._most and len(self._began) + len(self._queue) > len(self._threads):
                thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()
        return future

    def wait_turn(self, seconds: float) -> bool:
        """Wait for all work submitted so far, at most that long. Returns whether it has ended. Work submitted meanwhile
        does not count, since under load there always is some."""
        with self._changed:
            ahead = [*self._began, *(future for future, _ in self._queue)]
        return not wait(ahead, seconds).not_done

    def is_stalled(self, seconds: float) -> bool:
        """Whether every allowed thread has been at the same piece of work for longer than that."""
        since = time.monotonic() - seconds
        with self._changed:
            return len(self._began) == self._most and max(self._began.values()) < since

    def stop(self) -> None:
        """Waiting work fails with WorkerStopped; the threads end after their present batch."""
        with self._changed:
            self._stopped = True
            # The futures are ended outside the lock, since their callbacks run at once.
            left = [future for future, _ in self._queue if future.set_running_or_notify_cancel()]
            self._queue.clear()
            self._changed.notify_all()
        for future in left:
            future.set_exception(WorkerStopped())

    def join(self, seconds: float) -> bool:
        """Wait for the threads of a stopped worker, at most that long. Returns whether they have ended."""
        for thread in self._threads:
            thread.join(seconds)
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._queue) or self._stopped)
                if not self._queue:
                    return
                future, work = self._queue.popleft()
                if not future.set_running_or_notify_cancel():
                    continue
                self._began[future] = time.monotonic()
            try:
                self._do(future, work)
            finally:
                with self._changed:
                    del self._began[future]
                    self._changed.notify_all()

    @staticmethod
    def _do(future: Future[Any], work: Callable[[], Any]) -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller that waits
            future.set_exception(error)
        else:
            future.set_result(result)
