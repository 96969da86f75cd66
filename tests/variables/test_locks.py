"""Locks made in the frame, and the thread that runs it."""

# mypy: ignore-errors

from __future__ import annotations

import functools
import reprlib
import threading

import pytest
import torch

X = torch.tensor([1.0, -2.0, 3.0])


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_a_lock_is_taken_and_given_back(check, make):
    def f(x):
        lock = make()
        with lock:
            x = x + 1
        taken = lock.acquire()
        lock.release()
        return x, taken

    assert not check(f, (X,)).breaks


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_a_lock_that_nobody_holds_is_not_released(check, make):
    def f(x):
        try:
            make().release()
        except RuntimeError as error:
            return x + 1, str(error)

    assert not check(f, (X,)).breaks


def test_a_held_lock_leaves_the_frame(check):
    def f(x):
        lock = threading.Lock()
        lock.acquire()
        return lock, x + 1

    import capture

    for _ in range(2):
        lock, _ = capture.compile(f, backend="eager")(X)
        assert lock.locked()
        lock.release()


def test_a_cached_property_of_a_class_made_here(check):
    def f(x):
        class Thing:
            @functools.cached_property
            def value(self):
                return x.shape[0]

        thing = Thing()
        return x + thing.value, thing.value, vars(thing)

    check(f, (X,))


class Listed:
    def __init__(self, parts):
        self.parts = parts

    @reprlib.recursive_repr()
    def __repr__(self):
        return f"Listed({self.parts!r})"


def test_a_guarded_repr_asks_for_the_thread(check):
    def f(x):
        listed = Listed([Listed([1])])
        return x + 1, repr(listed)

    check(f, (X,))


def test_another_thread_compiles_anew():
    import capture

    def f(x):
        return x + 1, threading.get_ident()

    compiled = capture.compile(f, backend="eager")
    seen = [compiled(X)[1]]
    thread = threading.Thread(target=lambda: seen.append(compiled(X)[1]))
    thread.start()
    ident = thread.ident
    thread.join()
    assert seen == [threading.get_ident(), ident]
