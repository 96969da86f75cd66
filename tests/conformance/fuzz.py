"""Holds the differential fuzzer: random programs run eagerly and captured, in lock step.

``python -m tests.conformance.fuzz --programs 200 --seed 0`` prints the failing programs, made small;
``--only SEED`` runs one. Must not know how programs are written: see ``generate``.
"""

# mypy: ignore-errors

from __future__ import annotations

import argparse
import ast
import contextlib
import faulthandler
import io
import linecache
import random
import re
import signal
import sys
import time
import traceback
import types
import warnings

import torch

import capture
from tests.comparison import difference
from tests.conformance.generate import PRELUDE, Generator

CALLS = (0, 0, 1, 0, 2, 1, 0)
FIRST_LINE = PRELUDE.count("\n")


class TooSlow(BaseException):
    """A program took too long."""


class World:
    """One instance of a program's module."""

    def __init__(self, text, code, name, compiled):
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        self.file = name
        self.module = types.ModuleType("program")
        self.names = self.module.__dict__
        sys.modules["program"] = self.module  # for dataclasses
        exec(code, self.names)
        fn = self.names["f"]
        self.run = capture.compile(fn, backend="eager") if compiled else fn

    def call(self, number, which):
        """Call once and return all that shows."""
        self.names["change"](number)
        out = io.StringIO()
        value = error = None
        args = self.names["arguments"](which)
        torch.manual_seed(7)
        random.seed(7)
        torch.set_grad_enabled(True)
        with contextlib.redirect_stdout(out):
            try:
                value = self.run(*args)
            except Exception as e:
                error = e
        internal = None
        if isinstance(error, capture.CaptureError):
            internal = error
        lines = []
        if error is not None and not isinstance(error, RecursionError):
            lines = [
                (f.name, f.lineno)
                for f in traceback.extract_tb(error.__traceback__)
                if f.filename == self.file
            ]
        if error is not None and any(
            f.filename.startswith("<eval_with_key")
            for f in traceback.extract_tb(error.__traceback__)
        ):
            lines = None  # a graph that cannot start again raised: its lines stand for the user's
        if isinstance(error, UnboundLocalError) and sys.version_info < (3, 12):
            # Joined instructions give the first one's line, once 3.11 has specialized the code:
            # eager's own answer changes from call to call.
            lines = None
        trace = "".join(traceback.format_exception(error))[-1500:] if error is not None else ""
        _forget_frames(error)
        seen = {k: v for k, v in self.names.items() if re.fullmatch(r"G[A-Z]", k)}
        classes = {k: v.shared for k, v in self.names.items() if re.fullmatch(r"C\d", k)}
        state = (torch.is_grad_enabled(), torch.rand(1).item(), random.random())
        torch.set_grad_enabled(True)
        return {
            "internal": internal, "error": _plain(error), "printed": out.getvalue(), "lines": lines,
            "state": state, "everything": (value, args, seen, classes), "trace": trace,
        }  # fmt: skip


def _forget_frames(error):
    """Drop the tracebacks: their frames hold what a captured frame has let go."""
    while error is not None:
        error.__traceback__ = None
        _forget_frames(error.__cause__)
        error = error.__context__


def _plain(error, depth=0):
    """An exception as plain data, addresses left out."""
    if error is None or depth > 4:
        return None
    args = [
        a if type(a) in (int, bool, float) else re.sub(r"0x[0-9a-f]+", "0x", repr(a))
        for a in error.args
    ]
    return (
        type(error).__qualname__, args, _plain(error.__cause__, depth + 1),
        _plain(error.__context__, depth + 1), error.__suppress_context__,
    )  # fmt: skip


@contextlib.contextmanager
def limit(seconds):
    """Raise ``TooSlow`` after a while."""

    def stop(signum, frame):
        raise TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run_text(text):
    """Run a program both ways; return what differs as (kind, sentence), or None."""
    name = f"<program {hash(text) & 0xFFFFFF:x}>"
    try:
        code = compile(text, name, "exec", dont_inherit=True)
    except SyntaxError as e:
        return ("syntax", str(e))
    capture.reset()
    try:
        with limit(3):
            eager = World(text, code, name, False)
    except Exception as e:
        return ("invalid", repr(e))
    captured = World(text, code, name, True)
    with capture.config.patch(suppress_errors=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, which in enumerate(CALLS):
            try:
                with limit(3):
                    a = eager.call(number, which)
            except TooSlow:
                return ("invalid", "too slow in eager")
            except Exception as e:
                return ("invalid", repr(e))
            try:
                with limit(60):
                    b = captured.call(number, which)
            except TooSlow:
                return ("slow", f"call {number}")
            found = compare(a, b)
            if found is not None:
                return (found[0], f"call {number}: {found[1]}")
    return None


def compare(a, b):
    """The first difference of two calls, the worst kind first."""
    if b["internal"] is not None:
        return ("internal", b["trace"])
    if a["error"] is None and b["error"] is not None:
        return (
            "raises",
            f"eager does not; {b['error']}\n" + b["trace"],
        )
    for name in ("error", "printed", "state", "everything", "lines"):
        if name == "lines" and (a["lines"] is None or b["lines"] is None):
            continue
        try:
            found = difference(a[name], b[name])
        except Exception as e:
            found = f"comparison failed: {e!r}"
        if found is None or _LIMIT_STRUCK.search(found):
            continue
        if name == "error" and a[name] and b[name] and a[name][0] == b[name][0] == "RecursionError":
            continue  # nor is it the same handler that the limit struck in
        if name == "error" and _either_order(a[name]) == _either_order(b[name]):
            continue
        return (name, found)
    return None


def _either_order(error):
    """An error's text, the classes of two operands sorted.

    A set that holds a class of the program has another order in each world: the hash is an address.
    """
    return re.sub(
        r"instances of '(\w+)' and '(\w+)'",
        lambda found: "instances of " + " and ".join(sorted(found.groups())),
        str(error).replace("\\", ""),
    )


# Which call struck the limit, and so the text, depends on the native stack in between.
_LIMIT_STRUCK = re.compile(r"(maximum recursion depth exceeded.*){2}", re.DOTALL)


# --- making programs small ------------------------------------------------------------------------


def bodies(tree):
    """All lists of statements that may be thinned, outermost first."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            held = getattr(node, field, None)
            if isinstance(held, list) and held:
                yield node, field, held


def without(text, at, how):
    """The program without the ``at``-th statement, or with its body instead; None if neither."""
    tree = ast.parse(text)
    for node, field, held in bodies(tree):  # noqa: B007
        if at < len(held):
            break
        at -= len(held)
    stmt = held[at]
    if how == "drop":
        if isinstance(stmt, ast.Pass) and len(held) == 1:
            return None
        del held[at]
        if not held and field == "body" and not isinstance(node, ast.Module):
            held.append(ast.Pass())
        if not held and (field == "cases" or isinstance(node, ast.Module)):
            return None
        if isinstance(node, ast.Try) and not node.handlers and not node.finalbody:
            return None
    elif hasattr(stmt, "body") and not isinstance(
        stmt, (ast.FunctionDef, ast.ClassDef, ast.ExceptHandler, ast.match_case)
    ):
        held[at : at + 1] = stmt.body
    else:
        return None
    return ast.unparse(ast.fix_missing_locations(tree))


class _Swap(ast.NodeTransformer):
    def __init__(self, node, part):
        self.node = node
        self.part = part

    def visit(self, n):
        """Replace one node."""
        return self.part if n is self.node else self.generic_visit(n)


def with_part(text, at, which):
    """The program with the ``at``-th expression replaced by its ``which``-th part, or by 1."""
    tree = ast.parse(text)
    node = [n for n in ast.walk(tree) if isinstance(n, ast.expr)][at]
    if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)) or isinstance(
        node, (ast.Name, ast.Constant)
    ):
        return None
    parts = [c for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
    parts.append(ast.Constant(1))
    if which >= len(parts):
        return None
    return ast.unparse(ast.fix_missing_locations(_Swap(node, parts[which]).visit(tree)))


def signature(found):
    """What stays the same while a program gets smaller."""
    return found and (found[0], re.sub(r"call \d+: ", "", found[1]).split(": ")[0][:40])


def shrink(text, wanted, seconds=40):
    """Remove what the difference does not need."""
    text = text.removeprefix(PRELUDE)
    end = time.monotonic() + seconds

    def attempt(make, *where):
        nonlocal text
        if time.monotonic() > end:
            return
        try:
            candidate = make(text, *where)
        except Exception:
            return
        if candidate is None or len(candidate) >= len(text):
            return
        found = run_text(PRELUDE + candidate)
        if found is not None and signature(found) == signature(wanted):
            text = candidate

    before = None
    while before != text and time.monotonic() < end:
        before = text
        for how in ("drop", "inline"):
            for at in range(sum(len(h) for _, _, h in bodies(ast.parse(text))) - 1, -1, -1):
                attempt(without, at, how)
        for at in range(
            sum(isinstance(n, ast.expr) for n in ast.walk(ast.parse(text))) - 1, -1, -1
        ):
            for which in (0, 1, 2):
                attempt(with_part, at, which)
    return PRELUDE + text


def check_seed(seed):
    """Run one seed; return (kind, sentence, text) or None."""
    text = Generator(seed).program()
    found = run_text(text)
    return None if found is None else (*found, text)


def main():
    """Run from the command line; the exit status says whether anything differed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--keep-going", action="store_true")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--brief", action="store_true", help="one line for each failing seed")
    parser.add_argument("--trace", action="store_true", help="print each seed before it runs")
    options = parser.parse_args()
    seeds = (
        [options.only]
        if options.only is not None
        else range(options.seed, options.seed + options.programs)
    )
    faulthandler.enable()
    torch.set_num_threads(1)
    bad = invalid = done = 0
    start = time.monotonic()
    for seed in seeds:
        if options.trace:
            print(seed, end=" ", flush=True)
        found = check_seed(seed)
        done += 1
        if found is None:
            continue
        kind, sentence, text = found
        if kind in ("invalid", "syntax"):
            invalid += 1
            if kind == "syntax":
                print(f"seed {seed}: {sentence}", flush=True)
            continue
        bad += 1
        if options.brief:
            print(f"seed {seed}: {kind}: {sentence.strip().splitlines()[-1][:200]}", flush=True)
            continue
        print(f"=== seed {seed}: {kind}: {sentence}")
        small = text if options.no_shrink else shrink(text, found)
        print(small.removeprefix(PRELUDE))
        print("---", run_text(small), flush=True)
        if not options.keep_going:
            break
    print(f"{done} programs, {bad} differ, {invalid} invalid, {time.monotonic() - start:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
