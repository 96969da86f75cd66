"""``warnings.warn`` in captured code: the same warnings of the same lines as in eager."""

# mypy: ignore-errors

from __future__ import annotations

import warnings

import pytest
import torch

X = torch.ones(3)


def seen(decorate, fn, action="default", calls=3):
    """What is warned of in several calls."""
    globals().pop("__warningregistry__", None)
    called = decorate(fn)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter(action)
        results = [called(X + n) for n in range(calls)]
    return results, [(str(w.message), w.category, w.filename, w.lineno) for w in given]


def inner(x):
    warnings.warn("from the caller", stacklevel=2)
    return x + 1


def plain(x):
    x = x * 2
    warnings.warn("plain")
    return x.sin()


def with_category(x):
    warnings.warn("old", DeprecationWarning, stacklevel=1)
    return x.sin()


def of_the_caller(x):
    y = inner(x)
    return y * 2


def named(x):
    warnings.warn(message="named", category=None)
    return x + 1


def none(x):
    warnings.warn("none", None)
    return x + 1


@pytest.mark.parametrize("action", ["default", "always", "ignore", "once"])
@pytest.mark.parametrize("fn", [plain, with_category, of_the_caller, named, none])
def test_warnings_are_given_from_the_graph(check, fn, action):
    report = check.script(lambda decorate: seen(decorate, fn, action))
    assert (report.graphs, report.breaks) == (1, [])


class Own(UserWarning):
    pass


def own_category(x):
    warnings.warn("own", Own, stacklevel=1)
    return x + 1


def instance(x):
    warnings.warn(Own("own"))
    return x + 1


def beyond(x):
    warnings.warn("beyond", stacklevel=9)
    return x + 1


def computed(x):
    warnings.warn(f"sum {x.sum()}")
    return x + 1


@pytest.mark.parametrize("fn", [own_category, instance, beyond, computed])
def test_other_warnings_are_given_by_python(check, fn):
    check.script(lambda decorate: seen(decorate, fn))


def test_warnings_come_in_order_with_other_effects(check):
    def program(decorate):
        log = []

        def fn(x):
            log.append(1)
            warnings.warn("first")
            log.append(2)
            warnings.warn("second")
            return x + 1

        return seen(decorate, fn), log

    check.script(program)


def test_warning_that_is_an_error(check):
    def program(decorate):
        log = []

        def fn(x):
            log.append(1)
            warnings.warn("no")
            log.append(2)
            return x + 1

        called = decorate(fn)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                called(X)
            except UserWarning as warning:
                log.append(str(warning))
        return log

    check.script(program)


def test_warning_caught_in_the_captured_code(check):
    def f(x):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            warnings.warn("careful")
            n = len(given)
        return x + n, [str(w.message) for w in given]

    check(f, (X,))


def test_warning_caught_by_code_with_a_break_in_it(check):
    def f(x):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            print("break")
            x = x * 2
            warnings.warn("careful")
            n = len(given)
            y = x + n
        return y, len(given)

    check(f, (X,))


def test_filters_that_change_between_calls(check):
    def program(decorate):
        log = []

        def fn(x):
            log.append(1)
            warnings.warn("no")
            log.append(2)
            return x + 1

        called = decorate(fn)
        for action in ("always", "error", "ignore", "error"):
            with warnings.catch_warnings(record=True) as given:
                warnings.simplefilter(action)
                try:
                    called(X)
                except UserWarning as warning:
                    log.append(str(warning))
                log.append(len(given))
        return log

    check.script(program)


def test_filters_changed_in_the_captured_code(check):
    def f(x):
        before = warnings.filters[:]
        warnings.filters.insert(0, ("error", None, Warning, None, 0))
        try:
            warnings.warn("no")
        except UserWarning:
            return x + 1
        finally:
            warnings.filters[:] = before
        return x - 1

    check(f, (X,))
