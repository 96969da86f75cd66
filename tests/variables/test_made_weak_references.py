"""Weak references and proxies made in the frame: followed while their objects surely live."""

# mypy: ignore-errors

from __future__ import annotations

import functools
import gc
import operator
import weakref

import pytest
import torch

X = torch.tensor([1.0, -2.0, 3.0])


class Node:
    def __init__(self, value=0):
        self.value = value
        self.parent = None
        self.children = []

    def add(self, child):
        child.parent = weakref.ref(self)
        self.children.append(child)
        return child


class Sized:
    items = (1, 2)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]

    def __add__(self, other):
        return other

    def __eq__(self, other):
        return True

    def __call__(self, a):
        return a

    def __str__(self):
        return "sized"


def test_a_child_follows_its_parent(check):
    def f(x):
        root = Node(3)
        child = root.add(Node(4))
        return x * child.parent().value, child.parent() is root, type(child.parent)

    assert not check(f, (X,)).breaks


def test_a_proxy_stands_for_its_object(check):
    def f(x):
        node = Node(3)
        proxy = weakref.proxy(node)
        proxy.value += 1
        proxy.extra = x
        del proxy.parent
        found = proxy.add(Node(5)).value
        return x + node.value, node.extra is x, found, hasattr(node, "parent"), type(proxy)

    assert not check(f, (X,)).breaks


def test_one_reference_for_each_object(check):
    def f(x):
        a, b = Node(), Node()
        return (
            x + 1, weakref.ref(a) is weakref.ref(a), weakref.ref(a) is weakref.ref(b),
            weakref.proxy(a) is weakref.proxy(a), weakref.ref(a) == weakref.ref(b),
            weakref.ref(a, print) is weakref.ref(a),
        )  # fmt: skip

    check(f, (X,))


def test_references_are_keys(check):
    def f(x):
        a, b = Node(1), Node(2)
        table = {weakref.ref(a): "a", weakref.ref(b): "b"}
        return x + 1, table[weakref.ref(a)], table[weakref.ref(b)], len(table)

    assert not check(f, (X,)).breaks


def test_what_is_gone_is_left_to_python(check):
    def f(x):
        node = Node()
        reference = weakref.ref(node)
        first = reference() is node
        del node
        gc.collect()
        return x + 1, first, reference()

    check(f, (X,))


def test_an_object_that_only_a_container_holds(check):
    def f(x):
        held = {"a": [Node(7)]}
        reference = weakref.ref(held["a"][0])
        value = reference().value
        held.clear()
        return x + value, reference()

    check(f, (X,))


def test_a_callback_runs_when_eager_runs_it(check):
    def f(x):
        log = []
        node = Node()
        reference = weakref.ref(node, lambda r: log.append("gone"))
        alive = reference() is node
        del node
        log.append("behind")
        return x + 1, alive, log

    check(f, (X,))


def test_a_reference_leaves_the_frame(check):
    def f(x):
        node = Node(3)
        lost = weakref.ref(Node(4))
        return node, weakref.ref(node), weakref.proxy(node), lost, x + 1

    import capture

    for _ in range(2):
        node, reference, proxy, lost, _ = capture.compile(f, backend="eager")(X)
        assert reference() is node
        assert proxy.value == 3
        assert lost() is None


@pytest.mark.parametrize(
    "use",
    [len, bool, list, str, iter, callable, lambda p: p(1), lambda p: p[1], lambda p: 1 in p,
     lambda p: p + 1, lambda p: p == 5, lambda p: p != 5, lambda p: isinstance(p, Sized),
     lambda p: type(p).__name__, lambda p: p.__class__, hash, operator.length_hint,
     lambda p: f"{p}", lambda p: [*p], lambda p: p < 3],
)  # fmt: skip
def test_what_a_proxy_does_its_object_does(check, use):
    def f(x):
        sized = Sized()
        try:
            found = use(weakref.proxy(sized))
        except TypeError as error:
            found = type(error).__name__
        return x + 1, found if isinstance(found, (int, str, list, type)) else None

    check(f, (X,))


def test_what_has_no_weak_references(check):
    def f(x):
        try:
            weakref.ref(5)
        except TypeError as error:
            return x + 1, str(error)

    assert not check(f, (X,)).breaks


def test_a_generic_function_made_in_the_frame(check):
    def f(x):
        @functools.singledispatch
        def kind(value):
            return "other"

        @kind.register(int)
        def _(value):
            return "int"

        return x + 1, kind(3), kind("s"), kind(True)

    check(f, (X,))


def test_references_in_a_recursion_to_the_end_of_the_stack(check):
    def f(x):
        reference = None

        def deeper():
            nonlocal reference
            node = Node()
            reference = weakref.ref(node)
            deeper()

        try:
            deeper()
        except RecursionError:
            return x + 1, reference() is None

    check(f, (X,))
