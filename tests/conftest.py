"""Holds the oracle: a program is run eagerly and compiled, and everything visible must agree.

Compared are return values (types, bits, metadata, who refers to whom), arguments after the call,
gradients, printed text, exceptions (type, arguments, chain and the user's lines in the traceback),
on the first call, the cached call, after a guard failed, and back on the first arguments.
"""

from __future__ import annotations

import contextlib
import copy
import io
import os
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

pytest.importorskip("capture._native")

import capture
from capture import counters
from capture.backends import GraphCounter
from tests.comparison import difference

_SKIPPED = (os.path.dirname(os.path.abspath(__file__)) + os.sep + "conftest.py",)
_TESTS = os.path.dirname(os.path.abspath(__file__)) + os.sep


@dataclass
class Outcome:
    """What one call showed."""

    value: Any
    error: BaseException | None
    lines: list[tuple[str, int | None]]
    printed: str
    arguments: Any
    grads: Any = None


@dataclass
class Report:
    """What capture did while a program was checked."""

    counter: GraphCounter
    breaks: list[counters.BreakRecord] = field(default_factory=list)
    recompiles: list[counters.RecompileRecord] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    @property
    def graphs(self) -> int:
        """How many graphs were compiled."""
        return self.counter.graph_count

    @property
    def calls(self) -> int:
        """How many times a graph was called."""
        return self.counter.calls

    @property
    def ops(self) -> int:
        """How many operators all graphs have."""
        return sum(self.counter.op_counts)

    @property
    def reasons(self) -> set[str]:
        """The ids of the reasons for breaks."""
        return {b.reason_id for b in self.breaks}


def user_lines(error: BaseException | None) -> list[tuple[str, int | None]]:
    """The functions and lines of test files in a traceback, outermost first."""
    if error is None:
        return []
    frames = traceback.extract_tb(error.__traceback__)
    return [
        (f.name, f.lineno)
        for f in frames
        if f.filename.startswith(_TESTS) and f.filename not in _SKIPPED
    ]


def _scalars(value: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if value.requires_grad and value.grad_fn is not None and id(value) not in seen:
            seen.add(id(value))
            yield value.sum()
    elif isinstance(value, (list, tuple, dict)) and id(value) not in seen:
        seen.add(id(value))
        for item in value.values() if isinstance(value, dict) else value:
            yield from _scalars(item, seen)


def observe(fn: Callable[..., Any], args: Any, kwargs: dict[str, Any], backward: bool) -> Outcome:
    """Call and note everything visible."""
    out = io.StringIO()
    value: Any = None
    error: BaseException | None = None
    torch.manual_seed(7)
    with contextlib.redirect_stdout(out):
        try:
            value = fn(*args, **kwargs)
        except Exception as caught:
            error = caught
    outcome = Outcome(value, error, user_lines(error), out.getvalue(), (args, kwargs))
    if backward:
        losses = list(_scalars(value, set()))
        if losses:
            torch.autograd.backward(losses)
        outcome.grads = [t.grad for t in _leaves((args, kwargs))]
    return outcome


def _leaves(value: Any, seen: set[int] | None = None) -> Iterator[torch.Tensor]:
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        if value.is_leaf and value.requires_grad:
            yield value
    elif isinstance(value, torch.nn.Module):
        yield from value.parameters()
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item, seen)


def agree(expected: Outcome, actual: Outcome, when: str) -> None:
    """Fail with the first thing that differs."""
    if actual.error is not None and expected.error is None:
        raise AssertionError(f"{when}: raises {actual.error!r}, eager does not") from actual.error
    assert type(expected.error) is type(actual.error) or (
        type(expected.error).__qualname__ == type(actual.error).__qualname__
    ), f"{when}: eager raises {expected.error!r}, compiled {actual.error!r}"
    for name in ("error", "value", "printed", "arguments", "grads", "lines"):
        found = difference(getattr(expected, name), getattr(actual, name))
        assert found is None, f"{when}, {name}: {found}"
    # one comparison of everything, so that sharing between results and arguments is compared too
    found = difference((expected.value, expected.arguments), (actual.value, actual.arguments))
    assert found is None, f"{when}: {found}"


class Check:
    """The fixture ``check``: see ``__call__`` and ``script``. ``inner`` is the backend."""

    inner = "eager"

    def __call__(
        self,
        fn: Callable[..., Any],
        *argsets: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        fullgraph: bool = False,
        backward: bool = True,
        settings: dict[str, Any] | None = None,
    ) -> Report:
        """Compare ``fn`` on each tuple of arguments: first, cached, after the others, once more.

        Arguments are copied for every call (sharing within one tuple is kept). ``fn`` must keep no
        state elsewhere; what does goes to ``script``.
        """
        capture.reset()
        counter = GraphCounter(self.inner)
        compiled: Any = capture.compile(
            fn, backend=counter, fullgraph=fullgraph, **(settings or {})
        )
        report = Report(counter)
        order = [a for a in argsets for _ in range(2)] + list(argsets[:1])
        named = kwargs or {}
        for number, args in enumerate(order):
            expected = observe(fn, *copy.deepcopy((args, named)), backward)
            actual = observe(compiled, *copy.deepcopy((args, named)), backward)
            agree(expected, actual, f"call {number}")
            report.values.append(actual.value)
        stats = counters.snapshot()
        report.breaks, report.recompiles = stats.breaks, stats.recompiles
        return report

    def script(self, program: Callable[[Callable[..., Any]], Any], **settings: Any) -> Report:
        """Compare a whole program: it gets the decorator (or one that does nothing)."""
        capture.reset()
        counter = GraphCounter(self.inner)

        def decorate(fn: Any) -> Any:
            return capture.compile(fn, backend=counter, **settings)

        expected = observe(program, (lambda fn: fn,), {}, False)
        actual = observe(program, (decorate,), {}, False)
        expected.arguments = actual.arguments = None
        agree(expected, actual, "script")
        if expected.error is not None:
            raise AssertionError("the script itself raised") from expected.error
        stats = counters.snapshot()
        return Report(counter, stats.breaks, stats.recompiles, [actual.value])


@pytest.fixture
def check() -> Iterator[Check]:
    """The oracle; errors inside of capture are raised."""
    with capture.config.patch(suppress_errors=False):
        yield Check()
    capture.reset()
