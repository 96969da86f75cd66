"""Holds how each kind of variable made during capture is built again in an epilogue."""

from __future__ import annotations

import _thread
import collections
import contextlib
import functools
import sys
import types
import weakref
from typing import TYPE_CHECKING, Any

import torch

from capture.codegen.epilogue import REBUILD, CannotRebuild
from capture.errors import SkipFrame
from capture.polyfills import original_of
from capture.variables.attributes import InstanceDictVariable
from capture.variables.attributes.lookup import is_data_descriptor
from capture.variables.base import DELETED, MISSING, LazyVariable, Variable
from capture.variables.containers import (
    DictVariable,
    DictViewVariable,
    ListVariable,
    LocalsVariable,
    RangeVariable,
    SetVariable,
    SliceVariable,
    TupleVariable,
)
from capture.variables.exceptions import static_base
from capture.variables.functions import (
    BINDING,
    BuiltinVariable,
    CellVariable,
    FunctionVariable,
    GeneratorVariable,
    IteratorVariable,
    MadeCallableVariable,
    MethodVariable,
    PartialVariable,
)
from capture.variables.identities import IdentityVariable
from capture.variables.locks import RLOCK, LockVariable
from capture.variables.made_classes import DescriptorVariable, MadeClassVariable
from capture.variables.objects import (
    ClassVariable,
    ExceptionVariable,
    ObjectVariable,
    SuperVariable,
    lookup_mro,
)
from capture.variables.weak import WeakVariable
from capture.variables.wrap import StaticDictVariable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from capture.codegen.epilogue import Codegen


_NAMED_LITERALS = frozenset({"None", "True", "False", "..."})


def _list(cg: Codegen, v: ListVariable) -> str:
    items = v._items or []
    if v.is_deque:
        name = cg.name(v, _bare(cg, v, collections.deque))
        init = cg.const(collections.deque.__init__, "deque_init")
        cg.lines.append(f"{init}({name}, (), {v.maxlen!r})")
        if items:
            extend = cg.const(collections.deque.extend, "deque_extend")
            cg.lines.append(f"{extend}({name}, ({cg.refs(items)}))")
        _attrs(cg, v, name)
        return name
    if v.cls is list:
        name = cg.name(v, "[]")
    else:
        name = cg.name(v, f"{cg.const(list.__new__, 'list_new')}({class_ref(cg, v)})")
    if items:
        cg.lines.append(f"{cg.const(list.extend, 'list_extend')}({name}, ({cg.refs(items)}))")
    _attrs(cg, v, name)
    return name


def _tuple(cg: Codegen, v: TupleVariable) -> str:
    if v.value is not MISSING:
        return cg.const(v.value, "constant")
    parts = [cg.ref(i) for i in v._items or []]
    items = f"({''.join(part + ', ' for part in parts)})"
    if v.cls is tuple:
        if parts and all(part in _NAMED_LITERALS or not part[0].isalpha() for part in parts):
            # The compiler would make one constant of all such tuples.
            return cg.temp(f"{cg.const(tuple, 'tuple')}([{items[1:-1]}])")
        return cg.temp(items)
    if v.cls is torch.Size:
        return cg.temp(f"{cg.const(torch.Size, 'Size')}({items})")
    if v.cls.__module__ == "torch.return_types" or _is_structseq(v.cls):
        return cg.temp(f"{class_ref(cg, v)}({items})")
    name = cg.temp(f"{cg.const(tuple.__new__, 'tuple_new')}({class_ref(cg, v)}, {items})")
    cg._names[id(v)] = name
    _attrs(cg, v, name)
    return name


def _is_structseq(cls: type) -> bool:
    return hasattr(cls, "n_sequence_fields") and not hasattr(cls, "_fields")


def class_ref(cg: Codegen, v: ObjectVariable) -> str:
    """Return an expression for the class of an object."""
    if v.cls_var is not None:
        return cg.ref(v.cls_var)
    return cg.const(v.cls, v.cls.__name__)


def _bare(cg: Codegen, v: ObjectVariable, base: Any) -> str:
    """An empty instance, without what a subclass does when it is called."""
    return f"{cg.const(base.__new__, base.__name__ + '_new')}({class_ref(cg, v)})"


def _locals(cg: Codegen, v: LocalsVariable) -> str:
    if v.is_live:
        raise SkipFrame("what locals() gave is used behind a graph break")
    return _dict(cg, v)


def _dict(cg: Codegen, v: DictVariable) -> str:
    if v.value is not MISSING:
        return cg.const(v.value, "constant")
    if v.cls is dict:
        name = cg.name(v, "{}")
    elif issubclass(v.cls, collections.defaultdict):
        factory = cg.ref(v.default_factory) if v.default_factory is not None else "None"
        name = cg.name(v, _bare(cg, v, collections.defaultdict))
        init = cg.const(collections.defaultdict.__init__, "defaultdict_init")
        cg.lines.append(f"{init}({name}, {factory})")
    elif v.cls is collections.OrderedDict:
        name = cg.name(v, f"{class_ref(cg, v)}()")
    else:
        base = collections.OrderedDict if issubclass(v.cls, collections.OrderedDict) else dict
        name = cg.name(v, f"{cg.const(base.__new__, 'dict_new')}({class_ref(cg, v)})")
    setter = dict_method(cg, v, "__setitem__")
    for key, value in v.entries.values():
        if v.cls is dict:
            line = f"{name}[{cg.ref(key)}] = {cg.ref(value)}"
        else:
            line = f"{setter}({name}, {cg.ref(key)}, {cg.ref(value)})"
        cg.fill(v, line, runs_code(key))
    _attrs(cg, v, name)
    return name


def runs_code(key: Variable) -> bool:
    """Tell whether hashing or comparing a key runs code of the program."""
    cls = key.python_type()
    if cls is tuple and not isinstance(key, (TupleVariable, LazyVariable)):
        return False
    if isinstance(key, TupleVariable):
        return any(map(runs_code, key._items or ()))
    return any(
        isinstance(lookup_mro(cls, name)[0], types.FunctionType) for name in ("__hash__", "__eq__")
    )


def dict_method(cg: Codegen, v: DictVariable, name: str) -> str:
    """Return a method of the native dict that a dict is, past what a subclass overrides."""
    base: Any = dict
    for kind in (collections.OrderedDict, types.MappingProxyType):
        if issubclass(v.cls, kind):
            base = kind
    return cg.const(getattr(base, name), f"{base.__name__}{name.strip('_')}")


def _static_dict(cg: Codegen, v: StaticDictVariable) -> str:
    return cg.const(v.real, "globals")


def _instance_dict(cg: Codegen, v: InstanceDictVariable) -> str:
    return f"{cg.ref(v.owner)}.__dict__"


def _set(cg: Codegen, v: SetVariable) -> str:
    if v.value is not MISSING:
        return cg.const(v.value, "constant")
    entries = v._entries or {}
    items = list(entries.values())
    if v.table is not None:
        order = _building_order(entries, v)
        if order is None:
            raise CannotRebuild(v)
        items = [entries[k] for k in order]
    if issubclass(v.cls, frozenset):
        if v.cls is frozenset:
            return cg.temp(f"{cg.const(frozenset, 'frozenset')}(({cg.refs(items)}))")
        name = cg.temp(f"{cg.const(frozenset.__new__, 'frozenset_new')}({class_ref(cg, v)}, "
                       f"({cg.refs(items)}))")  # fmt: skip
        cg._names[id(v)] = name
        _attrs(cg, v, name)
        return name
    name = cg.name(v, _bare(cg, v, set))
    add = cg.const(set.add, "set_add")
    for item in items:
        line = f"{add}({name}, {cg.ref(item)})"
        cg.fill(v, line, runs_code(item))
    _attrs(cg, v, name)
    return name


def _building_order(keys: Iterable[Any], v: SetVariable) -> list[Any] | None:
    """In which order to fill a set so that it iterates, and is popped from, as this one is.

    There may be none: a set that had more elements once is larger than it needs to be.
    """
    iterated = list(v.table)
    for order in (list(keys), iterated, iterated[::-1]):
        trial = set(iter(order))
        if list(trial) == iterated:
            break
    else:
        return None
    if v.popped:
        left, v.table = v.table, None  # popping uses it up
        if [trial.pop() for _ in iterated] != [left.pop() for _ in iterated]:
            return None
    return order


def _view(cg: Codegen, v: DictViewVariable) -> str:
    return cg.temp(f"{dict_method(cg, v.target, v.kind)}({cg.ref(v.target)})")


def _slice(cg: Codegen, v: SliceVariable) -> str:
    return cg.temp(f"{cg.const(slice, 'slice')}({cg.refs(v.parts)})")


def _range(cg: Codegen, v: RangeVariable) -> str:
    return cg.const(v.value, "range")


def _attrs(cg: Codegen, v: ObjectVariable, name: str) -> None:
    for attr, value in (v.attrs or {}).items():
        if value is not DELETED:
            set_attribute(cg, v, name, attr, value)


def set_attribute(cg: Codegen, v: ObjectVariable, name: str, attr: str, value: Any) -> None:
    """Emit a write (or deletion) of an attribute past ``__setattr__`` and properties."""
    raw = lookup_mro(v.cls, attr)[0]
    if (
        raw is not MISSING
        and is_data_descriptor(raw)
        and type(raw) is not types.MemberDescriptorType
    ):
        held = f"{cg.const(object.__getattribute__, 'get_attribute')}({name}, '__dict__')[{attr!r}]"
        cg.lines.append(f"del {held}" if value is DELETED else f"{held} = {cg.ref(value)}")
    elif value is DELETED:
        cg.lines.append(f"{cg.const(object.__delattr__, 'delete_attribute')}({name}, {attr!r})")
    else:
        setter = cg.const(object.__setattr__, "set_attribute")
        cg.lines.append(f"{setter}({name}, {attr!r}, {cg.ref(value)})")


def _object(cg: Codegen, v: ObjectVariable) -> str:
    if v.value is not MISSING:
        return cg.const(v.value, v.cls.__name__)
    new = cg.const(object.__new__, "object_new")
    name = cg.name(v, f"{new}({class_ref(cg, v)})")
    _attrs(cg, v, name)
    return name


def _exception(cg: Codegen, v: ExceptionVariable) -> str:
    if v.raised_at >= 0 and not v.bare:
        raise CannotRebuild(v)  # it has a traceback: Python must raise it
    args = cg.refs(v.args)
    cls = class_ref(cg, v)
    init = lookup_mro(v.cls, "__init__")[0]
    if v.given is not None:
        name = _filled_exception(cg, v, cls, args)
    elif isinstance(init, types.FunctionType):
        name = cg.name(v, f"{cls}.__new__({cls}, {args})")
        cg.lines.append(f"{name}.args = ({args})")
    else:
        name = cg.name(v, f"{cls}.__new__({cls}, {args})")
        cg.lines.append(f"{cg.const(init, 'init')}({name}, {args})")
    if v.context is not None:
        cg.lines.append(f"{name}.__context__ = {cg.ref(v.context)}")
    elif v.raised_at >= 0:  # what the caller is handling
        cg.lines.append(f"{name}.__context__ = {cg.const(sys.exception, 'exception')}()")
    if v.cause is not None:
        cg.lines.append(f"{name}.__cause__ = {cg.ref(v.cause)}")
    if v.suppress_context and v.cause is None:
        cg.lines.append(f"{name}.__suppress_context__ = True")
    _attrs(cg, v, name)
    return name


def _filled_exception(cg: Codegen, v: ExceptionVariable, cls: str, args: str) -> str:
    """What C keeps in an exception beside ``args`` is what its constructor took."""
    assert v.given is not None
    given, keywords = v.given
    base = static_base(v.cls)
    new = cg.const(base.__new__, "new_exception")
    if issubclass(base, BaseExceptionGroup):
        assert v.fields is not None
        parts = [v.fields["message"], v.fields["exceptions"]]
        name = cg.name(v, f"{new}({cls}, {cg.refs(parts)})")
    else:
        named = "".join(f"{k}={cg.ref(value)}, " for k, value in keywords.items())
        name = cg.name(v, f"{new}({cls}, {cg.refs(given)}{named})")
        init = lookup_mro(v.cls, "__init__")[0]
        if isinstance(init, types.FunctionType):
            init = base.__init__
        cg.lines.append(f"{cg.const(init, 'init')}({name}, {cg.refs(given)}{named})")
    for field, value in v.changed.items():
        raw = cg.const(lookup_mro(base, field)[0], field)
        if value is DELETED:
            cg.lines.append(f"{raw}.__delete__({name})")
        else:
            cg.lines.append(f"{raw}.__set__({name}, {cg.ref(value)})")
    setter = cg.const(BaseException.__dict__["args"], "args")
    cg.lines.append(f"{setter}.__set__({name}, ({args}))")
    return name


def _class_object(cg: Codegen, v: ClassVariable) -> str:
    return cg.const(v.value, v.value.__name__)


def _made_class(cg: Codegen, v: MadeClassVariable) -> str:
    bases = cg.refs(v.bases)
    items = ""
    if v.class_cell is not None:
        items = f"'__classcell__': {cg.ref(v.class_cell)}, "
    items = "".join(f"{k!r}: {cg.ref(value)}, " for k, value in v.namespace.items()) + items
    make = cg.const(type(v.value), "metaclass")
    name = cg.name(v, f"{make}({v.value.__name__!r}, ({bases}), {{{items}}})")
    if v.class_cell is not None and v.class_cell.contents is None:  # deleted again
        cg.lines.append(f"del {cg.ref(v.class_cell)}.cell_contents")
    for attr, value in v.writes:
        setter = cg.const(type.__setattr__, "set_member")
        cg.lines.append(f"{setter}({name}, {attr!r}, {cg.ref(value)})")
    return name


def _descriptor(cg: Codegen, v: DescriptorVariable) -> str:
    if v.attrs:
        raise CannotRebuild(v)
    return cg.temp(f"{cg.const(v.cls, v.cls.__name__)}({cg.refs(v.parts)})")


def _builtin(cg: Codegen, v: BuiltinVariable) -> str:
    return cg.const(v.value, "native")


def _function(cg: Codegen, v: FunctionVariable) -> str:
    if v.value is not MISSING:
        return cg.const(v.value, "function")
    cells = cg.refs(list(v.closure))
    closure = f"({cells})" if cells else "None"
    defaults = f"({cg.refs(v.defaults)})" if v.defaults else "None"
    make = cg.const(types.FunctionType, "function_type")
    globals_ = cg.ref(v.globals)
    name = cg.name(
        v, f"{make}({cg.const(v.code, 'code')}, {globals_}, {v.name!r}, {defaults}, {closure})"
    )
    if v.qualname != v.code.co_qualname:
        cg.lines.append(f"{name}.__qualname__ = {cg.const(v.qualname, 'qualname')}")
    if v.kwdefaults:
        items = "".join(f"{k!r}: {cg.ref(d)}, " for k, d in v.kwdefaults.items())
        cg.lines.append(f"{name}.__kwdefaults__ = {{{items}}}")
    if v.annotations is not None:
        annotations = v.annotations
        if isinstance(annotations, TupleVariable):
            pairs = annotations._items or []
            text = "".join(
                f"{cg.ref(pairs[i])}: {cg.ref(pairs[i + 1])}, " for i in range(0, len(pairs) - 1, 2)
            )
            cg.lines.append(f"{name}.__annotations__ = {{{text}}}")
        else:
            cg.lines.append(f"{name}.__annotations__ = {cg.ref(annotations)}")
    for attr, value in (v.attrs or {}).items():
        if value is not DELETED:
            cg.lines.append(f"{cg.const(setattr, 'setattr')}({name}, {attr!r}, {cg.ref(value)})")
    return name


def _cell(cg: Codegen, v: CellVariable) -> str:
    name = cg.name(v, f"{cg.const(types.CellType, 'cell_type')}()")
    if v.contents is not None:
        cg.unfilled.append((name, v.contents))
    return name


def _method(cg: Codegen, v: MethodVariable) -> str:
    fn = v.fn
    if isinstance(fn, BuiltinVariable):
        if not isinstance(fn.value, BINDING):  # made by ``types.MethodType``
            method = cg.const(types.MethodType, "method_type")
            return cg.temp(f"{method}({cg.const(fn.value)}, {cg.ref(v.instance)})")
        getter = cg.const(type(fn.value).__get__, "bind")
        owner = cg.const(type, "type")
        instance = cg.ref(v.instance)
        if isinstance(fn.value, types.ClassMethodDescriptorType):
            return cg.temp(f"{getter}({cg.const(fn.value)}, None, {instance})")
        return cg.temp(f"{getter}({cg.const(fn.value)}, {instance}, {owner}({instance}))")
    return cg.temp(
        f"{cg.const(types.MethodType, 'method_type')}({cg.ref(fn)}, {cg.ref(v.instance)})"
    )


def _partial(cg: Codegen, v: PartialVariable) -> str:
    keywords = "".join(f"{k!r}: {cg.ref(a)}, " for k, a in v.keywords.items())
    make = cg.const(functools.partial, "partial")
    return cg.temp(f"{make}({cg.ref(v.fn)}, {cg.refs(v.args)}**{{{keywords}}})")


def _made_callable(cg: Codegen, v: MadeCallableVariable) -> str:
    keywords = "".join(f"{k!r}: {cg.ref(a)}, " for k, a in v.keywords.items())
    make = cg.const(v.maker, "make")
    return cg.temp(f"{make}({cg.refs(v.args)}**{{{keywords}}})")


def _identity(cg: Codegen, v: IdentityVariable) -> str:
    return cg.temp(f"{cg.const(id, 'id')}({cg.ref(v.target)})")


def _lock(cg: Codegen, v: LockVariable) -> str:
    if v.depth:
        raise CannotRebuild(v)
    make = _thread.RLock if v.cls is RLOCK else _thread.allocate_lock
    return cg.temp(f"{cg.const(make, 'lock')}()")


def _weak(cg: Codegen, v: WeakVariable) -> str:
    make = weakref.proxy if v.is_proxy else weakref.ref
    parts = [cg.ref(v.target)] + ([] if v.callback is None else [cg.ref(v.callback)])
    return cg.temp(f"{cg.const(make, make.__name__)}({', '.join(parts)})")


def _super(cg: Codegen, v: SuperVariable) -> str:
    return cg.temp(f"{cg.const(super, 'super_type')}({cg.ref(v.cls)}, {cg.ref(v.instance)})")


def _iterator(cg: Codegen, v: IteratorVariable) -> str:
    it = cg.const(iter, "iter")
    if v.done:
        empty = _EXHAUSTED.get(v.cls)
        if empty is None:
            raise CannotRebuild(v)
        return cg.temp(cg.const(empty, "exhausted") + "()")
    kind = v.kind
    if kind in ("sequence", "range", "indexed"):
        target = v.target[0] if isinstance(v.target, tuple) else v.target
        name = cg.temp(f"{it}({cg.ref(target)})")
        return _at_position(cg, name, target, v.position) if v.position else name
    if kind == "reversed":
        name = cg.temp(f"{cg.const(reversed, 'reversed')}({cg.ref(v.target)})")
        return _at_position(cg, name, v.target, v.position)
    if kind == "enumerate":
        return cg.temp(
            f"{cg.const(enumerate, 'enumerate')}({cg.ref(v.parts[0])}, {v.target + v.position})"
        )
    if kind == "zip":
        strict = "strict=True" if v.target else ""
        return cg.temp(f"{cg.const(zip, 'zip')}({cg.refs(v.parts)}{strict})")
    if kind == "map":
        return cg.temp(f"{cg.const(map, 'map')}({cg.refs(v.parts)})")
    if kind in ("deque", "deque_reversed"):
        if kind == "deque_reversed":
            it = cg.const(reversed, "reversed")
        deque, moves = v.target
        if moves != deque.moves or id(deque) in cg.changed:
            raise CannotRebuild(v)  # it refers to the deque as it was
        name = cg.temp(f"{it}({cg.ref(deque)})")
        for _ in range(v.position):
            cg.lines.append(f"{cg.const(next, 'next')}({name})")
        return name
    if kind.startswith("dict_") or kind == "set":
        target, snapshot = v.target
        owner = target.owner if isinstance(target, InstanceDictVariable) else target
        if id(owner) in cg.changed or (kind != "set" and list(target.entries) != snapshot):
            raise CannotRebuild(v)  # such an iterator knows the size that it began with
        keys = target._entries or () if kind == "set" else target.entries
        entries = [keys[k] for k in keys]
        if any(
            runs_code(e if isinstance(e, Variable) else e[0]) for e in entries if e is not DELETED
        ):
            raise CannotRebuild(target)  # it is filled last
        iterated = cg.ref(target)
        if isinstance(target, DictVariable):  # past what a subclass overrides
            iterated = f"{dict_method(cg, target, kind[5:])}({iterated})"
        name = cg.temp(f"{it}({iterated})")
        for _ in range(v.position):
            cg.lines.append(f"{cg.const(next, 'next')}({name})")
        return name
    raise CannotRebuild(v)


def _at_position(cg: Codegen, name: str, target: Any, position: int) -> str:
    """Move an iterator on; at the very end if the journal changes the sequence's length."""
    if isinstance(target, Variable) and id(target) in cg.changed:
        cg.late.append(f"{name}.__setstate__({position})")
    else:
        cg.lines.append(f"{name}.__setstate__({position})")
    return name


# What makes an iterator of a type that is at its end.
_ENDED: tuple[Callable[[], Any], ...] = (
    lambda: iter([]), lambda: iter(()), lambda: iter(range(0)), lambda: iter(""),
    lambda: iter(b""), lambda: iter({}), lambda: iter({}.values()), lambda: iter({}.items()),
    lambda: iter(set()), lambda: iter(collections.deque()), lambda: reversed([]),
    lambda: reversed(collections.deque()),
    lambda: enumerate(()), zip, lambda: iter(range(1 << 70, 1 << 70)),
)  # fmt: skip
_EXHAUSTED: dict[type, Callable[[], Any]] = {type(make()): make for make in _ENDED}


def _end(generator: types.GeneratorType[Any, Any, Any]) -> None:
    """Bring a generator that has not started to its end, and let go of all that it holds.

    ``close`` would do until 3.11; since then it only marks such a generator as ended, whose frame
    keeps the arguments alive (``gen_close`` in CPython's Objects/genobject.c).
    """
    with contextlib.suppress(GeneratorExit):
        generator.throw(GeneratorExit)


def _generator(cg: Codegen, v: GeneratorVariable) -> str:
    if v.state == "finished":
        if original_of(v.fn.code) is not None:
            raise CannotRebuild(v)
        keywords = "".join(f"{k!r}: {cg.ref(a)}, " for k, a in v.kwargs.items())
        name = cg.temp(f"{cg.ref(v.fn)}({cg.refs(v.args)}**{{{keywords}}})")
        cg.lines.append(f"{cg.const(_end, 'end')}({name})")
        return name
    if v.state != "created" or original_of(v.fn.code) is not None:
        raise CannotRebuild(v)
    keywords = "".join(f"{k!r}: {cg.ref(a)}, " for k, a in v.kwargs.items())
    return cg.temp(f"{cg.ref(v.fn)}({cg.refs(v.args)}**{{{keywords}}})")


REBUILD.update(
    {
        ListVariable: _list,
        TupleVariable: _tuple,
        StaticDictVariable: _static_dict,
        InstanceDictVariable: _instance_dict,
        LocalsVariable: _locals,
        DictVariable: _dict,
        SetVariable: _set,
        DictViewVariable: _view,
        SliceVariable: _slice,
        RangeVariable: _range,
        ExceptionVariable: _exception,
        ClassVariable: _class_object,
        MadeClassVariable: _made_class,
        DescriptorVariable: _descriptor,
        FunctionVariable: _function,
        MadeCallableVariable: _made_callable,
        PartialVariable: _partial,
        ObjectVariable: _object,
        CellVariable: _cell,
        MethodVariable: _method,
        BuiltinVariable: _builtin,
        SuperVariable: _super,
        WeakVariable: _weak,
        LockVariable: _lock,
        IdentityVariable: _identity,
        IteratorVariable: _iterator,
        GeneratorVariable: _generator,
    }
)
