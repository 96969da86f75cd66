"""Enum members that are numbers or texts: as operands, indices and arguments, in one graph."""

# mypy: ignore-errors

from __future__ import annotations

import enum

import pytest
import torch

X = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


class Whole(enum.IntEnum):
    ONE = 1
    TWO = 2


class Real(float, enum.Enum):
    HALF = 0.5


class Text(str, enum.Enum):
    SUM = "sum"
    MEAN = "mean"


class Switch(enum.IntFlag):
    A = 1
    B = 2


class Own(enum.IntEnum):
    ONE = 1

    def __add__(self, other):
        return "own", other

    def __len__(self):
        return 7


EXPRESSIONS = {
    "times": lambda x: x * Whole.TWO,
    "from_left": lambda x: Whole.TWO * x,
    "power": lambda x: x**Whole.TWO,
    "real": lambda x: (x + Real.HALF, Real.HALF * 2, -Real.HALF),
    "sum": lambda x: (x, Whole.ONE + 1, 1 + Whole.ONE, Whole.ONE + Whole.TWO, Whole.TWO**2),
    "bits": lambda x: (x, Whole.ONE | 2, Whole.TWO << 1, Switch.A | 2, Switch.A & 1, ~Whole.ONE),
    "unary": lambda x: (x, -Whole.TWO, +Whole.TWO, abs(Whole.TWO)),
    "compare": lambda x: (x, Whole.ONE < 2, Whole.ONE == 1, 2 >= Whole.TWO, Whole.ONE < Whole.TWO),
    "compare_text": lambda x: (x, Text.SUM == "sum", "a" < Text.SUM, Text.SUM != Text.MEAN),
    "truth": lambda x: (x, bool(Whole.ONE), not Text.SUM, 1 if Whole.TWO else 2),
    "convert": lambda x: (x, int(Whole.TWO), float(Whole.TWO), float(Real.HALF)),
    "index": lambda x: (x[Whole.ONE], x[:, Whole.ONE], [1, 2, 3][Whole.TWO], (1, 2)[: Whole.ONE]),
    "range": lambda x: (x, list(range(Whole.TWO)), [0] * Whole.TWO, "ab" * Whole.TWO),
    "key": lambda x: (x, {1: "a", 2: "b"}[Whole.TWO], {"sum": 1}[Text.SUM], Whole.ONE in (1, 2)),
    "text": lambda x: (
        x,
        len(Text.SUM),
        Text.SUM + "!",
        "a" + Text.SUM,
        Text.SUM[0],
        "u" in Text.SUM,
    ),
    "methods": lambda x: (x, Text.SUM.upper(), Text.SUM.startswith("s"), list(Text.SUM)),
    "join": lambda x: (x, "-".join([Text.SUM, Text.MEAN]), "-".join(Text.SUM)),
    "format": lambda x: (x, f"{Whole.ONE}", f"{Text.SUM}", "%s" % Text.SUM, "%d" % Whole.ONE),
    "repr": lambda x: (x, repr(Text.SUM), str(Whole.ONE), "{}".format(Text.SUM)),
    "sizes": lambda x: (torch.ones(Whole.TWO, Whole.ONE), x.reshape(Whole.TWO, -1)),
    "dimension": lambda x: (x.sum(Whole.ONE), x.mean(dim=Whole.ONE), torch.cat([x, x], Whole.ONE)),
    "argument": lambda x: torch.nn.functional.l1_loss(x, x * 2, reduction=Text.SUM),
    "method_by_name": lambda x: getattr(x, Text.SUM)(),
    "own": lambda x: (x, Own.ONE + 1, 1 + Own.ONE, len(Own.ONE), x * Own.ONE),
    "divmod": lambda x: (x, divmod(7, Whole.TWO), 7 // Whole.TWO, 7 % Whole.TWO, round(Real.HALF)),
    "extremes": lambda x: (x, max(Whole), min(Whole.ONE, 5), sum(Whole), sorted(Whole)),
    "bytes": lambda x: (x, Whole.TWO.to_bytes(1, "big"), Whole.TWO.bit_length(), Whole.TWO.real),
}


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_value(check, expression):
    report = check(expression, (X,))
    assert not report.breaks, report.breaks


def test_member_from_outside(check):
    def fn(x, mode, scale):
        if mode == Text.SUM:
            return x.sum() * scale
        return x.mean(scale - 1) + scale

    report = check(fn, (X, Text.SUM, Whole.TWO), (X, Text.MEAN, Whole.ONE), fullgraph=True)
    assert report.graphs == 2


def test_of_two_members_each_has_its_graph(check):
    def fn(x, scale):
        return x * scale + len([0] * scale)

    check(fn, (X, Whole.ONE), (X, Whole.TWO), (X, 2), fullgraph=True)
