"""Sweeps torch's module database: every ModuleInfo, in training and evaluation, with gradients.

    python -m tests.conformance.moduleinfo [--ops REGEX] [--samples N] [--shard I/N] [--list]

The second call of each case gets a copy of the module: another instance of equal structure has to
be served by what was compiled for the first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.common_modules import module_db

from tests.conformance.database import Row, check, copied, parser, sweep


def program(module: Any, args: Any, kwargs: Any) -> Any:
    """One call of a module."""
    return module(*args, **kwargs)


def cases(info: Any, count: int) -> Iterator[Row]:
    """All cases of an entry."""
    dtypes = [d for d in (torch.float32,) if d in info.supported_dtypes("cpu")]
    for dtype in dtypes or list(info.supported_dtypes("cpu"))[:1]:
        for training in (True, False):
            mode = "train" if training else "eval"
            torch.manual_seed(3)
            inputs = info.module_inputs_func(
                info, device="cpu", dtype=dtype, requires_grad=True, training=training
            )
            for n, given in enumerate(islice(inputs, 3 * count)):
                row = Row("", f"{mode} {n} {given.desc}".strip())
                if given.forward_input is None:
                    continue
                made = given.constructor_input
                module = info.module_cls(*made.args, **made.kwargs).to(dtype)
                module.train(training)
                forward = given.forward_input
                arguments = (module, tuple(forward.args), dict(forward.kwargs))
                yield check(row, program, arguments)
                if info.is_lazy:  # the first call gives it parameters, and another class
                    module(*copied(arguments[1]), **copied(arguments[2]))
                    module.zero_grad()
                    yield check(Row("", f"{row.case} initialized"), program, arguments)


def entries() -> list[tuple[str, Any]]:
    """Name and entry of all modules."""
    return [(info.name, info) for info in module_db]


def main(arguments: list[str] | None = None) -> int:
    """Run the sweep."""
    options = parser(__doc__).parse_args(arguments)
    return sweep("Modules (ModuleInfo)", entries(), cases, options)


if __name__ == "__main__":
    sys.exit(main())
