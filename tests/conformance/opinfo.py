"""Sweeps torch's operator database: every OpInfo, compiled against eager.

    python -m tests.conformance.opinfo [--ops REGEX] [--samples N] [--shard I/N] [--list]

Each sample runs in float32 and in one integer, bool or complex type, forward and backward, as
function, method, operator, in place and with ``out=``, as far as the database lists them.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

from capture.config import patch
from tests.conformance.database import (
    Program,
    Row,
    check,
    check_together,
    copied,
    parser,
    sweep,
    tensors,
)


def _unseeded(op: Any, *args: Any, **kwargs: Any) -> Any:
    return op(*args, **kwargs)


# Some entries seed the generator inside of the call; here the caller does that.
for _module in [m for name, m in sys.modules.items() if name.startswith("torch.testing._internal")]:
    if "wrapper_set_seed" in vars(_module):
        vars(_module)["wrapper_set_seed"] = _unseeded

_OTHERS = (torch.int64, torch.bool, torch.complex64)


def dtypes_of(op: Any) -> list[torch.dtype]:
    """Float32 and one other type, by the entry's name."""
    supported = op.supported_dtypes("cpu")
    others = [dtype for dtype in _OTHERS if dtype in supported]
    found = [torch.float32] if torch.float32 in supported else []
    if others:
        found.append(others[zlib.crc32(op.name.encode()) % len(others)])
    return found or sorted(supported, key=str)[:1]


def function_program(function: Any) -> Program:
    """A call that leaves its arguments alone."""

    def program(first: Any, args: Any, kwargs: Any) -> Any:
        return function(first, *args, **kwargs)

    return program


def copy_program(function: Any) -> Program:
    """A call in place, on a copy so that gradients flow to the argument."""

    def program(first: Any, args: Any, kwargs: Any) -> Any:
        copy = first.clone()
        return function(copy, *args, **kwargs), copy

    return program


def out_program(function: Any) -> Program:
    """A call with ``out=``."""

    def program(first: Any, args: Any, kwargs: Any, out: Any) -> Any:
        return function(first, *args, **kwargs, out=out)

    return program


def programs(op: Any) -> Iterator[tuple[str, Program]]:
    """The ways to call an operator that leave its arguments alone."""
    yield "function", function_program(op.op)
    for name in ("method_variant", "operator_variant"):
        variant = getattr(op, name, None)
        if variant is not None and variant is not op.op:
            yield name.partition("_")[0], function_program(variant)


def _samples(op: Any, dtype: torch.dtype, grad: bool, count: int) -> list[Any]:
    torch.manual_seed(3)
    return list(islice(op.sample_inputs("cpu", dtype, requires_grad=grad), count))


def _arguments(sample: Any) -> tuple[Any, Any, Any]:
    return sample.input, tuple(sample.args), dict(sample.kwargs)


def _detached(value: Any) -> Any:
    value = copied(value)
    for tensor in tensors(value):
        tensor.requires_grad_(False)
    return value


def cases(op: Any, count: int) -> Iterator[Row]:
    """All cases of an entry."""
    numbers = "empty" not in op.name
    for dtype in dtypes_of(op):
        grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        kind = str(dtype).removeprefix("torch.")
        try:
            samples = _samples(op, dtype, grad, count)
        except Exception as error:
            yield Row(op.name, kind, "skipped", f"no samples: {error}")
            continue
        for n, sample in enumerate(samples):
            arguments = _arguments(sample)
            for name, program in programs(op):
                yield check(Row("", f"{name} {kind} {n}"), program, arguments, numbers=numbers)
            yield from _writing(op, sample, arguments, f"{kind} {n}", grad, numbers)


def cases_together(op: Any, count: int) -> Iterator[Row]:
    """One case for all samples of a type and way to call."""
    numbers = "empty" not in op.name
    with patch(recompile_limit=4 * count):
        for dtype in dtypes_of(op):
            grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
            try:
                samples = [_arguments(sample) for sample in _samples(op, dtype, grad, count)]
            except Exception as error:
                yield Row(op.name, str(dtype), "skipped", f"no samples: {error}")
                continue
            for name, program in programs(op):
                row = Row("", f"{name} {dtype} together")
                yield check_together(row, program, samples, numbers=numbers)


def _writing(
    op: Any, sample: Any, arguments: Any, case: str, grad: bool, numbers: bool
) -> Iterator[Row]:
    bare = _detached(arguments)
    for name in ("inplace_variant", "inplace_operator_variant"):
        variant = getattr(op, name, None)
        if variant is None or sample.broadcasts_input or not isinstance(bare[0], torch.Tensor):
            continue
        label = name.removesuffix("_variant").replace("_", " ")
        yield check(Row("", f"{label} {case}"), function_program(variant), bare, numbers=numbers)
        if grad and op.supports_inplace_autograd:
            row = Row("", f"{label} gradient {case}")
            yield check(row, copy_program(variant), arguments, numbers=numbers)
    if op.supports_out:
        out = _outputs(op, bare)
        if out is not None:
            row = Row("", f"out= {case}")
            yield check(row, out_program(op.op), (*bare, out), numbers=numbers)


def _outputs(op: Any, arguments: Any) -> Any:
    """Tensors to write the results to, or None."""
    try:
        first, args, kwargs = copied(arguments)
        result = op.op(first, *args, **kwargs)
    except Exception:
        return None
    if isinstance(result, torch.Tensor):
        return torch.zeros_like(result)
    if isinstance(result, tuple | list) and all(isinstance(t, torch.Tensor) for t in result):
        return tuple(torch.zeros_like(t) for t in result)
    return None


def entries() -> list[tuple[str, Any]]:
    """Name and entry of all operators."""
    return [(f"{op.name}.{op.variant_test_name}".rstrip("."), op) for op in op_db]


def main(arguments: list[str] | None = None) -> int:
    """Run the sweep."""
    made = parser(__doc__)
    made.add_argument(
        "--together", action="store_true", help="one compiled function for all samples of an entry"
    )
    options = made.parse_args(arguments)
    if options.together:
        return sweep("Operators, all samples together", entries(), cases_together, options)
    return sweep("Operators (OpInfo)", entries(), cases, options)


if __name__ == "__main__":
    sys.exit(main())
