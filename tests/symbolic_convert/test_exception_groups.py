"""``except*``: groups are split, what is raised in clauses is merged, and nothing breaks."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch

X = torch.tensor([1.0, -2.0, 3.0])


class Tagged(ExceptionGroup):
    def __new__(cls, message, exceptions, tag):
        made = super().__new__(cls, message, exceptions)
        made.tag = tag
        return made

    def derive(self, exceptions):
        return Tagged(self.message, exceptions, self.tag)


def nested():
    return ExceptionGroup(
        "outer", [ValueError(1), ExceptionGroup("inner", [TypeError(2), ValueError(3)]), OSError(4)]
    )


def shape_of(exc):
    if isinstance(exc, BaseExceptionGroup):
        return type(exc).__name__, exc.message, [shape_of(e) for e in exc.exceptions]
    return type(exc).__name__, exc.args


def test_each_clause_gets_its_part(check):
    def f(x):
        seen = []
        try:
            raise nested()
        except* ValueError as group:
            seen.append(shape_of(group))
        except* (TypeError, OSError) as group:
            seen.append(shape_of(group))
        return x + 1, seen

    assert not check(f, (X,)).breaks


def test_a_naked_exception_is_wrapped(check):
    def f(x):
        try:
            raise ValueError(7)
        except* ValueError as group:
            found = repr(group), str(group), group.__traceback__ is None
        return x * 2, found

    assert not check(f, (X,)).breaks


def test_the_rest_goes_on(check):
    def f(x):
        try:
            try:
                raise nested()
            except* OSError:
                x = x + 1
        except ExceptionGroup as group:
            return x, shape_of(group)

    assert not check(f, (X,)).breaks


def test_what_clauses_raise_is_merged_with_what_they_raise_again(check):
    def f(x, again):
        try:
            try:
                raise nested()
            except* ValueError:
                if again:
                    raise
                raise KeyError("new")  # noqa: B904
            except* TypeError as group:
                raise group.exceptions[0]
        except BaseException as group:
            return x + 1, shape_of(group), repr(group.__context__)

    assert not check(f, (X, True), (X, False)).breaks


def test_catching_groups_is_refused(check):
    def f(x):
        try:
            try:
                raise ValueError(1)
            except* ExceptionGroup:
                pass
        except TypeError as error:
            return x + 1, str(error)

    assert not check(f, (X,)).breaks


@pytest.mark.parametrize("wanted", [ValueError, (TypeError, OSError), KeyError])
def test_split_and_subgroup_keep_what_is_known_of_a_group(check, wanted):
    def f(x):
        group = nested()
        group.add_note("noted")
        group.__cause__ = KeyError(5)
        parts = [*group.split(wanted), group.subgroup(wanted)]
        return x + 1, [
            None if p is None else (shape_of(p), p.__notes__, repr(p.__cause__)) for p in parts
        ]

    assert not check(f, (X,)).breaks


def test_split_by_a_predicate(check):
    def f(x):
        parts = nested().split(lambda e: isinstance(e, ValueError) and e.args[0] == 3)
        return x + 1, [shape_of(p) for p in parts]

    assert not check(f, (X,)).breaks


def test_a_subclass_derives_its_parts(check):
    def f(x):
        match, rest = Tagged("t", [ValueError(1), TypeError(2)], 9).split(ValueError)
        return x + 1, match.tag, rest.tag, shape_of(match), shape_of(rest)

    assert not check(f, (X,)).breaks


@pytest.mark.parametrize(
    "args",
    [(), ("a",), ("a", []), ("a", 3), (1, [ValueError()]), ("a", [ValueError(), 2]),
     ("a", [KeyboardInterrupt()])],
)  # fmt: skip
def test_arguments_that_make_no_group(check, args):
    def f(x):
        seen = []
        for kind in (ExceptionGroup, BaseExceptionGroup):
            try:
                seen.append(type(kind(*args)).__name__)
            except (TypeError, ValueError) as error:
                seen.append((type(error).__name__, str(error)))
        return x + 1, seen

    check(f, (X,))


def test_a_group_made_here_leaves_the_frame(check):
    def f(x):
        return x + 1, nested(), BaseExceptionGroup("b", (SystemExit(3),))

    value = check(f, (X,)).values[-1]
    assert shape_of(value[1]) == shape_of(nested())
    assert value[2].exceptions[0].code == 3
