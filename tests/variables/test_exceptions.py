"""Exceptions: raising, handling, chaining, cleaning up, and what a traceback shows."""

# mypy: ignore-errors

from __future__ import annotations

import contextlib

import pytest
import torch

import capture

X = torch.tensor([1.0, -2.0, 3.0])


class Custom(Exception):
    def __init__(self, code, extra=None):
        super().__init__(f"code {code}")
        self.code = code
        self.extra = extra


class Plain(ValueError):
    pass


def deep(x, n):
    if n == 0:
        raise Custom(5, extra=x.shape[0])
    return deep(x + 1, n - 1)


def test_raised_in_a_callee_shows_all_lines(check):
    check(lambda x: deep(x, 3), (X,))


def test_custom_exception_is_caught_with_its_attributes(check):
    def f(x):
        try:
            deep(x, 2)
        except Custom as error:
            return x + error.code, error.extra, str(error), error.args, type(error).__name__

    check(f, (X,))


def test_first_matching_handler_runs(check):
    def f(x, which):
        try:
            if which == 0:
                raise Plain("p")
            if which == 1:
                raise KeyError("k")
            if which == 2:
                raise IndexError
        except (KeyError, IndexError) as error:
            return x, repr(error)
        except ValueError:
            return x + 1
        else:
            x = x + 100
        finally:
            x = x * 2
        return x

    check(f, (X, 0), (X, 1), (X, 2), (X, 3))


def test_finally_overrides_the_return_value(check):
    def f(x):
        try:
            return x + 1
        finally:
            return x - 1  # noqa: B012

    check(f, (X,))


def test_finally_swallows_the_exception(check):
    def f(x):
        while True:
            try:
                raise ValueError("lost")
            finally:
                break  # noqa: B012
        return x + 1

    check(f, (X,))


def test_finally_runs_on_break_and_continue(check):
    def f(x, log):
        for i in range(4):
            try:
                if i == 1:
                    continue
                if i == 3:
                    break
                x = x + i
            finally:
                log.append(i)
        return x

    check(f, (X, []), fullgraph=True)


def test_exception_leaves_through_a_finally_with_effects(check):
    def f(x, log):
        try:
            log.append("try")
            raise ValueError("out")
        finally:
            log.append(x.shape[0])

    check(f, (X, []))


def test_exception_after_effects_keeps_them(check):
    def f(x, log, d):
        log.append(x + 1)
        d["k"] = 2
        x.add_(1)
        raise Plain("after")

    check(f, (X, [], {}))


def test_reraise(check):
    def f(x, log):
        try:
            raise Plain("again")
        except ValueError:
            log.append("seen")
            raise

    check(f, (X, []))


def test_reraise_in_a_callee(check):
    def again():
        raise  # noqa: PLE0704

    def f(x):
        y = x + 1
        try:
            raise Plain("again")
        except ValueError:
            try:
                again()
            except Plain as error:
                return y, str(error)

    check(f, (X,))


def test_reraise_without_an_exception(check):
    def f(x):
        y = x + 1
        try:
            raise  # noqa: PLE0704
        except RuntimeError as error:
            return y, str(error)

    check(f, (X,))


def test_raise_from(check):
    def f(x):
        y = x + 1
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise Plain("outer", y.shape[0]) from error

    check(f, (X,))


def test_raise_from_none(check):
    def f(x):
        try:
            raise KeyError("inner")
        except KeyError:
            raise Plain("outer") from None

    check(f, (X,))


def test_implicit_context(check):
    def f(x):
        try:
            try:
                raise KeyError("inner")
            except KeyError:
                [][x.shape[0]]
        except IndexError as error:
            return x + 1, repr(error.__context__), error.__cause__, error.__suppress_context__

    check(f, (X,))


def test_context_of_an_exception_raised_after_a_handler_is_none(check):
    def f(x):
        try:
            raise KeyError("one")
        except KeyError:
            pass
        try:
            raise IndexError("two")
        except IndexError as error:
            return x + 1, error.__context__

    check(f, (X,))


def test_caught_exception_is_returned_with_its_chain(check):
    def f(x):
        try:
            try:
                raise KeyError("a")
            except KeyError as inner:
                raise Custom(3) from inner
        except Custom as error:
            return x + 1, error

    check(f, (X,))


def test_caught_exception_is_stored_outside(check):
    def f(x, log):
        try:
            raise Custom(7, extra=x)
        except Custom as error:
            log.append(error)
        return x + 1

    check(f, (X, []))


def test_exception_made_before_is_raised(check):
    def f(x, error):
        y = x + 1
        try:
            raise error
        except ValueError as caught:
            return y, caught is error

    check(f, (X, Plain("given")))


def test_exception_object_is_raised_twice(check):
    def f(x):
        error = Plain("twice")
        log = []
        for _ in range(2):
            try:
                raise error
            except Plain as caught:
                log.append(caught is error)
        return x + 1, log

    check(f, (X,))


def test_exception_variable_is_unbound_after_the_handler(check):
    def f(x):
        error = 5
        try:
            raise KeyError
        except KeyError as error:  # noqa: F841
            pass
        try:
            return error
        except UnboundLocalError as caught:
            return x + 1, str(caught)

    check(f, (X,))


@pytest.mark.parametrize(
    "make",
    [
        lambda: SystemExit(3),
        lambda: StopIteration(5),
        lambda: OSError(2, "no", "f"),
        lambda: ImportError("m", name="n"),
    ],
)
def test_exceptions_with_fields_of_their_own(check, make):
    def f(x):
        y = x + 1
        try:
            raise make()
        except BaseException as error:
            return (
                y,
                error.args,
                getattr(error, "code", None),
                getattr(error, "value", None),
                getattr(error, "errno", None),
                getattr(error, "name", None),
            )

    check(f, (X,))


def test_system_exit_leaves_with_its_code():
    @capture.compile(backend="eager")
    def f(x):
        y = x + 1
        raise SystemExit(y.shape[0])

    with pytest.raises(SystemExit) as caught:
        f(X)
    assert caught.value.code == 3


def test_stop_iteration_leaves_with_its_value():
    @capture.compile(backend="eager")
    def f(x):
        y = x + 1
        raise StopIteration(y.shape[0])

    with pytest.raises(StopIteration) as caught:
        f(X)
    assert caught.value.value == 3


def test_raising_what_is_no_exception(check):
    check(lambda x: (x + 1, exec), (X,))

    def f(x):
        y = x + 1
        try:
            raise 5
        except TypeError as error:
            return y, str(error)

    check(f, (X,))


def test_catching_what_is_no_exception(check):
    def f(x):
        y = x + 1
        try:
            raise KeyError("k")
        except 5:
            return y

    check(f, (X,))


def test_assertions(check):
    def f(x, n):
        assert n > 1, f"too small: {n}"
        return x + n

    check(f, (X, 2), (X, 0))


def test_unbound_local(check):
    def f(x, flag):
        if flag:
            y = x + 1
        return y

    check(f, (X, True), (X, False))


def test_undefined_global(check):
    check(lambda x: x + undefined_name, (X,))  # noqa: F821


def test_shape_error_of_an_operator_leaves(check):
    def f(x):
        y = x + 1
        return y @ torch.ones(5, 2)

    check(f, (X,))


def test_shape_error_of_an_operator_is_caught(check):
    def f(x):
        try:
            return x @ torch.ones(5, 2)
        except RuntimeError as error:
            return x + 1, str(error)

    check(f, (X,))


def test_index_error_of_data_is_caught(check):
    def f(x, i):
        try:
            y = x[i] * 2
        except IndexError:
            return x + 1
        return y

    check(f, (X, torch.tensor([0, 1])), (X, torch.tensor([0, 9])))


def test_index_error_of_data_after_effects(check):
    def f(x, i, log):
        log.append("before")
        try:
            y = x[i] * 2
            log.append("inside")
        except IndexError:
            log.append("caught")
            return x + 1
        return y

    check(f, (X, torch.tensor([0, 1]), []), (X, torch.tensor([0, 9]), []))


def test_index_error_of_data_after_an_inplace_change(check):
    def f(x, i, log):
        log.append(1)
        x.mul_(2)
        y = x[i]
        log.append(2)
        return y

    check(f, (X, torch.tensor([0, 1]), []), (X, torch.tensor([0, 9]), []))


def test_context_manager_sees_the_exception(check):
    class Manager:
        def __init__(self, log, swallow):
            self.log, self.swallow = log, swallow

        def __enter__(self):
            self.log.append("enter")
            return self

        def __exit__(self, kind, error, trace):
            self.log.append((kind and kind.__name__, str(error), trace is None))
            return self.swallow

    def f(x, log, swallow):
        with Manager(log, swallow) as m:
            log.append(m.swallow)
            raise Plain("inside")
        return x + 1

    check(f, (X, [], True), (X, [], False))


def test_context_manager_without_an_exception(check):
    class Manager:
        def __enter__(self):
            return 5

        def __exit__(self, *details):
            assert details == (None, None, None)

    def f(x):
        with Manager() as a, Manager() as b:
            x = x + a + b
        return x

    check(f, (X,), fullgraph=True)


def test_exit_that_raises_chains(check):
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, *details):
            raise KeyError("exit")

    def f(x):
        y = x + 1
        with Manager():
            raise Plain("body")
        return y

    check(f, (X,))


def test_contextmanager_decorator(check):
    @contextlib.contextmanager
    def scope(log):
        log.append("in")
        try:
            yield 3
        except Plain:
            log.append("swallowed")
        finally:
            log.append("out")

    def f(x, log, bad):
        with scope(log) as n:
            if bad:
                raise Plain
            x = x + n
        return x

    check(f, (X, [], False), (X, [], True))


def test_suppress_and_exit_stack(check):
    def f(x, log):
        with contextlib.suppress(KeyError):
            {}["k"]
        with contextlib.ExitStack() as stack:
            stack.callback(log.append, "callback")
            stack.enter_context(contextlib.nullcontext())
            x = x + 1
        return x

    check(f, (X, []))


def test_object_without_the_protocol_raises(check):
    def f(x):
        y = x + 1
        try:
            with 5:
                pass
        except TypeError as error:
            return y, str(error)

    check(f, (X,))


def test_return_from_inside_with(check):
    def f(x, log):
        class Manager:
            def __enter__(self):
                return self

            def __exit__(self, *details):
                log.append("exit")

        with Manager():
            return x + 1

    check(f, (X, []))


def test_exception_groups(check):
    def f(x):
        y = x + 1
        log = []
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* ValueError as group:
            log.append(len(group.exceptions))
        except* KeyError:
            log.append("key")
        return y, log

    check(f, (X,))


def test_error_inside_a_nested_call_of_an_operator(check):
    class Bad:
        def __add__(self, other):
            raise Plain("in add")

    def f(x, b):
        y = x + 1
        return b + y

    check(f, (X, Bad()))


def test_traceback_of_a_finally_clause(check):
    def f(x, log):
        y = x + 1
        try:
            raise Plain("first line")
        finally:
            log.append(y.shape[0])

    check(f, (X, []))


def test_traceback_of_a_reraise_in_a_callee(check):
    def g(x):
        try:
            raise Plain("inner")
        except Plain:
            x = x + 1
            raise

    check(lambda x: g(x * 2), (X,))


def test_name_of_attribute_error(check):
    def f(x, o):
        y = x + 1
        try:
            o.missing
        except AttributeError as error:
            return y, error.name, error.obj is o

    check(f, (X, [1]))
