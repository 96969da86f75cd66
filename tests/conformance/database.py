"""Holds what the sweeps of torch's databases share: copies, comparison, counting, the report.

A *case* is one call of a program with arguments. It is run eagerly (twice, to see whether its
numbers are determined at all) and compiled (twice: cold and from the cache); values, gradients,
arguments after the call and exceptions must agree.
"""

from __future__ import annotations

import argparse
import collections
import copy
import dataclasses
import json
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

import capture
from capture import counters
from capture.backends import GraphCounter

Program = Callable[..., Any]


@dataclasses.dataclass
class Row:
    """What came of one case."""

    entry: str  # the entry of the database
    case: str  # variant, dtype, number of the sample
    verdict: str = "equal"  # "equal", "differs", "internal error", "skipped"
    detail: str = ""
    graphs: int = 0
    breaks: list[str] = dataclasses.field(default_factory=list)
    whole: bool = False  # one graph without a break


@dataclasses.dataclass
class Seen:
    """Everything visible of one call."""

    value: Any = None
    error: BaseException | None = None
    grads: Any = None
    arguments: Any = None


# --- copies --------------------------------------------------------------------------------------


def copied(value: Any) -> Any:
    """A deep copy that keeps sharing, strides and ``requires_grad``."""
    try:
        return copy.deepcopy(value)
    except Exception:
        return _copied(value)


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        made = value.detach().clone()
        return made.requires_grad_(value.requires_grad)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_copied, value))
    if isinstance(value, list | tuple):
        return type(value)(map(_copied, value))
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return value


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in nested containers and modules."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, torch.nn.Module):
        yield from value.parameters()
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)


# --- comparison ----------------------------------------------------------------------------------


def difference(a: Any, b: Any, path: str = "value", numbers: bool = True) -> str:
    """The first difference in words, or an empty text; ``numbers`` False compares metadata only."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return _tensor_difference(a, b, path, numbers)
    if type(a) is not type(b):
        return f"{path}: {type(a).__name__} became {type(b).__name__}"
    if isinstance(a, torch.nn.Module):
        return difference(a.state_dict(), b.state_dict(), path, numbers)
    if isinstance(a, list | tuple):
        if len(a) != len(b):
            return f"{path}: length {len(a)} became {len(b)}"
        pairs: Iterable[tuple[Any, Any, Any]] = zip(range(len(a)), a, b, strict=True)
    elif isinstance(a, dict):
        if list(a) != list(b):
            return f"{path}: keys {list(a)} became {list(b)}"
        pairs = ((key, a[key], b[key]) for key in a)
    elif isinstance(a, float | complex):
        return "" if repr(a) == repr(b) or not numbers else f"{path}: {a!r} became {b!r}"
    elif isinstance(a, int | str | torch.dtype | torch.device | torch.Size | None):
        return "" if a == b or (not numbers and type(a) in (int, bool)) else f"{path}: {a} -> {b}"
    else:
        return ""
    for key, x, y in pairs:
        found = difference(x, y, f"{path}[{key!r}]", numbers)
        if found:
            return found
    return ""


def _tensor_difference(a: torch.Tensor, b: torch.Tensor, path: str, numbers: bool) -> str:
    if type(a) is not type(b):
        return f"{path}: {type(a).__name__} became {type(b).__name__}"
    names = ["shape", "dtype", "device", "layout", "requires_grad", "is_leaf"]
    for name in names:
        x, y = getattr(a, name), getattr(b, name)
        if x != y:
            return f"{path}.{name}: {x} became {y}"
    if (a.grad_fn is None) != (b.grad_fn is None):
        return f"{path}.grad_fn: {a.grad_fn} became {b.grad_fn}"
    if a.layout is torch.strided:
        for read in (torch.Tensor.stride, torch.Tensor.storage_offset, torch.Tensor.is_conj,
                     torch.Tensor.is_neg, torch.Tensor._is_view):  # fmt: skip
            if read(a) != read(b):
                return f"{path}.{read.__name__}: {read(a)} became {read(b)}"
    if not numbers or a.is_meta:
        return ""
    if a.layout is not torch.strided:
        a, b = a.detach().to_dense(), b.detach().to_dense()
    if a.is_quantized:
        a, b = a.int_repr(), b.int_repr()
    a, b = a.detach().resolve_conj().resolve_neg(), b.detach().resolve_conj().resolve_neg()
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    if a.is_floating_point() and a.dtype.itemsize == 1:
        a, b = a.float(), b.float()
    if a.is_floating_point():
        same = torch.equal(a.isnan(), b.isnan()) and torch.equal(
            a.nan_to_num(0.0, 1e30, -1e30), b.nan_to_num(0.0, 1e30, -1e30)
        )
    else:
        same = torch.equal(a, b)
    return "" if same else f"{path}: other numbers"


def shared(value: Any, arguments: Any) -> list[Any]:
    """Which tensors of the result are, or share memory with, which of all tensors."""
    every = [*tensors(value), *tensors(arguments)]
    names: list[Any] = []
    for n, t in enumerate(every):
        same = next(i for i, other in enumerate(every) if other is t)
        base = n
        if t.layout is torch.strided and not t.is_meta:
            cdata = t.untyped_storage()._cdata
            base = next(
                i
                for i, other in enumerate(every)
                if other.layout is torch.strided and other.untyped_storage()._cdata == cdata
            )
        names.append((same, base))
    return names


def run(program: Program, arguments: Any, leaves: Any) -> Seen:
    """Call a program and its backward; ``leaves`` are what gradients are taken of."""
    seen = Seen(arguments=arguments)
    torch.manual_seed(11)
    try:
        seen.value = program(*arguments)
    except Exception as error:
        seen.error = error
        return seen
    inputs = [t for t in tensors(leaves) if t.is_leaf and t.requires_grad]
    outputs = [t for t in tensors(seen.value) if t.grad_fn is not None]
    if inputs and outputs:
        torch.manual_seed(12)
        try:
            seeds = [
                torch.randn_like(t) if t.layout is torch.strided else torch.ones_like(t)
                for t in outputs
            ]
            seen.grads = list(torch.autograd.grad(outputs, inputs, seeds, allow_unused=True))
        except Exception as error:
            seen.error = error
    return seen


def disagreement(expected: Seen, actual: Seen, numbers: bool) -> str:
    """The first difference between two calls, in words."""
    if type(expected.error) is not type(actual.error):
        return f"eager raises {_line(expected.error)}, captured {_line(actual.error)}"
    if expected.error is not None and _line(expected.error) != _line(actual.error):
        return f"eager raises {_line(expected.error)}, captured {_line(actual.error)}"
    return (
        difference(expected.value, actual.value, "result", numbers)
        or difference(expected.arguments, actual.arguments, "argument", numbers)
        or difference(expected.grads, actual.grads, "gradient", numbers)
        or difference(
            shared(expected.value, expected.arguments),
            shared(actual.value, actual.arguments),
            "sharing",
        )
    )


def _line(error: BaseException | None) -> str:
    if error is None:
        return "nothing"
    text = str(error).splitlines()
    return re.sub(r"0x[0-9a-f]+", "0x", f"{type(error).__name__}: {text[0] if text else ''}")


def _determined(program: Program, arguments: Any, expected: Seen) -> bool:
    """Whether eager gives the same numbers again and again (memory may decide the last bits)."""
    for _ in range(5):
        given = copied(arguments)
        if disagreement(expected, run(program, given, given), True):
            return False
    return True


def check(
    row: Row, program: Program, arguments: Any, *, numbers: bool = True, calls: int = 2
) -> Row:
    """Run a case and fill its row."""
    try:
        given = copied(arguments)
        expected = run(program, given, given)
        given = copied(arguments)
        again = run(program, given, given)
        numbers = numbers and not disagreement(expected, again, True)
    except Exception as error:
        row.verdict, row.detail = "skipped", f"eager: {_line(error)}"
        return row
    if not numbers and disagreement(expected, again, False):
        row.verdict, row.detail = "skipped", "eager differs from itself"
        return row
    torch.manual_seed(11)
    capture.reset()
    counter = GraphCounter()
    compiled = capture.compile(program, backend=counter)
    for _ in range(calls):
        given = copied(arguments)
        actual = run(compiled, given, given)
        if isinstance(actual.error, capture.errors.InternalError):
            row.verdict = "internal error"
            cause = actual.error.__cause__ or actual.error
            row.detail = f"{type(cause).__name__}: {cause}".splitlines()[0]
            break
        found = disagreement(expected, actual, numbers)
        if found and numbers and not _determined(program, arguments, expected):
            found = disagreement(expected, actual, False)
        if found:
            row.verdict, row.detail = "differs", found
            break
    stats = counters.snapshot()
    row.graphs = counter.graph_count
    row.breaks = sorted(
        {
            f"{b.reason_id} {b.detail or b.title}"
            for b in stats.breaks
            if b.reason_id != "CAP0009" or expected.error is None
        }
    )
    made = list(tensors(expected.value))
    known = {id(t) for t in tensors(expected.arguments)}
    needs_graph = any(id(t) not in known for t in made)
    row.whole = not row.breaks and (
        row.graphs == 1 or (row.graphs == 0 and not needs_graph) or expected.error is not None
    )
    return row


def check_together(row: Row, program: Program, samples: list[Any], *, numbers: bool) -> Row:
    """As ``check`` with one compiled function for all samples: guards must tell them apart.

    The samples come in order and backwards, so that all but the last are met in the cache.
    """
    capture.reset()
    counter = GraphCounter()
    compiled = capture.compile(program, backend=counter)
    for n in [*range(len(samples)), *reversed(range(len(samples)))]:
        given = copied(samples[n])
        expected = run(program, given, given)
        given = copied(samples[n])
        actual = run(compiled, given, given)
        found = disagreement(expected, actual, numbers)
        if found and numbers and not _determined(program, samples[n], expected):
            found = disagreement(expected, actual, False)
        if isinstance(actual.error, capture.errors.InternalError):
            row.verdict, found = "internal error", repr(actual.error.__cause__)
        elif found:
            row.verdict = "differs"
        if found:
            row.detail = f"sample {n}: {found}"
            break
    row.graphs = counter.graph_count
    row.whole = not counters.snapshot().breaks
    return row


# --- the command ---------------------------------------------------------------------------------


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that all sweeps have."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--ops", metavar="REGEX", default="", help="only entries whose name matches")
    made.add_argument("--progress", action="store_true", help="print each row as it ends")
    made.add_argument("--samples", type=int, default=3, help="samples of each entry")
    made.add_argument("--shard", default="1/1", metavar="I/N", help="only this part of the entries")
    made.add_argument("--json", metavar="FILE", help="add the rows to this file, one a line")
    made.add_argument("--from-json", metavar="FILE", help="run nothing, report these rows")
    made.add_argument("--write-docs", metavar="FILE", help="write this sweep's part of the page")
    made.add_argument("--list", action="store_true", help="list what differs or breaks, by reason")
    return made


def chosen(entries: list[Any], options: argparse.Namespace) -> list[Any]:
    """The entries (pairs of a name and something) asked for."""
    part, of = map(int, options.shard.split("/"))
    found = [entry for entry in entries if re.search(options.ops, entry[0])]
    return found[part - 1 :: of]


def sweep(
    title: str,
    entries: list[Any],
    cases: Callable[[Any, int], Iterator[Row]],
    options: argparse.Namespace,
) -> int:
    """Run the cases of the entries chosen, report, and return the exit status."""
    if options.from_json:
        lines = Path(options.from_json).read_text().splitlines()
        rows = [Row(**json.loads(line)) for line in lines]
        rows = [row for row in rows if re.search(options.ops, row.entry)]
    else:
        rows = list(_run_all(chosen(entries, options), cases, options))
    print(table(title, rows))
    if options.list:
        print(listing(rows))
    if options.write_docs:
        write_docs(Path(options.write_docs), title, rows)
    return 0 if all(row.verdict in ("equal", "skipped") for row in rows) else 1


def _run_all(
    entries: list[Any], cases: Callable[[Any, int], Iterator[Row]], options: argparse.Namespace
) -> Iterator[Row]:
    out = open(options.json, "a") if options.json else None
    for name, entry in entries:
        started = time.perf_counter()
        with warnings.catch_warnings(), capture.config.patch(suppress_errors=False):
            warnings.simplefilter("ignore")
            for row in cases(entry, options.samples):
                row.entry = name
                if out is not None:
                    out.write(json.dumps(dataclasses.asdict(row)) + "\n")
                    out.flush()
                if options.progress:
                    print(progress(row, time.perf_counter() - started), flush=True)
                yield row
        took = time.perf_counter() - started
        if took > 20 and os.environ.get("SWEEP_VERBOSE"):
            print(f"{name}: {took:.1f} s", flush=True)


def progress(row: Row, seconds: float) -> str:
    """One line for a row that has just ended, ``seconds`` after its entry began."""
    line = f"{row.entry} {row.case}: {row.verdict}, {row.graphs} graphs, {seconds:.0f} s"
    return "; ".join([line, *row.breaks, *([row.detail] if row.detail else [])])


def table(title: str, rows: list[Row]) -> str:
    """The figures."""
    ran = [row for row in rows if row.verdict != "skipped"]
    verdicts = collections.Counter(row.verdict for row in rows)
    whole = sum(row.whole and row.verdict == "equal" for row in ran)
    entries = {row.entry for row in ran}
    good = entries - {row.entry for row in ran if not row.whole}
    share = 100 * whole / max(len(ran), 1)
    return "\n".join(
        [
            f"{title}: {len(entries)} entries, {len(ran)} cases",
            f"  equal to eager       {verdicts['equal']:6d}  "
            f"{100 * verdicts['equal'] / max(len(ran), 1):6.2f} %",
            f"  differ               {verdicts['differs']:6d}",
            f"  internal errors      {verdicts['internal error']:6d}",
            f"  one graph, no break  {whole:6d}  {share:6.2f} %  "
            f"(entries without any break: {len(good)} of {len(entries)})",
            f"  left out             {verdicts['skipped']:6d}",
        ]
    )


def reasons(rows: list[Row]) -> dict[str, list[Row]]:
    """The cases that are not one graph, by reason."""
    found: dict[str, list[Row]] = collections.defaultdict(list)
    for row in rows:
        if row.verdict == "equal" and not row.whole:
            reason = "; ".join(row.breaks) or f"{row.graphs} graphs"
            found[reason].append(row)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def listing(rows: list[Row]) -> str:
    """What differs, and what breaks by reason."""
    lines = [
        f"{row.verdict}: {row.entry} {row.case}: {row.detail[:300]}"
        for row in rows
        if row.verdict in ("differs", "internal error")
    ]
    for reason, found in reasons(rows).items():
        lines.append(f"{len(found):5d}  {reason[:160]}  [{', '.join(_names(found)[:8])}]")
    return "\n".join(lines)


def _names(rows: list[Row]) -> list[str]:
    return sorted({row.entry for row in rows})


def write_docs(path: Path, title: str, rows: list[Row]) -> None:
    """Put this sweep's section into the page, leaving the other sections as they are."""
    text = path.read_text() if path.exists() else _HEAD
    parts = re.split(r"(?m)^(?=## )", text)
    lines = [f"## {title}\n", "```", *table(title, rows).splitlines(), "```\n"]
    wrong = [row for row in rows if row.verdict in ("differs", "internal error")]
    if wrong:
        lines += ["Not equal to eager:\n"]
        lines += [f"- `{row.entry}` {row.case}: {row.detail[:200]}" for row in wrong] + [""]
    broken = reasons(rows)
    if broken:
        lines += ["What is not captured as one graph, and why:\n", "| cases | reason | entries |"]
        lines += ["| --- | --- | --- |"]
        for reason, found in broken.items():
            names = ", ".join(f"`{name}`" for name in _names(found))
            lines.append(f"| {len(found)} | {reason.replace('|', '/')} | {names} |")
        lines.append("")
    section = "\n".join(lines) + "\n"
    kept = [part for part in parts if not part.startswith(f"## {title}\n")]
    path.write_text(kept[0] + "".join(sorted([*kept[1:], section])))


_HEAD = """# Coverage of torch's own databases

Generated by `python -m tests.conformance.opinfo`, `.moduleinfo`, `.optiminfo` and `.models` with
`--write-docs docs/coverage.md`; not to be edited by hand.

"""
