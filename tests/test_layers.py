"""The rules of structure: who may import whom, and where versions and private names may be seen.

A module imports only from lower layers, or from its own unit (a package or a single file). Every
rule is checked on the syntax tree, so nothing has to be importable.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "capture"

LAYERS: dict[str, int] = {
    "errors": 0,
    "logs": 0,
    "config": 0,
    "counters": 0,
    "break_reasons": 0,
    "hiding": 0,
    "collector": 0,
    "stance": 1,
    "_native": 0,
    "polyfills": 1,
    "instructions": 1,
    "sources": 2,
    "backends": 2,
    "guards": 3,
    "graph": 3,
    "variables": 4,
    "side_effects": 5,
    "codegen": 6,
    "symbolic_convert": 7,
    "cache": 8,
    "convert_frame": 9,
    "eval_frame": 10,
    "__init__": 12,
    "aot": 11,
    "observe": 11,
    "demo": 13,
    "doctor": 13,
    "__main__": 14,
}

# The only files that may ask which Python is running.
VERSION_FILES = ("instructions/versions/",)

# The only files that may import torch's own frontend or reach into it: they make code written for
# it work here. (A string that names a module, to classify a function, imports nothing.)
DYNAMO_FILES: tuple[str, ...] = ("hiding.py", "variables/marks.py")

FILES = sorted(PACKAGE.rglob("*.py"))


def _relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _unit(path: Path) -> str:
    """Return the name in ``LAYERS`` that a file belongs to."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the unit of each import from the package itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "capture":
                    yield node.lineno, parts[1] if len(parts) > 1 else "__init__"
        elif isinstance(node, ast.ImportFrom):
            parts = (node.module or "").split(".")
            if node.level or parts[0] != "capture":
                continue
            if len(parts) > 1:
                yield node.lineno, parts[1]
            else:
                for alias in node.names:
                    yield node.lineno, alias.name if alias.name in LAYERS else "__init__"


def _chain(node: ast.AST) -> str:
    """Return ``a.b.c`` for an attribute chain on a name, else an empty string."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every dotted name and imported module, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.lineno, _chain(node)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def test_the_package_is_found() -> None:
    assert len(FILES) > 5


@pytest.mark.parametrize("path", FILES, ids=_relative)
def test_every_file_has_a_layer_and_imports_only_downwards(path: Path) -> None:
    unit = _unit(path)
    assert unit in LAYERS, f"give capture/{unit} a layer in {Path(__file__).name}"
    wrong = []
    for line, target in _imports(_tree(path)):
        assert target in LAYERS, f"{path}:{line}: capture.{target} has no layer"
        same_unit = target == unit
        both_basic = LAYERS[target] == LAYERS[unit] == 0
        if not (same_unit or both_basic or LAYERS[target] < LAYERS[unit]):
            wrong.append(f"{path}:{line}: {unit} ({LAYERS[unit]}) -> {target} ({LAYERS[target]})")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", FILES, ids=_relative)
def test_no_relative_import_and_none_of_ours_inside_a_function(path: Path) -> None:
    wrong = []
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ImportFrom) and node.level:
            wrong.append(f"{path}:{node.lineno}: relative import")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            wrong += [
                f"{path}:{line}: import of capture.{target} inside a function"
                for line, target in _imports(node)
            ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", FILES, ids=_relative)
def test_only_the_version_tables_ask_for_the_python_version(path: Path) -> None:
    if _relative(path).startswith(VERSION_FILES):
        return
    asked = {"sys.version_info", "sys.hexversion"}
    wrong = [f"{path}:{line}: {name}" for line, name in _names(_tree(path)) if name in asked]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", FILES, ids=_relative)
def test_only_shims_name_torch_dynamo(path: Path) -> None:
    if _relative(path) in DYNAMO_FILES:
        return
    wrong = [
        f"{path}:{line}: {name}"
        for line, name in _names(_tree(path))
        if f"{name}.".startswith("torch._dynamo.")
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", FILES, ids=_relative)
def test_every_module_says_what_it_holds(path: Path) -> None:
    assert path.name != "utils.py", "name the concept instead"
    assert ast.get_docstring(_tree(path)), f"{path} has no docstring"


def test_the_basic_layers_are_there_and_none_is_unknown() -> None:
    present = {_unit(path) for path in FILES}
    assert {"errors", "logs", "config", "backends"} <= present <= LAYERS.keys()
