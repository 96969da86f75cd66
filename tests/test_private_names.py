"""Where torch's private names may be used, and that the installed torch has each of them.

A new torch is tried by running this first: it says what went, and which file has to follow.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "capture"

#: The files that may, and what for. Each part that reads torch's state has one place for it.
PRIVATE_FILES = {
    "backends/aot/adapter.py": "make_fx, functional and fake tensors, partitioners",
    "backends/aot/checked_ops.py": "the operator that asserts in a graph",
    "backends/aot/functional_adapter.py": "a shorter way through the functional mode",
    "backends/aot/recorder_adapter.py": "the slot of make_fx's mode, making fake tensors",
    "backends/aot/unknown_ops.py": "what is registered for an operator",
    "backends/inductor/adapter.py": "Inductor's inner compile functions and settings",
    "backends/boxed.py": "the C functions of operators",
    "graph/data_sizes.py": "the operator that asserts in ATen graphs",
    "graph/declared.py": "the function that a sparse optimizer comes down to",
    "graph/fake.py": "fake tensors",
    "graph/fx_adapter.py": "appending to FX graphs",
    "graph/op_rules.py": "which functions are operators, and classes of operators",
    "graph/output_graph.py": "leaving autocast as the graph does",
    "graph/packed.py": "what is known of a number, told to torch",
    "graph/sample.py": "tensors with a grad_fn to propagate with",
    "graph/source.py": "the text of operators in FX graphs",
    "graph/state.py": "torch's state while propagating",
    "guards/kinds.py": "the Python form of guards on tensors",
    "guards/native_setup.py": "what the native guards read, and their self-tests",
    "guards/torch_kinds.py": "the Python form of guards on torch's state",
    "hiding.py": "what torch's own frontend is to leave alone",
    "symbolic_convert/expectations.py": "the operator that checks a number",
    "symbolic_convert/classes.py": "the call of modules, whose globals hold hooks",
    "variables/attributes/kinds.py": "the class of modules that hold torch's settings",
    "variables/process_groups.py": "from a group's name to the group",
    "variables/higher_order/autograd_function.py": "whether a functorch transform is active",
    "variables/higher_order/module_hooks.py": "the identity that backward hooks of modules use",
    "variables/higher_order/control_flow.py": "operators of control flow, and pytrees",
    "variables/contexts.py": "entering and leaving inference mode as the graph does",
    "variables/higher_order/transforms.py": "pytrees",
    "variables/marks.py": "marks that torch's own frontend puts on functions",
    "variables/tensor_groups.py": "the grouping that foreach code begins with",
    "variables/torch_calls.py": "private functions that torch's Python code calls",
}

FILES = sorted(path for path in PACKAGE.rglob("*.py"))


def _dotted(node: ast.AST, known: dict[str, str]) -> str | None:
    """Return a chain of attributes as text, with names that stand for modules written out."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([known.get(node.id, node.id), *reversed(parts)])


def _is_private(name: str) -> bool:
    return name.startswith("torch.") and any(
        part.startswith("_") and not part.endswith("__") for part in name.split(".")
    )


def private_names(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the full text of each private name of torch that a file uses."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch":
            for alias in node.names:
                name = known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                if _is_private(name):
                    yield node.lineno, name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _is_private(alias.name):
                    yield node.lineno, alias.name
                if alias.asname and alias.name.startswith("torch"):
                    known[alias.asname] = alias.name
    yield from _in_scope(tree, known)


def _in_scope(scope: ast.AST, known: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Yield what is used in a function or module, and in the functions inside of it."""
    known = dict(known)
    nodes = list(_own_nodes(scope))
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            value = _dotted(node.value, known)
            for target in targets:
                if isinstance(target, ast.Name) and value and _is_private(value):
                    known[target.id] = value
    inner: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _in_scope(node, known)
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            below: Any = node.value
            while isinstance(below, ast.Attribute):
                inner.add(id(below))
                below = below.value
            name = _dotted(node, known) or ""
            if _is_private(name):
                yield node.lineno, name


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, outermost first, without what functions in it hold."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _own_nodes(child)


def exists(name: str) -> bool:
    """Tell whether the installed torch has a name; what is read of its values is not asked."""
    found: Any = torch
    path = "torch"
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        if not hasattr(found, part):
            try:
                found = importlib.import_module(path)
            except ImportError:
                return False
        else:
            found = getattr(found, part)
        if not isinstance(found, type | type(torch)):
            return True
    return True


def _relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def test_private_names_are_used_where_they_may_be() -> None:
    users = {_relative(path) for path in FILES if any(True for _ in private_names(path))}
    assert users <= set(PRIVATE_FILES)


@pytest.mark.parametrize("path", [f for f in FILES if _relative(f) in PRIVATE_FILES], ids=_relative)
def test_installed_torch_has_them(path: Path) -> None:
    missing = [f"{line}: {name}" for line, name in private_names(path) if not exists(name)]
    assert not missing


def test_what_is_found() -> None:
    found = {name for _, name in private_names(PACKAGE / "guards" / "torch_kinds.py")}
    assert "torch._C._dispatch_keys" in found
    assert exists("torch._C._dispatch_keys")
    assert not exists("torch._C._no_such_name")
