"""Holds the lowering of guards to one native tree; must not know variables.

Guards are gathered by source into a tree of nodes that shares prefixes, and the tree is written as
the plain tuples that ``GuardTree`` reads. The numbers are those of ``csrc/guard_tree.h``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import torch

from capture.guards import kinds, native_setup
from capture.guards.guard import Guard, Reference, SourceGuard
from capture.guards.size_program import NumbersHold, programs_of, without_implied
from capture.guards.torch_kinds import StateIs, TensorFacts, TensorMatch
from capture.sources import (
    AttrSource,
    BuiltinsSource,
    CellContentsSource,
    ClosureCellSource,
    DictItemSource,
    DictKeySource,
    DictLookupSource,
    DictValueSource,
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
    ModulesSource,
    MroItemSource,
    PartialSource,
    PropertySource,
    RangeIteratorSource,
    ReferentSource,
    SizeSource,
    SlotMemberSource,
    Source,
    StrideSource,
    TypeAttrSource,
    TypeSource,
    WrappedSource,
    has_type,
)

if TYPE_CHECKING:
    from capture._native import GuardTree

__all__ = ["Accessor", "Check", "Post", "build_tree"]


class Accessor(IntEnum):
    """How a node's value is reached from its parent's."""

    LOCAL = 0
    CLOSURE_CELL = 1
    GLOBALS = 2
    BUILTINS = 3
    CELL_CONTENTS = 4
    DICT_ITEM = 5
    DICT_LOOKUP = 6
    DICT_KEY = 7
    INSTANCE_DICT = 8
    ATTR = 9
    MEMBER = 10
    SLOT_MEMBER = 11
    TYPE = 12
    TYPE_ATTR = 13
    MRO_ITEM = 14
    ITEM = 15
    FUNC_GLOBALS = 16
    FUNC_CLOSURE = 17
    FUNC_DEFAULTS = 18
    FUNC_KWDEFAULTS = 19
    FUNC_CODE = 20
    METHOD_SELF = 21
    METHOD_FUNC = 22
    MODULES = 23
    REFERENT = 24
    DICT_VALUE = 25
    TENSOR_SIZE = 26
    TENSOR_STRIDE = 27
    RANGE_ITERATOR = 28


class Check(IntEnum):
    """What a node demands of its value."""

    TYPE = 0
    IDENTITY = 1
    EQUAL = 2
    LENGTH = 3
    EMPTY = 4
    DICT_KEYS = 5
    DICT_ORDER = 6
    DICT_HAS = 7
    DICT_LACKS = 8
    TYPE_LACKS = 9
    TENSOR = 10
    CELL_BOUND = 11


class Post(IntEnum):
    """What is demanded of several values together."""

    SAME = 0
    NOT_SAME = 1
    ALL_DISTINCT = 2
    STORAGES = 3
    EXPRESSION = 4
    SIZES = 5


class _Node:
    __slots__ = ("accessor", "captures", "checks", "children", "key", "slot")

    def __init__(self, accessor: int, key: object) -> None:
        self.accessor = accessor
        self.key = key
        self.checks: list[tuple[int, object]] = []
        self.children: list[_Node] = []
        self.captures: list[int] = []
        self.slot = -1

    @property
    def rank(self) -> int:
        """Cheap and likely to fail first: plain leaves, then tensors, then subtrees."""
        if self.children:
            return 2
        return int(any(kind == Check.TENSOR for kind, _ in self.checks))

    def as_tuple(self) -> tuple[object, ...]:
        children = self.children
        if len(children) > 1:
            children = sorted(children, key=lambda child: child.rank)
        checks = self.checks
        if len(checks) > 1:
            checks = sorted(checks, key=lambda check: check[0])
            if checks[0][0] == Check.TYPE and checks[-1][0] == Check.TENSOR:
                checks = checks[1:]  # a tensor check looks at the type first
        return (
            self.accessor,
            self.key,
            tuple(checks),
            tuple(child.as_tuple() for child in children),
            tuple(self.captures),
            self.slot,
        )


def build_tree(guards: list[Guard], captures: list[Source]) -> GuardTree:
    """Return one native tree for the guards, filling ``captures``."""
    readers = native_setup.readers()
    builder = _TreeBuilder(readers)
    builder.dicts = {
        guard.source
        for guard in guards
        if isinstance(guard, kinds.TypeIs) and guard.reference.refers_to(dict)
    }
    conditions: list[NumbersHold] = []
    for guard in guards:
        if type(guard) is NumbersHold:
            conditions.append(guard)
        else:
            _LOWER[type(guard)](builder, guard)
    if conditions:
        _conditions(builder, conditions)
    for place, source in enumerate(captures):
        builder.node(source).captures.append(place)
    roots = tuple(root.as_tuple() for root in builder.roots)
    tree: GuardTree = native_setup.native().GuardTree(
        roots, len(captures), tuple(builder.post), builder.snapshot, builder.n_slots
    )
    return tree


class _TreeBuilder:
    def __init__(self, readers: native_setup.NativeReaders) -> None:
        self.readers = readers
        self.roots: list[_Node] = []
        self.nodes: dict[Source, _Node] = {}
        self.post: list[tuple[int, tuple[int, ...], object]] = []
        self.snapshot: Any = None
        self.n_slots = 0
        self.dicts: set[Source] = set()

    def node(self, source: Source) -> _Node:
        """The node of a source, made with its parents when missing."""
        node = self.nodes.get(source)
        if node is None:
            accessor, key_of = _ACCESSORS[type(source)]
            if type(source) is DictLookupSource:
                # a root of its own, behind the roots whose values it looks up
                slots = (self.slot(source.base), self.slot(source.key))
                node = _Node(accessor, slots)
                self.roots.append(node)
            else:
                node = _Node(accessor, key_of(source))
                parent = source.parent
                siblings = self.roots if parent is None else self.node(parent).children
                siblings.append(node)
            self.nodes[source] = node
        return node

    def slot(self, source: Source) -> int:
        """The number under which a source's value is kept for the checks behind the walk."""
        node = self.node(source)
        if node.slot < 0:
            node.slot = self.n_slots
            self.n_slots += 1
        return node.slot

    def check(self, source: Source, kind: Check, argument: object) -> None:
        self.node(source).checks.append((int(kind), argument))

    def post_check(self, kind: Post, sources: tuple[Source, ...], argument: object) -> None:
        slots = tuple(self.slot(source) for source in sources)
        self.post.append((int(kind), slots, argument))


def _no_key(source: Any) -> object:
    return None


def _index(source: Any) -> object:
    return source.index


_ACCESSORS: dict[type, tuple[int, Callable[[Any], object]]] = {
    LocalSource: (0, _index),
    ClosureCellSource: (1, _index),
    GlobalsSource: (2, _no_key),
    BuiltinsSource: (3, _no_key),
    ModulesSource: (23, _no_key),
    CellContentsSource: (4, _no_key),
    DictItemSource: (5, lambda source: source.key),
    DictLookupSource: (6, _no_key),
    DictKeySource: (7, _index),
    InstanceDictSource: (8, _no_key),
    AttrSource: (9, lambda source: source.attr),
    PropertySource: (10, lambda source: (property.__dict__[source.part],)),
    WrappedSource: (
        10,
        lambda source: (staticmethod.__dict__["__func__"], classmethod.__dict__["__func__"]),
    ),
    PartialSource: (10, lambda source: (functools.partial.__dict__[source.part],)),
    SlotMemberSource: (11, lambda source: source.member),
    TypeSource: (12, _no_key),
    TypeAttrSource: (13, lambda source: source.attr),
    MroItemSource: (14, _index),
    ItemSource: (15, _index),
    FunctionGlobalsSource: (16, _no_key),
    FunctionClosureSource: (17, _index),
    FunctionDefaultsSource: (18, _no_key),
    FunctionKwDefaultsSource: (19, _no_key),
    FunctionCodeSource: (20, _no_key),
    MethodSelfSource: (21, _no_key),
    MethodFuncSource: (22, _no_key),
    ReferentSource: (24, _no_key),
    DictValueSource: (25, _index),
    SizeSource: (26, lambda source: source.dim),
    StrideSource: (27, lambda source: source.dim),
    RangeIteratorSource: (28, lambda source: source.PARTS.index(source.part)),
}


def _referent(reference: Reference) -> object:
    # what is dead already can never be met again: a fresh object stands for it
    found = reference.get()
    return object() if found is None and not reference.alive else found


def _type_is(builder: _TreeBuilder, guard: kinds.TypeIs) -> None:
    wanted = _referent(guard.reference)
    if isinstance(wanted, type):
        builder.check(guard.source, Check.TYPE, wanted)
    else:
        builder.check(guard.source, Check.IDENTITY, wanted)


def _id_is(builder: _TreeBuilder, guard: kinds.IdIs) -> None:
    builder.check(guard.source, Check.IDENTITY, _referent(guard.reference))


def _equals(builder: _TreeBuilder, guard: kinds.Equals) -> None:
    value = guard.value
    if value is None or value is True or value is False:
        builder.check(guard.source, Check.IDENTITY, value)
    else:
        builder.check(guard.source, Check.EQUAL, value)


def _dict_keys_are(builder: _TreeBuilder, guard: kinds.DictKeysAre) -> None:
    if any(isinstance(key, Reference) for key in guard.keys):
        # one by one, since the tree holds such keys weakly
        builder.check(guard.source, Check.LENGTH, len(guard.keys))
        for place, key in enumerate(guard.keys):
            source = DictKeySource(guard.source, place)
            if isinstance(key, Reference):
                builder.check(source, Check.IDENTITY, _referent(key))
            else:
                builder.check(source, Check.EQUAL, _constant(key))
        return
    keys = tuple(_constant(key) for key in guard.keys)
    known = guard.source in builder.dicts or len(keys) < 2
    builder.check(guard.source, Check.DICT_KEYS if known else Check.DICT_ORDER, keys)


def _constant(key: Any) -> object:
    return key.value


def _tensor_match(builder: _TreeBuilder, guard: TensorMatch) -> None:
    facts = guard.facts
    readers = builder.readers
    dtype = readers.dtype_codes.get(facts.dtype)
    device = readers.device_codes(facts.device)
    native = readers.metadata and facts.plain and dtype is not None and device is not None
    strides = facts.strides
    builder.check(
        guard.source,
        Check.TENSOR,
        (
            facts.cls,
            facts.dispatch_keys,
            -1 if dtype is None else dtype,
            *(device or (-1, -1)),
            tuple(-1 if size is None else size for size in facts.shape),
            strides and tuple(-1 if stride is None else stride for stride in strides),
            int(facts.requires_grad),
            -1 if facts.is_leaf is None else int(facts.is_leaf),
            native,
            facts.contiguous,
            functools.partial(_matches, facts),
        ),
    )


def _matches(facts: TensorFacts, value: object) -> bool:
    return has_type(value, torch.Tensor) and not facts.differences(value)


def _state_is(builder: _TreeBuilder, guard: StateIs) -> None:
    snapshot = guard.snapshot
    if snapshot is None or builder.snapshot is not None:
        builder.post_check(Post.EXPRESSION, (), guard.state.is_current)
    else:
        builder.snapshot = snapshot


def _storages_are(builder: _TreeBuilder, guard: kinds.StoragesAre) -> None:
    if builder.readers.storage:
        builder.post_check(Post.STORAGES, guard.sources, guard.groups)
    else:
        builder.post_check(Post.EXPRESSION, guard.sources, guard.holds_for)


def _conditions(builder: _TreeBuilder, conditions: list[NumbersHold]) -> None:
    """Conditions on numbers: natively as far as possible, all of them at once."""
    programs, others = programs_of(without_implied(conditions))
    for program in programs:
        slots = [builder.slot(source) for source in program.holders]
        variables = tuple((slots[place], kind, dim) for place, kind, dim in program.variables)
        builder.post.append((int(Post.SIZES), (), (variables, program.code, program.fallback)))
    for guard in others:
        builder.post_check(Post.EXPRESSION, guard.sources, guard.fn)


def _simple(kind: Check, field: str) -> Callable[[_TreeBuilder, Any], None]:
    def lower(builder: _TreeBuilder, guard: SourceGuard) -> None:
        builder.check(guard.source, kind, getattr(guard, field))

    return lower


_LOWER: dict[type, Callable[[_TreeBuilder, Any], None]] = {
    kinds.TypeIs: _type_is,
    kinds.IdIs: _id_is,
    kinds.Equals: _equals,
    kinds.LenIs: _simple(Check.LENGTH, "length"),
    kinds.IsEmpty: _simple(Check.EMPTY, "empty"),
    kinds.DictKeysAre: _dict_keys_are,
    kinds.DictHas: _simple(Check.DICT_HAS, "key"),
    kinds.DictLacks: _simple(Check.DICT_LACKS, "key"),
    kinds.TypeAttrAbsent: _simple(Check.TYPE_LACKS, "attr"),
    kinds.BoundCell: _simple(Check.CELL_BOUND, "bound"),
    kinds.UnboundCell: _simple(Check.CELL_BOUND, "bound"),
    TensorMatch: _tensor_match,
    StateIs: _state_is,
    kinds.IsSame: lambda b, g: b.post_check(Post.SAME, (g.source, g.other), None),
    kinds.IsNotSame: lambda b, g: b.post_check(Post.NOT_SAME, (g.source, g.other), None),
    kinds.AllDistinct: lambda b, g: b.post_check(Post.ALL_DISTINCT, g.sources, None),
    kinds.StoragesAre: _storages_are,
    kinds.ExprHolds: lambda b, g: b.post_check(Post.EXPRESSION, g.sources, g.fn),
}
