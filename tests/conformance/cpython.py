"""Runs CPython's own tests under capture and compares each test method with a plain run.

    python -m tests.conformance.cpython [NAMES] [--timeout S] [--json FILE] [--list-failures]
                                        [--save FOLDER] [--write-docs FILE]

Every test method is compiled with the eager backend, capture forced even without tensors; all that
it calls is captured too, ``unittest`` and the interpreter's test support excepted. A module runs in
processes of its own: once plainly, once captured. A method fails the comparison if it passes
plainly and does not pass captured; a process that dies is started again behind the method that
killed it. The table also says how much was captured: methods executed symbolically from start to
end without a graph break, of those with at least 20 symbolic instructions.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import gc
import importlib.util
import json
import logging
import os
import re
import signal
import sys
import tempfile
import time
import tomllib
import traceback
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import capture
from tests.conformance import cpython_report

DEFAULT = """
grammar scope generators genexps yield_from generator_stop contextlib with exceptions baseexception
exception_variations exception_group except_star raise dict list tuple set deque ordered_dict
defaultdict collections userdict userlist userstring range slice iter enumerate itertools functools
operator bool int complex string str fstring patma dataclasses enum descr super property class
metaclass subclassinit genericclass unpack unpack_ex extcall call keywordonlyarg positional_only_arg
named_expressions listcomps setcomps dictcomps copy weakref abc coroutines
""".split()
MIN_INSTRUCTIONS = 20
_EXCEPTIONS = Path(__file__).with_name("cpython_exceptions.toml")


# --- the child: one module, plain or captured ----------------------------------------------------


class _Recorder(unittest.TestResult):
    """Writes one line per test to a file as soon as it is known."""

    def __init__(self, out: Any, extra: Any) -> None:
        super().__init__()
        self.out = out
        self.extra = extra
        self.verdict = "pass"
        self.detail = ""

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.verdict, self.detail = "pass", ""
        self._write({"start": test.id()})
        self.began = time.process_time()

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        row = {"test": test.id(), "verdict": self.verdict, "detail": self.detail[-1500:],
               "cpu_s": round(time.process_time() - self.began, 4)}  # fmt: skip
        row.update(self.extra(test))
        self._write(row)

    def _write(self, row: dict[str, Any]) -> None:
        self.out.write(json.dumps(row) + "\n")
        self.out.flush()

    def _bad(self, verdict: str, error: Any, test: Any) -> None:
        self.verdict = verdict
        self.detail = self._exc_info_to_string(error, test)  # type: ignore[attr-defined]

    def addError(self, test: Any, err: Any) -> None:
        self._bad("error", err, test)

    def addFailure(self, test: Any, err: Any) -> None:
        self._bad("fail", err, test)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self._bad("fail", err, test)

    def addSkip(self, test: Any, reason: str) -> None:
        self.verdict = "skip"

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.verdict = "xfail"

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.verdict = "xpass"


def _flatten(suite: Any) -> list[unittest.TestCase]:
    if isinstance(suite, unittest.TestCase):
        return [suite]
    return [case for part in suite for case in _flatten(part)]


def _capture_methods(cases: list[unittest.TestCase]) -> Any:
    """Compile every test method; what is returned tells how a test was captured."""
    from capture import _native, eval_frame
    from capture.config import settings
    from capture.convert_frame.piece import Piece

    settings.suppress_errors = False
    settings.capture_without_tensors = True
    # What capture has to tell goes to ``sys.stderr``, where some tests expect their own text alone.
    logging.getLogger("capture").addHandler(logging.NullHandler())
    logging.getLogger("capture").propagate = False
    eval_frame._configure_hook()
    here = os.path.dirname(os.path.abspath(capture.__file__)) + os.sep
    library = os.path.dirname(os.__file__) + os.sep
    own = (os.path.join(library, "unittest") + os.sep, os.path.join(library, "test", "support"))
    import torch

    _native.skip_files(
        (here, os.path.dirname(torch.__file__) + os.sep, *own, os.path.dirname(__file__) + os.sep,
         "<frozen"), (),
    )  # fmt: skip
    seen: list[str] = []
    report = Piece.report_break

    def remember(piece: Any, signal: Any) -> None:
        report(piece, signal)
        seen.append(f"{signal.reason.id} {' '.join(signal.explanation.split())[:100]}")

    Piece.report_break = remember  # type: ignore[method-assign,assignment]
    for case in cases:
        name = case._testMethodName
        method = getattr(type(case), name)
        compiled = capture.compile(method, backend="eager")
        setattr(case, name, compiled.__get__(case, type(case)))

    def measure(test: unittest.TestCase) -> dict[str, Any]:
        stats = capture.stats()
        capture.reset()
        return {
            "frames": stats.frames,
            "instructions": getattr(stats, "instructions", 0),
            "breaks": [seen.pop() for _ in range(len(seen))][::-1],
        }

    return measure


def _child(name: str, captured: bool, out_path: str, skip: set[str]) -> None:
    faulthandler.enable()
    loader = unittest.defaultTestLoader
    if name == "str" and importlib.util.find_spec("test.test_str") is None:
        name = "unicode"  # its name up to 3.11
    suite = loader.loadTestsFromName(f"test.test_{name}")
    cases = [c for c in _flatten(suite) if c.id() not in skip]
    extra: Any = lambda test: {}  # noqa: E731
    if captured:
        excused = tuple(tomllib.loads(_EXCEPTIONS.read_text())["exceptions"])
        cases = [c for c in cases if not c.id().endswith(excused)]
        extra = _capture_methods(cases)
    # What the libraries hold is out of the collector's way in both runs: their times compare then.
    gc.collect()
    gc.freeze()
    with open(out_path, "a") as out:
        unittest.TestSuite(cases).run(_Recorder(out, extra))


# --- the parent ----------------------------------------------------------------------------------


def _watch(run: Callable[[], None], timeout: float, out: Path) -> tuple[int, str]:
    """Run a child until it ends or writes no row for ``timeout`` seconds: status, error text.

    It is forked from this process, which has imported torch already.
    """
    with tempfile.TemporaryFile("w+") as errors:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _be_child(run, errors.fileno())
        size, since = -1, time.monotonic()
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                errors.seek(0)
                return os.waitstatus_to_exitcode(status), errors.read()
            time.sleep(0.1)
            now = out.stat().st_size if out.exists() else 0
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > timeout:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return -9, "timeout"


def _be_child(run: Callable[[], None], errors: int) -> NoReturn:
    status = 1
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for source, target in ((nothing, 0), (nothing, 1), (errors, 2)):
            os.dup2(source, target)
        del sys.argv[1:]
        run()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run(name: str, captured: bool, timeout: float, folder: Path) -> dict[str, dict[str, Any]]:
    """All rows of a module, by test."""
    out = folder / f"{name}.{'captured' if captured else 'plain'}.jsonl"
    out.unlink(missing_ok=True)
    rows: dict[str, dict[str, Any]] = {}
    for _ in range(30):
        code, errors = _watch(lambda: _child(name, captured, str(out), set(rows)), timeout, out)
        started = None
        for line in out.read_text().splitlines() if out.exists() else []:
            row = json.loads(line)
            if "start" in row:
                started = row["start"]
            else:
                rows[row["test"]] = row
                started = None
        if code == 0:
            return rows
        if started is None:
            print(f"    {name}: ended with {code}: {errors.strip()[-400:]}", file=sys.stderr)
            return rows
        verdict = "hang" if errors == "timeout" else "crash"
        rows[started] = {
            "test": started, "verdict": verdict, "detail": errors[-1500:], "cpu_s": timeout,
        }  # fmt: skip
    return rows


def main() -> int:
    """Run the modules named and print the table; the exit status tells whether all agree."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one test method")
    parser.add_argument("--json")
    parser.add_argument("--list-failures", action="store_true")
    parser.add_argument("--folder", default="/tmp/capture-conformance")
    parser.add_argument("--save", type=Path, help="a folder to keep each module's result in")
    parser.add_argument("--write-docs", type=Path, help="only make the page of what is saved")
    options = parser.parse_args()
    if options.write_docs:
        if not options.save:
            parser.error("--write-docs needs --save FOLDER, which holds the results")
        cpython_report.write(options.write_docs, options.save, DEFAULT, MIN_INSTRUCTIONS)
        return 0
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    table: list[dict[str, Any]] = []
    reasons: collections.Counter[str] = collections.Counter()
    failures: list[dict[str, Any]] = []
    exceptions = tomllib.loads(_EXCEPTIONS.read_text())["exceptions"]
    excused: set[str] = set()
    print(f"{'module':<24} {'methods':>7} {'differ':>6} {'crash':>5} {'slow':>4} {'whole':>9}")
    for name in options.names or DEFAULT:
        name = name.removeprefix("test_")
        plain = _run(name, False, options.timeout, folder)
        captured = _run(name, True, options.timeout, folder)
        passing = [t for t, row in plain.items() if row["verdict"] == "pass"]
        missing = {"verdict": "missing", "detail": "", "cpu_s": 0.0}
        for t in passing:
            excused.update(part for part in exceptions if t.endswith(part))
        passing = [t for t in passing if not t.endswith(tuple(exceptions))]
        bad = [t for t in passing if captured.get(t, missing)["verdict"] != "pass"]
        ended = ("crash", "hang", "missing")
        dead = [t for t in bad if captured.get(t, missing)["verdict"] in ended]
        slow = [
            t for t in passing
            if captured.get(t, missing)["cpu_s"] > max(20 * plain[t]["cpu_s"], 2.0)
        ]  # fmt: skip
        counted = [
            t for t in passing
            if captured.get(t, missing).get("instructions", 0) >= MIN_INSTRUCTIONS
        ]  # fmt: skip
        whole = [t for t in counted if not captured[t]["breaks"]]
        broken = collections.Counter(reason for t in counted for reason in captured[t]["breaks"])
        reasons.update(broken)
        failures += [{**captured.get(t, missing), "test": t} for t in bad]
        table.append(
            {
                "module": name,
                "methods": len(passing),
                "differ": len(bad),
                "dead": len(dead),
                "slow": slow,
                "counted": len(counted),
                "whole": len(whole),
            }
        )
        if options.save:
            kept = {"failing": bad, "reasons": dict(broken.most_common(200))}
            cpython_report.save(options.save, {**table[-1], **kept})
        print(
            f"{name:<24} {len(passing):>7} {len(bad):>6} {len(dead):>5} {len(slow):>4} "
            f"{len(whole):>4}/{len(counted)}", flush=True,
        )  # fmt: skip
    columns = ("methods", "differ", "dead", "counted", "whole")
    total: dict[str, int] = {k: sum(row[k] for row in table) for k in columns}
    share = 100 * total["whole"] / max(total["counted"], 1)
    print(f"{'all':<24} {total['methods']:>7} {total['differ']:>6} {total['dead']:>5}      "
          f"{total['whole']}/{total['counted']} = {share:.0f} % captured whole")  # fmt: skip
    for reason, count in reasons.most_common(10):
        print(f"  {count:>5}  {reason}")
    if options.list_failures:
        groups: dict[str, list[str]] = {}
        for row in failures:
            last = (row["detail"].strip().splitlines() or [""])[-1]
            text = re.sub(r"\d{6,}|0x\w+", "N", f"{row['verdict']}: {last[:200]}")
            text = re.sub(r"capturing \S+", "capturing ...", text)
            groups.setdefault(text, []).append(row["test"].removeprefix("test."))
        for text, tests in sorted(groups.items(), key=lambda item: -len(item[1])):
            more = f" and {len(tests) - 4} more" if len(tests) > 4 else ""
            print(f"{text}\n    {' '.join(tests[:4])}{more}")
        for row in table:
            for t in row["slow"]:
                print(f"slow: {t}")
    if excused:
        print(f"{len(excused)} exceptions of {_EXCEPTIONS.name} apply")
    if options.json:
        Path(options.json).write_text(json.dumps({"table": table, "failures": failures}, indent=1))
    print(f"{total['methods'] - total['differ']} passed, {total['differ']} failed")
    return 1 if total["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
