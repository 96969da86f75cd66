"""Generators and iterators: consumed in the frame, half consumed, leaving it, sent into."""

# mypy: ignore-errors

from __future__ import annotations

import collections.abc
import itertools

import pytest
import torch

import capture

X = torch.tensor([1.0, -2.0, 3.0])


def counting(log, n=3):
    try:
        for i in range(n):
            log.append(("yield", i))
            yield i
        return "done"
    finally:
        log.append("closed")


def test_consumed_in_a_loop(check):
    def f(x, log):
        for i in counting(log):
            x = x + i
        return x

    check(f, (X, []), fullgraph=True)


def test_expression_is_lazy(check):
    def f(x, log):
        g = (log.append(i) or x * i for i in range(3))
        log.append("made")
        return [next(g), next(g)], log

    check(f, (X, []))


def test_left_early_closes_it(check):
    def f(x, log):
        for i in counting(log):
            x = x + i
            if i == 1:
                break
        log.append("after the loop")
        return x

    check(f, (X, []))


def test_dropped_without_a_start_runs_nothing(check):
    def f(x, log):
        counting(log)
        return x + 1

    check(f, (X, []))


def test_dropped_half_way_closes_it(check):
    def f(x, log):
        g = counting(log)
        n = next(g)
        g = None
        log.append("dropped")
        return x + n

    check(f, (X, []))


def test_half_consumed_lives_to_the_end_of_the_frame(check):
    def f(x, log):
        g = counting(log)
        n = next(g)
        log.append("last line")
        return x + n

    check(f, (X, []))


def test_returned_without_a_start(check):
    def program(compile):
        log = []

        @compile
        def f(x):
            y = x + 1
            return counting(log), (y * i for i in range(2))

        a, b = f(X)
        return list(a), list(b), log

    check.script(program)


def test_returned_half_consumed(check):
    def program(compile):
        log = []

        @compile
        def f(x):
            g = counting(log)
            first = next(g)
            return x + first, g

        y, g = f(X)
        return y, list(g), log

    check.script(program)


def test_stored_half_consumed_in_an_argument(check):
    def program(compile):
        log, kept = [], []

        @compile
        def f(x, kept):
            g = counting(log)
            kept.append(g)
            return x + next(g)

        y = f(X, kept)
        return y, next(kept[0]), log

    check.script(program)


def test_given_from_outside(check):
    def program(compile):
        log = []

        @compile
        def f(x, g):
            return x + next(g)

        g = counting(log)
        return f(X, g), f(X, g), log

    check.script(program)


def test_break_inside_of_its_body(check):
    def f(x, log):
        def gen():
            for i in range(3):
                print("gen", i)
                yield x * i

        total = x
        for t in gen():
            total = total + t
        return total

    check(f, (X, []))


def test_break_in_the_loop_over_it(check):
    def f(x, log):
        for i in counting(log):
            x = x + i
            print(i)
        return x

    check(f, (X, []))


def test_send(check):
    def f(x):
        def accumulate():
            total = 0
            while True:
                value = yield total
                if value is None:
                    return total
                total = total + value

        g = accumulate()
        next(g)
        a, b = g.send(x), g.send(x * 2)
        try:
            g.send(None)
        except StopIteration as stop:
            return a, b, stop.value

    check(f, (X,))


def test_send_to_one_just_started_raises(check):
    def f(x, log):
        y = x + 1
        try:
            counting(log).send(5)
        except TypeError as error:
            return y, str(error)

    check(f, (X, []))


def test_throw_and_close(check):
    def f(x, log):
        def gen():
            while True:
                try:
                    yield len(log)
                except ValueError as error:
                    log.append(str(error))
                except GeneratorExit:
                    log.append("exit")
                    raise

        g = gen()
        next(g)
        n = g.throw(ValueError("thrown"))
        g.close()
        g.close()
        return x + n, next(g, "over")

    check(f, (X, []))


def test_close_that_is_ignored_raises(check):
    def f(x):
        def gen():
            try:
                yield 1
            except GeneratorExit:
                yield 2

        y = x + 1
        g = gen()
        next(g)
        try:
            g.close()
        except RuntimeError as error:
            return y, str(error)

    check(f, (X,))


def test_yield_from(check):
    def f(x, log):
        def outer():
            result = yield from counting(log, 2)
            yield from [x, x + 1]
            yield result
            yield from (i * 10 for i in range(2))

        return list(outer())

    check(f, (X, []))


def test_yield_from_passes_sends_and_throws_on(check):
    def f(x):
        def inner():
            try:
                got = yield 1
                yield got * 2
            except KeyError:
                yield "caught"
            return "result"

        def outer():
            got = yield from inner()
            yield got

        a = outer()
        next(a)
        b = outer()
        next(b)
        return a.send(x), b.throw(KeyError), next(b)

    check(f, (X,))


def test_return_value_of_next_at_the_end(check):
    def f(x):
        def gen():
            yield 1
            return x + 1

        g = gen()
        next(g)
        try:
            next(g)
        except StopIteration as stop:
            return stop.value

    check(f, (X,))


def test_stop_iteration_inside_becomes_a_runtime_error(check):
    def f(x):
        def gen():
            yield 1
            raise StopIteration(5)

        y = x + 1
        try:
            return list(gen())
        except RuntimeError as error:
            return y, str(error), repr(error.__cause__)

    check(f, (X,))


def test_exception_leaves_it_and_it_is_finished(check):
    def f(x, log):
        def gen():
            yield 1
            raise KeyError("gen")

        g = gen()
        next(g)
        try:
            next(g)
        except KeyError:
            log.append("raised")
        return x + 1, list(g)

    check(f, (X, []))


def test_two_interleaved(check):
    def f(x):
        def gen(n):
            for i in range(3):
                yield x * i + n

        a, b = gen(1), gen(2)
        return [next(a), next(b), next(a)], list(zip(a, b))

    check(f, (X,), fullgraph=True)


def test_recursive(check):
    def f(x):
        def walk(tree):
            for item in tree:
                if isinstance(item, list):
                    yield from walk(item)
                else:
                    yield x * item

        return list(walk([1, [2, [3]], 4]))

    check(f, (X,), fullgraph=True)


def test_itself_already_running_raises(check):
    def f(x):
        def gen():
            yield next(g)

        y = x + 1
        g = gen()
        try:
            next(g)
        except ValueError as error:
            return y, str(error)

    check(f, (X,))


def test_generator_method_and_property_of_generators(check):
    class Tree:
        def __init__(self, v, *kids):
            self.v, self.kids = v, kids

        def __iter__(self):
            yield self.v
            for kid in self.kids:
                yield from kid

    check(lambda x, t: (x + 1, list(t), 3 in t, max(t), [*t][1:]), (X, Tree(1, Tree(2), Tree(3))))


def test_unpacking_takes_no_more_than_needed(check):
    def f(x, log):
        a, b, *rest = counting(log)
        c, d = itertools.islice(counting(log), 2)
        return x + a + b, rest, c, d

    check(f, (X, []))


def test_too_many_to_unpack(check):
    def f(x, log):
        y = x + 1
        try:
            a, b = counting(log, 5)
        except ValueError as error:
            log.append(str(error))
        return y

    check(f, (X, []))


def test_any_all_stop_early(check):
    def f(x, log):
        return (
            x + 1,
            any(i == 1 for i in counting(log)),
            all(i < 1 for i in counting(log)),
            1 in counting(log),
        )

    check(f, (X, []))


def test_itertools(check):
    def f(x):
        return (
            list(itertools.chain([x], (1,), "a")),
            list(itertools.islice(itertools.count(5, 2), 3)),
            list(itertools.product([1, 2], "ab")),
            list(itertools.accumulate([1, 2, 3], lambda a, b: a * b)),
            list(itertools.zip_longest([1], [2, 3], fillvalue=x)),
            list(itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1])),
            list(itertools.dropwhile(lambda v: v < 3, [1, 3, 1])),
            list(itertools.repeat(x, 2)),
            list(itertools.permutations([1, 2, 3], 2)),
            list(itertools.combinations("abc", 2)),
            list(itertools.starmap(pow, [(2, 3)])),
            [(k, list(g)) for k, g in itertools.groupby([1, 1, 2])],
            list(itertools.pairwise([1, 2, 3])),
            list(itertools.compress("abc", [1, 0, 1])),
        )

    check(f, (X,))


def test_tee_and_cycle(check):
    def f(x):
        a, b = itertools.tee(iter([1, 2, 3]))
        next(a)
        c = itertools.cycle([x, 1])
        return list(a), list(b), [next(c) for _ in range(3)]

    check(f, (X,))


def test_iter_with_a_sentinel(check):
    def f(x):
        items = [3, 2, 1, 0, 5]
        return x + 1, list(iter(lambda: items.pop(0), 0)), items

    check(f, (X,))


def test_zip_strict(check):
    def f(x):
        y = x + 1
        try:
            return list(zip([1, 2], [1], strict=True))
        except ValueError as error:
            return y, str(error)

    check(f, (X,))


def test_zip_consumes_as_in_eager(check):
    def f(x):
        a, b = iter([1, 2, 3]), iter([1])
        pairs = list(zip(a, b))
        return x + 1, pairs, list(a)

    check(f, (X,))


def test_reversed_sorted_enumerate_of_generators(check):
    def f(x):
        return (
            x + 1,
            sorted(i * -1 for i in range(3)),
            list(enumerate((i for i in "ab"), 1)),
            list(reversed([1, x])),
            sum(i for i in range(4)),
            dict((i, i) for i in range(2)),
            "".join(c for c in "abc"),
        )

    check(f, (X,))


def test_comprehensions_with_closures(check):
    def f(x, n):
        return (
            [[x * i + j * n for j in range(i)] for i in range(3)],
            {i: [k for k in range(i)] for i in range(2)},
            {i % 2 for i in range(4)},
        )

    check(f, (X, 2), (X, 3), fullgraph=True)


def test_exhausted_iterator_stays_exhausted(check):
    def f(x):
        items = [1]
        it = iter(items)
        a = list(it)
        items.append(2)
        return x + 1, a, list(it)

    check(f, (X,))


def test_iterator_from_outside_is_advanced(check):
    def program(compile):
        @compile
        def f(x, it):
            return x + next(it)

        it = iter([1, 2, 3])
        return f(X, it), f(X, it), list(it)

    check.script(program)


def test_coroutine_function_called_outside(check):
    def program(compile):
        async def work(x):
            return x + 1

        @compile
        def f(x):
            return work(x * 2)

        try:
            f(X).send(None)
        except StopIteration as stop:
            return stop.value

    check.script(program)


def test_compiled_generator_function(check):
    def program(compile):
        @compile
        def gen(x):
            for i in range(3):
                y = x * i
                got = yield y
                if got is not None:
                    yield y + got

        g = gen(X)
        return next(g), g.send(5), list(g)

    check.script(program)


class _NoException(Exception):
    """A class whose calls make something else."""

    def __new__(cls, *args):
        return cls


@pytest.mark.parametrize("thrown", [_NoException, 5, int])
@pytest.mark.parametrize("started", [False, True])
def test_what_is_no_exception_cannot_be_thrown(check, thrown, started):
    def inner(x):
        try:
            yield x + 1
        except TypeError as error:
            yield str(error)

    def f(x):
        g = inner(x)
        if started:
            next(g)
        try:
            return x * 2, g.throw(thrown)
        except TypeError as error:
            return x * 3, str(error)

    check(f, (X,))


class _Noted:
    """Says when it dies."""

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    def __del__(self) -> None:
        self.seen.append("gone")


def test_a_generator_at_its_end_keeps_no_argument_alive():
    def count(noted):
        yield len(noted.seen)

    @capture.compile(backend="eager")
    def f(x, seen):
        generator = count(_Noted(seen))
        first = next(generator)
        y = x + 1
        end = next(generator, None)
        capture.graph_break()
        return y, first, end, list(seen), generator

    for _ in range(2):
        y, first, end, seen, generator = f(torch.ones(2), [])
        assert torch.equal(y, torch.ones(2) + 1)
        assert (first, end, seen, list(generator)) == (0, None, ["gone"], [])


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("outer", [False, True])
def test_context_of_what_is_thrown_in(check, own, outer):
    def chain(error):
        names = []
        while error is not None:
            names.append(type(error).__name__)
            error = error.__context__
        return names

    def generate(log):
        try:
            if own:
                try:
                    raise IndexError
                except IndexError:
                    yield 1
            yield 2
        except ValueError as error:
            log.append(chain(error))
            yield 3
        except GeneratorExit as error:
            log.append(chain(error))
            raise KeyError from None

    def fn(x):
        log = []
        for act in (lambda it: it.throw(ValueError), lambda it: it.close()):
            it = generate(log)
            next(it)
            try:
                if outer:
                    try:
                        raise OSError
                    except OSError:
                        act(it)
                else:
                    act(it)
            except KeyError as error:
                log.append(chain(error))
        return x + 1, log

    check(fn, (torch.ones(2),))


class Places(collections.abc.Sequence):
    """Iterated by the generator that ``Sequence`` has: it stands in a ``try`` block."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def ignoring(items, log):
    try:
        try:
            for item in items:
                try:
                    yield item
                except (KeyError, ValueError) as error:
                    log.append(str(error))
        except TypeError:
            log.append("type")
    except IndexError:
        return


def noting(items, log):
    try:
        for item in items:
            try:
                yield item
            except ValueError:
                pass
    except BaseException:
        log.append("closed")
        raise


def finishing(items, log):
    for item in items:
        try:
            yield item
        finally:
            log.append(f"left {item}")


@pytest.mark.parametrize(
    ("make", "captured"),
    [
        (lambda items, log: Places(items), True),
        (ignoring, True),
        (noting, False),
        (finishing, False),
    ],
    ids=["sequence", "ignoring", "noting", "finishing"],
)
def test_generator_that_is_not_used_up(check, make, captured):
    def fn(x, names):
        log = []
        found = {name: x * item for name, item in zip(names, make([1, 2, 3], log))}
        first = next(iter(make([4, 5], log)))
        return found, x + first, log

    report = check(fn, (torch.ones(2), ["a", "b"]), (torch.ones(2), ["a"]), (torch.ones(2), []))
    assert (report.breaks == []) is captured


def test_name_of_an_exception_may_be_bound_anew(check):
    def script(decorate):
        space = {"KeyError": KeyError, "log": []}
        exec(
            "def each(items):\n"
            "    for item in items:\n"
            "        try:\n"
            "            yield item\n"
            "        except KeyError:\n"
            "            log.append(item)\n"
            "            raise\n"
            "def first(x):\n"
            "    return x * next(each([2, 3]))\n",
            space,
        )
        fn = decorate(space["first"])
        found = [fn(torch.ones(2)) for _ in range(2)]
        space["KeyError"] = GeneratorExit
        return found, fn(torch.ones(2)), space["log"]

    check.script(script)
