"""Holds how each kind of journalled side effect is done again in an epilogue."""

from __future__ import annotations

import collections
import itertools
import warnings
from typing import TYPE_CHECKING, Any

from capture.codegen.epilogue import REPLAY
from capture.codegen.rebuild import dict_method, runs_code, set_attribute
from capture.hiding import hide
from capture.variables.base import DELETED
from capture.variables.containers import DictVariable, ListVariable
from capture.variables.functions import CellVariable, FunctionVariable, IteratorVariable
from capture.variables.gradients import is_none
from capture.variables.objects import ObjectVariable
from capture.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from capture.codegen.epilogue import Codegen
    from capture.side_effects import Effect


def _replay_attr(cg: Codegen, effect: Effect) -> None:
    target = cg.ref(effect.target)
    if isinstance(effect.target, FunctionVariable):
        if effect.value is DELETED:
            cg.lines.append(f"del {target}.__dict__[{effect.key!r}]")
        else:
            cg.lines.append(f"{target}.__dict__[{effect.key!r}] = {cg.ref(effect.value)}")
    else:
        assert isinstance(effect.target, ObjectVariable)
        set_attribute(cg, effect.target, target, effect.key, effect.value)


def _replay_grad(cg: Codegen, effect: Effect) -> None:
    target = effect.target
    assert isinstance(target, TensorVariable)
    if not (is_none(effect.value) and is_none(target.initial_grad)):
        cg.lines.append(f"{cg.ref(target)}.grad = {cg.ref(effect.value)}")


def _replay_dict(cg: Codegen, effect: Effect) -> None:
    target = effect.target
    assert isinstance(target, DictVariable)
    name = cg.ref(target)
    if effect.kind == "dict_set":
        key, value = effect.value
        line = f"{dict_method(cg, target, '__setitem__')}({name}, {cg.ref(key)}, {cg.ref(value)})"
        cg.fill(target, line, runs_code(key))
    elif effect.kind == "dict_del":
        # It was there when the guards looked; another thread may have been quicker.
        line = f"{dict_method(cg, target, 'pop')}({name}, {cg.ref(effect.value[0])}, None)"
        cg.fill(target, line, runs_code(effect.value[0]))
    elif effect.kind == "dict_clear":
        line = f"{dict_method(cg, target, 'clear')}({name})"
        cg.fill(target, line, False)
    else:
        key, last = effect.value
        move = cg.const(collections.OrderedDict.move_to_end, "move_to_end")
        line = f"{move}({name}, {cg.ref(key)}, {cg.ref(last)})"
        cg.fill(target, line, runs_code(key))


def _replay_list(cg: Codegen, effect: Effect) -> None:
    target = effect.target
    assert isinstance(target, ListVariable)
    name = cg.ref(target)
    if target.touched:
        items = f"({cg.refs(target._items or [])})"
        if target.is_deque and not target.moves:
            put = cg.const(collections.deque.__setitem__, "deque_setitem")
            for i, item in enumerate(target._items or []):
                cg.lines.append(f"{put}({name}, {i}, {cg.ref(item)})")
        elif target.is_deque:
            cg.lines.append(f"{cg.const(collections.deque.clear, 'deque_clear')}({name})")
            extend = cg.const(collections.deque.extend, "deque_extend")
            cg.lines.append(f"{extend}({name}, {items})")
        else:
            whole = cg.const(slice(None), "whole")
            setter = cg.const(list.__setitem__, "list_setitem")
            cg.lines.append(f"{setter}({name}, {whole}, {items})")
    elif target.is_deque:
        extend = cg.const(collections.deque.extend, "deque_extend")
        cg.lines.append(f"{extend}({name}, ({cg.refs(target.tail)}))")
    else:
        cg.lines.append(f"{cg.const(list.extend, 'list_extend')}({name}, ({cg.refs(target.tail)}))")


def _replay_set(cg: Codegen, effect: Effect) -> None:
    target = effect.target
    operation = effect.kind.removeprefix("set_")
    method = cg.const(getattr(set, operation), effect.kind)
    arguments = cg.ref(target)
    late = False
    if effect.key is not None:
        late = operation in ("add", "discard") and runs_code(effect.key)
        arguments += f", {cg.ref(effect.key)}"
    cg.fill(target, f"{method}({arguments})", late)


def _replay_cell(cg: Codegen, effect: Effect) -> None:
    target = effect.target
    assert isinstance(target, CellVariable)
    name = cg.ref(target)
    if target.contents is None:
        cg.lines.append(f"del {name}.cell_contents")
    else:
        cg.lines.append(f"{name}.cell_contents = {cg.ref(target.contents)}")


def _skip(iterator: Iterator[object], number: int) -> None:
    """Move an iterator on by a number of items."""
    collections.deque(itertools.islice(iterator, number), maxlen=0)


hide(_skip.__code__)


def _replay_advance(cg: Codegen, effect: Effect) -> None:
    target = effect.target
    assert isinstance(target, IteratorVariable)
    if target.position == 1:
        cg.lines.append(f"{cg.const(next, 'next')}({cg.ref(target)})")
    else:
        cg.lines.append(f"{cg.const(_skip, 'skip')}({cg.ref(target)}, {target.position})")


def _warn(
    text: str, category: type[Warning], file: str, line: int, names: dict[str, object]
) -> None:
    """Give a warning as the program's line."""
    registry: Any = names.setdefault("__warningregistry__", {})
    module = names.get("__name__") or "<string>"
    warnings.warn_explicit(text, category, file, line, str(module), registry)


hide(_warn.__code__)


def _replay_warning(cg: Codegen, effect: Effect) -> None:
    text, category, file, line = effect.value
    kind, names = cg.const(category, "category"), cg.const(effect.key, "names")
    warn = cg.const(_warn, "warn")
    cg.lines.append(f"{warn}({text!r}, {kind}, {file!r}, {line}, {names})")


REPLAY.update(
    {
        "attr": _replay_attr,
        "grad": _replay_grad,
        "dict_set": _replay_dict,
        "dict_del": _replay_dict,
        "dict_clear": _replay_dict,
        "dict_move": _replay_dict,
        "list": _replay_list,
        "set_add": _replay_set,
        "set_discard": _replay_set,
        "set_pop": _replay_set,
        "set_clear": _replay_set,
        "set_update": _replay_set,
        "set_difference_update": _replay_set,
        "set_intersection_update": _replay_set,
        "cell": _replay_cell,
        "advance": _replay_advance,
        "warning": _replay_warning,
    }
)
