"""Holds the step from a real value to a variable, by exact type; must not know the interpreter.

What is wrapped here was depended on: each kind adds the guards that make it valid.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import types
import weakref
from typing import Any

import torch

from capture import break_reasons as reasons
from capture.guards.kinds import Equals, ExprHolds, IdIs, IsSame, LenIs, TypeIs
from capture.guards.torch_kinds import TensorFacts, TensorMatch
from capture.sources import (
    RANGE_ITERATOR,
    AttrSource,
    BuiltinsSource,
    ClosureCellSource,
    DictItemSource,
    DictLookupSource,
    FunctionClosureSource,
    FunctionCodeSource,
    FunctionDefaultsSource,
    FunctionGlobalsSource,
    FunctionKwDefaultsSource,
    GlobalsSource,
    InstanceDictSource,
    ItemSource,
    LocalSource,
    MethodFuncSource,
    MethodSelfSource,
    PartialSource,
    SizeSource,
    SlotMemberSource,
    Source,
    StrideSource,
    TypeAttrSource,
    TypeSource,
)
from capture.variables.base import (
    MISSING,
    LazyVariable,
    SizePlan,
    Tracer,
    Variable,
    unsupported,
)
from capture.variables.constant import ConstantVariable, ScalarVariable
from capture.variables.containers import (
    DictVariable,
    ListVariable,
    RangeVariable,
    SetIs,
    SetVariable,
    SliceVariable,
    TupleVariable,
    is_constant_key,
    set_has_constants,
)
from capture.variables.functions import (
    BINDING,
    BuiltinVariable,
    CellVariable,
    FunctionVariable,
    MethodVariable,
    PartialVariable,
)
from capture.variables.objects import (
    ClassVariable,
    ModuleVariable,
    ObjectVariable,
    is_static_type,
    lookup_mro,
)
from capture.variables.outer_iterators import range_iterator
from capture.variables.process_groups import is_process_group, wrap_process_group
from capture.variables.tensor import TensorVariable

_BY_EQUALITY = frozenset(
    {type(None), bool, str, bytes, complex, type(Ellipsis), type(NotImplemented), torch.device}
)
_BY_IDENTITY = frozenset({torch.dtype, torch.layout, torch.memory_format, types.CodeType})
_DESCRIPTORS = frozenset(
    {
        types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
        types.GetSetDescriptorType, types.MemberDescriptorType, types.ClassMethodDescriptorType,
        types.MethodWrapperType,
    }
)  # fmt: skip
TENSOR_TYPES = frozenset({torch.Tensor, torch.nn.Parameter})


def wrap(tracer: Tracer, value: Any, source: Source) -> Variable:
    """The variable for a value reached through a source, guarded."""
    kind = type(value)
    if type(kind) is not type:
        refuse_unusual_class(kind)
    if kind in _BY_EQUALITY:
        tracer.guard(Equals(source, value))
        return ConstantVariable(value, source)
    if kind is int or kind is float:
        return wrap_number(tracer, value, source)
    if kind in _BY_IDENTITY:
        tracer.guard(IdIs(source, value))
        return ConstantVariable(value, source)
    if issubclass(kind, weakref.ProxyTypes):
        unsupported(reasons.UNKNOWN_OPERATION, f"the weak proxy {source.name}")
    known = tracer.identity.get(id(value))
    if known is not None:
        if known.source is None:  # met before as a constant of the program
            tracer.guard(IdIs(source, value))
        elif known.source != source:
            same_object(tracer, known, value, source)
        return known
    variable = wrap_object(tracer, kind, value, source)
    tracer.identity[id(value)] = variable
    tracer.keep_alive.append(value)
    return variable


def same_object(tracer: Tracer, known: Variable, value: Any, source: Source) -> None:
    """Guard that another way to a known object still leads to it."""
    if isinstance(known, (ClassVariable, ModuleVariable, BuiltinVariable)) or (
        isinstance(known, FunctionVariable) and known.source in tracer.by_identity
    ):
        tracer.guard(IdIs(source, value))
    else:
        assert known.source is not None
        tracer.guard(IsSame(source, known.source))


def wrap_number(tracer: Tracer, value: Any, source: Source) -> Variable:
    """An int or float: a constant at first, an input of the graph once it was seen to change."""
    if tracer.is_dynamic(source, value):
        known = tracer.scalars.get(source)
        if known is None:
            tracer.guard(TypeIs(source, type(value)))
            scalar = tracer.graph.add_scalar_input(name_for(source), value, source)
            known = tracer.scalars[source] = ScalarVariable(scalar, "a0", (source,), source)
        return known
    tracer.guard(Equals(source, value))
    return ConstantVariable(value, source)


def name_for(source: Source) -> str:
    """A readable graph name for a source."""
    text = "".join(c if c.isalnum() else "_" for c in source.name)
    while "__" in text:
        text = text.replace("__", "_")
    text = text.strip("_") or "input"
    return text if not text[0].isdigit() else f"input_{text}"


def wrap_object(tracer: Tracer, kind: type, value: Any, source: Source) -> Variable:
    """The variable of a value with identity."""
    if kind in TENSOR_TYPES:
        return wrap_tensor(tracer, value, source)
    if kind is types.FunctionType:
        return wrap_function(tracer, value, source)
    # ``isinstance`` would ask the value for its class, which may run the program's code.
    if issubclass(kind, type):
        refuse_unusual_class(value)
        tracer.guard(IdIs(source, value))
        tracer.class_sources.setdefault(id(value), (value, source))
        return ClassVariable(value, source)
    if issubclass(kind, types.ModuleType):
        tracer.guard(IdIs(source, value))
        tracer.guard(TypeIs(source, kind))  # a module may get another class
        return ModuleVariable(value, source)
    if kind in (types.BuiltinFunctionType, types.MethodWrapperType):
        bound = bound_native(tracer, value, source)
        if bound is not None:
            return bound
    if kind in _DESCRIPTORS:
        tracer.guard(IdIs(source, value))
        return BuiltinVariable(value, source)
    if kind is types.MethodType and isinstance(value.__func__, BINDING):
        tracer.guard(IdIs(source, value))
        return ObjectVariable(kind, value, source)
    if kind is types.MethodType:
        tracer.guard(TypeIs(source, kind))
        fn = tracer.wrap(value.__func__, MethodFuncSource(source))
        return MethodVariable(fn, tracer.wrap(value.__self__, MethodSelfSource(source)), source)
    if issubclass(kind, (enum.Enum, types.UnionType, types.GenericAlias)):
        tracer.guard(IdIs(source, value))
        return ObjectVariable(kind, value, source)
    if issubclass(kind, torch.Tensor):
        tracer.guard(TypeIs(source, kind))
        return ObjectVariable(kind, value, source)
    if kind is types.CellType:
        tracer.guard(TypeIs(source, kind))
        return CellVariable(value, source)
    if is_process_group(kind):
        return wrap_process_group(tracer, kind, value, source)
    tracer.guard(TypeIs(source, kind))
    tracer.class_sources.setdefault(id(kind), (kind, TypeSource(source)))
    if issubclass(kind, dict):
        return DictVariable(kind, value, source)
    if issubclass(kind, list):
        return ListVariable(None, kind, value, source)
    if issubclass(kind, tuple):
        return TupleVariable(None, kind, value, source)
    if issubclass(kind, collections.deque):
        tracer.guard(Equals(AttrSource(source, "maxlen"), value.maxlen))
        return ListVariable(None, kind, value, source, maxlen=value.maxlen)
    if kind is RANGE_ITERATOR:
        return range_iterator(value, source)
    if kind is range:
        for name in ("start", "stop", "step"):
            tracer.guard(Equals(AttrSource(source, name), getattr(value, name)))
        return RangeVariable(value, source)
    if kind is slice:
        parts: list[Variable] = [
            LazyVariable(getattr(value, n), AttrSource(source, n))
            for n in ("start", "stop", "step")
        ]
        return SliceVariable(parts, source)
    if issubclass(kind, (set, frozenset)):
        tracer.guard(LenIs(source, (set if issubclass(kind, set) else frozenset).__len__(value)))
        if set_has_constants(value):
            text = f"{source.name} == {set(value)!r}"
            tracer.guard(ExprHolds((source,), SetIs.of(value), text))
        return SetVariable(None, kind, value, source)
    if kind is functools.partial:
        fn = LazyVariable(value.func, PartialSource(source, "func"))
        args_source = PartialSource(source, "args")
        tracer.guard(LenIs(args_source, len(value.args)))
        args: list[Variable] = [
            LazyVariable(a, ItemSource(args_source, i)) for i, a in enumerate(value.args)
        ]
        held = tracer.wrap(value.keywords, PartialSource(source, "keywords"))
        assert isinstance(held, DictVariable)
        keywords = {k: entry[1] for k, entry in held.load(tracer).items()}
        return PartialVariable(kind, fn, args, keywords, value, source)
    return ObjectVariable(kind, value, source)


def refuse_unusual_class(cls: type) -> None:
    """Break at a class that runs the program's code where it is compared or hashed.

    So does one that its metaclass is still making: it has no MRO yet.
    """
    meta = type(cls)
    if meta is not type and not (meta.__hash__ is type.__hash__ and meta.__eq__ is type.__eq__):
        what = f"the class {cls.__name__}, whose metaclass compares and hashes in its own way"
        unsupported(reasons.UNKNOWN_OPERATION, what)
    if type.__dict__["__mro__"].__get__(cls) is None:
        unsupported(reasons.UNKNOWN_OPERATION, f"the class {cls.__name__}, which is not made yet")


def bound_native(tracer: Tracer, value: Any, source: Source) -> Variable | None:
    """A bound method of a C type (``items.append``), or None: a plain C function."""
    owner = value.__self__
    if owner is None or issubclass(type(owner), types.ModuleType):
        return None
    if issubclass(type(owner), type):
        if not is_static_type(owner):
            return None
        # ``int.from_bytes``: each look-up makes a new object, so identity would not hold
        tracer.guard(TypeIs(source, type(value)))
        tracer.guard(IdIs(AttrSource(source, "__self__"), owner))
        tracer.guard(Equals(AttrSource(source, "__name__"), value.__name__))
        return BuiltinVariable(value, source)
    descriptor = lookup_mro(type(owner), value.__name__)[0]
    if type(descriptor) not in (types.MethodDescriptorType, types.WrapperDescriptorType):
        return None
    tracer.guard(TypeIs(source, type(value)))
    tracer.guard(Equals(AttrSource(source, "__name__"), value.__name__))
    instance = tracer.wrap(owner, AttrSource(source, "__self__"))
    return MethodVariable(BuiltinVariable(descriptor), instance, source)


def wrap_tensor(tracer: Tracer, value: torch.Tensor, source: Source) -> Variable:
    """A plain tensor or parameter: an input of the graph, guarded by its metadata."""
    # whether a tensor that requires grad is a leaf decides what autograd does with it
    facts = TensorFacts.of(value, with_leaf=value.requires_grad)
    if facts.sparse and not value.requires_grad:
        return wrap_sparse(tracer, value, source, facts)
    if value.requires_grad and facts.is_leaf is None:
        what = f"{source.name}, a view whose base was written to since"
        unsupported(reasons.UNKNOWN_OPERATION, what)
    if not facts.plain:
        tracer.guard(TypeIs(source, type(value)))
        return ObjectVariable(type(value), value, source)
    plan = tracer.plan_sizes(source, value)
    if plan is None:
        tracer.guard(TensorMatch(source, facts))
        tensor = tracer.graph.add_input(name_for(source), value, source)
    else:
        facts, shape, stride = symbolic_sizes(tracer, value, source, plan)
        tracer.guard(TensorMatch(source, facts))
        tensor = tracer.graph.add_input(name_for(source), value, source, shape, stride)
    variable = TensorVariable(tensor, source)
    tracer.tensors[id(tensor)] = variable
    tracer.real_tensors[source] = value
    return variable


def wrap_sparse(
    tracer: Tracer, value: torch.Tensor, source: Source, facts: TensorFacts
) -> Variable:
    """A tensor in coordinate format: an input that few operators of a graph take."""
    tracer.guard(TensorMatch(source, facts))
    tensor = tracer.graph.add_input(name_for(source), value, source)
    variable = TensorVariable(tensor, source)
    tracer.tensors[id(tensor)] = variable
    tracer.real_tensors[source] = value
    return variable


def symbolic_sizes(
    tracer: Tracer, value: torch.Tensor, source: Source, plan: SizePlan
) -> tuple[TensorFacts, tuple[Any, ...], tuple[Any, ...]]:
    """What is demanded of a tensor with symbolic sizes; its sizes and strides."""
    facts = TensorFacts.of(value, plan.sizes)
    shapes = tracer.graph.symbolic()
    shape: list[Any] = []
    for i, n in enumerate(value.shape):
        if i in plan.sizes:
            key = SizeSource(source, i)
            low, high = plan.bounds.get(i, (None, None))
            shape.append(shapes.size(key, key.name, n, low, high))
        else:
            shape.append(n)
    if facts.contiguous and not plan.strides:
        strides: list[Any] = []
        step: Any = 1
        for n in reversed(shape):
            strides.insert(0, step)
            step = tracer.graph.product((step, max(n, 1) if type(n) is int else n))
        return facts, tuple(shape), tuple(strides)
    # a stride of zero or one means too much to vary
    demanded = tuple(
        None if step > 1 and (i in plan.strides or known is None) else step
        for i, (step, known) in enumerate(
            zip(value.stride(), facts.strides or value.stride(), strict=True)
        )
    )
    strides = []
    for i, known in enumerate(demanded):
        where = StrideSource(source, i)
        strides.append(shapes.size(where, where.name, value.stride(i)) if known is None else known)
    facts = dataclasses.replace(facts, strides=demanded, contiguous=False)
    return facts, tuple(shape), tuple(strides)


def is_fixed_path(source: Source) -> bool:
    """True if the way to a value starts at the module's globals or goes through a class."""
    step: Source | None = source
    while step is not None:
        if isinstance(step, (GlobalsSource, BuiltinsSource, TypeAttrSource, TypeSource)):
            return True
        if isinstance(step, (LocalSource, ClosureCellSource)):
            return False
        step = step.parent
    return False


def is_part_of_object(source: Source) -> bool:
    """True if a value is reached through an object's attributes: it is part of a state."""
    step: Source | None = source
    while step is not None:
        if isinstance(step, (InstanceDictSource, SlotMemberSource, DictLookupSource)):
            return True
        step = step.parent
    return False


def wrap_function(tracer: Tracer, value: types.FunctionType, source: Source) -> FunctionVariable:
    """A Python function: by identity if it is part of the program, by code if it is passed in."""
    if is_fixed_path(source):
        tracer.guard(IdIs(source, value))
        tracer.by_identity.add(source)
    else:
        tracer.guard(TypeIs(source, types.FunctionType))
        tracer.guard(IdIs(FunctionCodeSource(source), value.__code__))
    code = value.__code__
    globals_ = tracer.wrap(value.__globals__, FunctionGlobalsSource(source))
    assert isinstance(globals_, DictVariable)
    closure = []
    for i, cell in enumerate(value.__closure__ or ()):
        closure.append(tracer.cell_variable(cell, FunctionClosureSource(source, i)))
    defaults: list[Variable] = []
    held = value.__defaults__
    if held:
        where = FunctionDefaultsSource(source)
        tracer.guard(LenIs(where, len(held)))
        defaults = [LazyVariable(v, ItemSource(where, i)) for i, v in enumerate(held)]
    keyword_source = FunctionKwDefaultsSource(source)
    kwdefaults: dict[str, Variable] = {
        k: LazyVariable(v, DictItemSource(keyword_source, k))
        for k, v in (value.__kwdefaults__ or {}).items()
    }
    return FunctionVariable(
        code, globals_, name=value.__name__, qualname=value.__qualname__, closure=closure,
        defaults=defaults, kwdefaults=kwdefaults, value=value, source=source,
    )  # fmt: skip


class StaticDictVariable(DictVariable):
    """The globals of the package's own functions: constant, so nothing is guarded."""

    __slots__ = ("real",)

    def __init__(self, real: dict[str, Any]) -> None:
        super().__init__(dict)
        self.real = real

    def get_hashed(
        self, tracer: Tracer, hashed: Any, key: Variable | None = None
    ) -> Variable | None:
        """The global of that name, or None."""
        found = self.real.get(hashed, MISSING)
        return None if found is MISSING else tracer.wrap_static(found, None)


def wrap_static(tracer: Tracer, value: Any, source: Source | None) -> Variable:
    """The variable of a value that the program cannot change, or that has a source after all."""
    if source is not None:
        return tracer.wrap(value, source)
    kind = type(value)
    if type(kind) is not type:
        refuse_unusual_class(kind)
    if kind is not tuple and (
        is_constant_key(value) or kind in _BY_EQUALITY or kind in _BY_IDENTITY
    ):
        return ConstantVariable(value)
    known = tracer.identity.get(id(value))
    if known is not None:
        return known
    variable: Variable
    if kind is types.FunctionType:
        keywords = value.__kwdefaults__ or {}
        variable = FunctionVariable(
            value.__code__,
            StaticDictVariable(value.__globals__),
            name=value.__name__,
            qualname=value.__qualname__,
            closure=[static_cell(tracer, c) for c in value.__closure__ or ()],
            defaults=[wrap_static(tracer, d, None) for d in value.__defaults__ or ()],
            kwdefaults={k: wrap_static(tracer, d, None) for k, d in keywords.items()},
            value=value,
        )
    elif issubclass(kind, type):
        refuse_unusual_class(value)
        variable = ClassVariable(value, tracer.class_source(value, None, None))
    elif kind in _DESCRIPTORS:
        variable = BuiltinVariable(value)
    elif kind is tuple:
        variable = TupleVariable([wrap_static(tracer, v, None) for v in value], value=value)
    elif kind is types.MappingProxyType:
        variable = DictVariable(kind, value)
        variable.loaded = True
        variable.entries = {
            k: (wrap_static(tracer, k, None), wrap_static(tracer, v, None))
            for k, v in value.items()
        }
    elif issubclass(kind, types.ModuleType):
        variable = StaticModuleVariable(value)
    else:
        variable = ObjectVariable(kind, value)
    tracer.identity[id(value)] = variable
    tracer.keep_alive.append(value)
    return variable


class StaticModuleVariable(ObjectVariable):
    """A module seen by the package's own functions."""

    __slots__ = ()

    def __init__(self, value: types.ModuleType) -> None:
        super().__init__(type(value), value)


def static_cell(tracer: Tracer, cell: types.CellType) -> CellVariable:
    """The cell of a function of ours."""
    variable = CellVariable()
    variable.contents = wrap_static(tracer, cell.cell_contents, None)
    return variable
