"""Random programs on symbolic sizes, each run at several shapes and compared with eager.

``python -m tests.conformance.fuzz_sizes --programs 500 --seed 0`` prints what differs, and how many
graphs were compiled; the exit status is the number of programs that differ.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from typing import Any

import torch

import capture
from capture.backends import GraphCounter
from tests.comparison import difference

_HEADER = "import torch\nimport torch.nn.functional as F\n\n\ndef program(x, y, n):\n"
_STATEMENTS = [
    "{t} = {a} + {b}", "{t} = {a} * {s}", "{t} = {a} - {a}.mean(-1, keepdim=True)",
    "{t} = {a}.transpose(0, 1)", "{t} = {a}.reshape({a}.shape[0], -1)", "{t} = {a}[:, : {s}]",
    "{t} = {a}[{s} // 2 :]", "{t} = torch.cat([{a}, {a}], {d})", "{t} = {a}.unsqueeze(0)[0]",
    "{t} = F.pad({a}, (0, {s} % 4))", "{t} = {a}.expand(2, *{a}.shape).sum(0)",
    "{t} = {a} @ {a}.transpose(-1, -2)", "{t} = {a}.softmax(-1)", "{t} = {a}.flatten()[None]",
    "{t} = torch.zeros({s}, {u}) + n", "{t} = torch.arange({s} + 1).to({a}.dtype)[None]",
    "{t} = {a}.clone()", "{a}[:, 0] = 1.5", "{t} = {a}.repeat(2, 1)", "{t} = {a}.chunk(2, 0)[0]",
    "{t} = {a}.contiguous().view(-1)[None]", "{t} = {a}.split(2, 1)[0]", "{t} = {a}.cumsum({d})",
    "{t} = {a}.narrow(0, 0, min({s}, {a}.shape[0]))", "{t} = {a}.permute(1, 0).contiguous()",
    "{t} = torch.stack([{a}, {a} * 2]).sum({d})", "{t} = {a} / {s}", "{t} = {a}.tril()",
    "{t} = {a}.new_ones({s}, 3)", "{t} = {a}.gt(0).to({a}.dtype)", "{t} = {a}[:, None].mean(1)",
]  # fmt: skip
_NUMBERS = [
    "{s} = {a}.shape[{d}]", "{s} = {u} + {v}", "{s} = {u} * 2 + 1", "{s} = {u} // 2 + 1",
    "{s} = max({u}, {v})", "{s} = min({u}, 5)", "{s} = {u} % 3 + 1", "{s} = {a}.numel() // 3 + 1",
    "{s} = len({a})", "{s} = abs({u} - {v}) + 1", "{s} = sum({a}.shape)", "{s} = -{u} % 7 + 1",
    "{s} = {a}.size()[-1]", "{s} = n + {u}",
]  # fmt: skip
_BLOCKS = [
    "if {u} > {k}:\n    {t} = {a} + 1\nelse:\n    {t} = {a} * 2",
    "if {u} == {v}:\n    {t} = {a} - 3\nelse:\n    {t} = {a}",
    "for i in range(min({u}, 3)):\n    {t} = {a} + i",
    "if {a}.shape == {b}.shape:\n    {t} = {a} + {b}\nelse:\n    {t} = {a} * 0.5",
    "try:\n    {t} = {a} + {b}\nexcept RuntimeError:\n    {t} = {a}",
]


def generate(generator: random.Random) -> str:
    """Return the text of one program: it takes two matrices and an int."""
    tensors, numbers, lines = ["x", "y"], ["x.shape[0]", "y.shape[1]"], []
    for step in range(generator.randint(2, 9)):
        forms = generator.choices([_STATEMENTS, _NUMBERS, _BLOCKS], [5, 3, 2])[0]
        form = generator.choice(forms)
        made_number = forms is _NUMBERS
        names = {
            "a": generator.choice(tensors), "b": generator.choice(tensors), "t": f"t{step}",
            "u": generator.choice(numbers), "v": generator.choice(numbers),
            "d": str(generator.randint(0, 1)), "k": str(generator.randint(2, 9)),
            "s": f"s{step}" if made_number else generator.choice(numbers),
        }  # fmt: skip
        lines.extend(form.format(**names).splitlines())
        if made_number:
            numbers.append(names["s"])
        elif "{t}" in form:
            tensors.append(names["t"])
    results = ", ".join([*tensors[-3:], *numbers[-2:]])
    return _HEADER + "".join(f"    {line}\n" for line in lines) + f"    return {results}\n"


def outcome(fn: Callable[..., Any], shapes: tuple[int, int, int, int], n: int) -> Any:
    """What a call gives or raises, and its arguments afterwards."""
    torch.manual_seed(1)
    x, y = torch.randn(shapes[:2]), torch.randn(shapes[2:])
    try:
        return "value", fn(x, y, n), x, y
    except Exception as error:
        return "error", type(error), x, y


def check(text: str, generator: random.Random, dynamic: bool | None) -> tuple[str | None, int]:
    """Run a program at four shapes; what differs, and the number of graphs."""
    space: dict[str, Any] = {}
    exec(compile(text, "<program>", "exec"), space)
    program = space["program"]
    counter = GraphCounter()
    compiled: Any = capture.compile(program, backend=counter, dynamic=dynamic)
    for call in range(4):
        b, t = generator.randint(1, 7), generator.randint(1, 7)
        shapes = (b, t, b, t) if generator.random() < 0.6 else (b, t, t, generator.randint(1, 7))
        n = generator.randint(-1, 6)
        expected, actual = outcome(program, shapes, n), outcome(compiled, shapes, n)
        found = difference(expected, actual)
        if found is not None:
            return f"call {call} at {shapes}, n={n}: {found}", counter.graph_count
    return None, counter.graph_count


def main() -> int:
    """Run programs; print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    failed = graphs = 0
    for number in range(options.seed, options.seed + options.programs):
        generator = random.Random(number)
        text = generate(generator)
        try:
            with capture.config.patch(suppress_errors=False):
                found, count = check(text, generator, generator.choice([None, True]))
        except Exception as error:
            found, count = f"{type(error).__name__}: {str(error)[:300]}", 0
        graphs += count
        capture.reset()
        if found is not None:
            failed += 1
            print(f"--- program {number}: {found}\n{text}", flush=True)
    print(f"{options.programs} programs, {graphs} graphs, {failed} differ")
    return failed


if __name__ == "__main__":
    sys.exit(main())
