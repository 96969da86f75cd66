"""Recompiles: what makes one, what they cost at most, and that old entries stay in use."""

# mypy: ignore-errors

from __future__ import annotations

import enum

import pytest
import torch

import capture
from capture import counters

X = torch.tensor([1.0, -2.0, 3.0])


def test_limit_keeps_the_old_entries_and_runs_the_rest_eagerly(check, caplog):
    def f(x, word):
        return x + len(word)

    words = ["a" * i for i in range(1, 8)]
    with capture.config.patch(recompile_limit=3):
        report = check(f, *[(X, w) for w in words])
    assert report.graphs == 3


def test_limit_is_said_once(caplog):
    caplog.set_level("WARNING", logger="capture")
    f = capture.compile(lambda x, word: x + len(word), backend="eager")
    with capture.config.patch(recompile_limit=2):
        for i in range(6):
            f(X, "a" * i)
    assert sum("recompile limit" in r.getMessage() for r in caplog.records) == 1


def _said_at_the_limit(caplog, fn, *calls):
    caplog.clear()
    caplog.set_level("WARNING", logger="capture")
    f = capture.compile(fn, backend="eager")
    with capture.config.patch(recompile_limit=4):
        for args in calls:
            f(*args)
    (text,) = [r.getMessage() for r in caplog.records if "recompile limit" in r.getMessage()]
    return text


def test_the_source_of_many_constants_is_named_with_the_remedy(caplog):
    text = _said_at_the_limit(
        caplog, lambda x, word: x + len(word), *[(X, "a" * n) for n in range(1, 7)]
    )
    assert "`word`" in text
    assert "4 constants: 'aaaa', 'aaa', 'aa', 'a'" in text
    assert "one function for each value" in text


def test_enum_members_are_named_as_constants(caplog):
    mode = enum.Enum("mode", "a b c d e f")

    def program(x, m):
        return x + 1 if m is mode.a else x + 2

    text = _said_at_the_limit(caplog, program, *[(X, m) for m in mode])
    assert "`m`" in text
    assert "mode.d, mode.c, mode.b, mode.a" in text


def test_a_size_that_is_taken_for_a_constant_is_named_with_its_line(caplog):
    def program(x):
        return x + 1, [0] * x.shape[0]

    text = _said_at_the_limit(caplog, program, *[(torch.ones(n),) for n in range(2, 9)])
    assert "`x.shape[0]`" in text
    assert "test_recompile.py" in text
    assert "move it out of the compiled function" in text


def test_limit_can_be_an_error():
    f = capture.compile(lambda x, word: x + len(word), backend="eager")
    with (
        capture.config.patch(recompile_limit=2, fail_on_recompile_limit_hit=True),
        pytest.raises(capture.FailOnRecompileLimitHit),
    ):
        for i in range(6):
            f(X, "a" * i)


def test_every_recompile_can_be_an_error():
    f = capture.compile(lambda x, word: x + len(word), backend="eager")
    with capture.config.patch(error_on_recompile=True):
        f(X, "a")
        f(X, "a")
        with pytest.raises(capture.RecompileError, match="`word` changed from 'a' to 'bb'"):
            f(X, "bb")


def test_reason_names_the_guard_and_the_line(check):
    class Thing:
        scale = 1.5

    def program(compile):
        o = Thing()
        f = compile(lambda x: x * o.scale)
        first = f(X)
        o.scale = "no"
        try:
            f(X)
        except TypeError:
            return first

    report = check.script(program)
    assert len(report.recompiles) == 1
    assert "scale" in report.recompiles[0].sentence
    assert "test_recompile.py" in report.recompiles[0].user_location


def test_most_recent_entry_is_tried_first_and_all_stay(check):
    report = check(lambda x: x + 1, (X,), (torch.ones(2),), (torch.ones(2, 2),), (X.double(),))
    assert report.graphs == 4


def test_metadata_that_matters_makes_a_new_graph(check):
    variants = [
        X,
        X.clone().requires_grad_(),
        X.to(torch.float64),
        torch.ones(3, 3).t()[0],
        torch.ones(6)[::2],
        torch.nn.Parameter(X.clone()),
    ]
    check(
        lambda x: (x * 2, type(x).__name__, x.requires_grad, x.is_contiguous()),
        *[(v,) for v in variants],
    )


def test_grad_mode_is_guarded(check):
    def program(compile):
        f = compile(lambda x: x * 2)
        x = X.clone().requires_grad_()
        a = f(x)
        with torch.no_grad():
            b = f(x)
        with torch.inference_mode():
            c = f(x).is_inference()
        return a, b, c, f(x)

    check.script(program)


def test_default_dtype_is_guarded(check):
    def program(compile):
        f = compile(lambda x: x + torch.ones(3))
        first = f(X)
        try:
            torch.set_default_dtype(torch.float64)
            return first, f(X)
        finally:
            torch.set_default_dtype(torch.float32)

    check.script(program)


def test_same_structure_of_modules_compiles_once():
    blocks = [torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()) for _ in range(5)]
    counters.reset()
    f = capture.compile(lambda x, block: block(x), backend="eager")
    for block in blocks:
        assert torch.equal(f(X, block), block(X))
    assert counters.snapshot().graphs == 1


def test_reset_forgets():
    f = capture.compile(lambda x: x + 1, backend="eager")
    f(X)
    capture.reset()
    f(X)
    assert counters.snapshot().graphs == 1


def test_frame_that_had_no_tensor_work_at_first_is_captured_later(check):
    def f(x, cache):
        if "y" not in cache:
            return None
        return x + cache["y"]

    assert check(f, (X, {}), (X, {"y": 1})).graphs == 1


def test_bound_native_class_methods_are_told_by_their_class_and_name(check):
    def f(x):
        convert = int.from_bytes
        capture.graph_break()
        return x + convert(b"\x01", "big")

    assert check(f, (X,), (X,), (X,)).recompiles == []


def test_site_whose_entries_go_with_their_objects_is_given_up_at_last():
    class Key:
        pass

    def f(x, key):
        return x + 1 if key is not None and {key: 1}[key] else x

    kept = Key()
    with capture.config.patch(recompile_limit=2):
        compiled = capture.compile(f, backend="eager")
        for _ in range(60):
            compiled(X, Key())
        assert counters.snapshot().graphs <= 33
        assert compiled(X, kept).equal(X + 1)
