"""Attribute look-up and assignment: every order of CPython's, and the guards behind it."""

# mypy: ignore-errors

from __future__ import annotations

import functools

import torch

X = torch.tensor([1.0, -2.0, 3.0])


class Plain:
    scale = 2.0

    def __init__(self, **attrs):
        self.__dict__.update(attrs)

    def double(self, x):
        return x * self.scale


def fresh(*bases, **namespace):
    """A new class for one run of a script, so that changing it disturbs nobody."""
    return type("Fresh", bases or (), namespace)


def changing(compile, read, obj, *changes):
    """Results of ``read(x, obj)`` before and after each change, twice each."""
    f = compile(read)
    results = [f(X, obj), f(X, obj)]
    for change in changes:
        change()
        results += [f(X, obj), f(X, obj)]
    return results


def test_class_attribute_rebound(check):
    def program(compile):
        C = fresh(scale=2.0)
        return changing(compile, lambda x, o: x * o.scale, C(), lambda: setattr(C, "scale", 3.0))

    check.script(program)


def test_instance_attribute_shadows_class_attribute_later(check):
    def program(compile):
        C = fresh(scale=2.0)
        o = C()
        return changing(
            compile,
            lambda x, o: x * o.scale,
            o,
            lambda: setattr(o, "scale", 3.0),
            lambda: delattr(o, "scale"),
        )

    check.script(program)


def test_class_attribute_becomes_a_property_that_wins_over_the_instance(check):
    def program(compile):
        C = fresh(scale=1.0)
        o = C()
        o.scale = 2.0
        return changing(
            compile,
            lambda x, o: x * o.scale,
            o,
            lambda: setattr(C, "scale", property(lambda s: 5.0)),
        )

    check.script(program)


def test_property_added_where_there_was_only_an_instance_attribute(check):
    def program(compile):
        C = fresh()
        o = C()
        o.scale = 2.0
        return changing(
            compile,
            lambda x, o: x * o.scale,
            o,
            lambda: setattr(C, "scale", property(lambda s: 5.0)),
        )

    check.script(program)


def test_property_redefined(check):
    def program(compile):
        C = fresh(scale=property(lambda s: 2.0))
        return changing(
            compile,
            lambda x, o: x * o.scale,
            C(),
            lambda: setattr(C, "scale", property(lambda s: 4.0)),
        )

    check.script(program)


def test_property_setter_added_later(check):
    def program(compile):
        C = fresh()
        o = C()

        def store(x, o):
            o.value = x + 1
            return sorted(o.__dict__)

        return changing(
            compile,
            store,
            o,
            lambda: setattr(
                C, "value", property(lambda s: 1, lambda s, v: s.__dict__.update(hidden=v))
            ),
        ), o.__dict__

    check.script(program)


def test_method_replaced_on_the_class(check):
    def program(compile):
        C = fresh(go=lambda s, x: x + 1)
        return changing(
            compile, lambda x, o: o.go(x), C(), lambda: setattr(C, "go", lambda s, x: x - 1)
        )

    check.script(program)


def test_method_replaced_on_the_instance(check):
    def program(compile):
        C = fresh(go=lambda s, x: x + 1)
        o = C()
        return changing(compile, lambda x, o: o.go(x), o, lambda: setattr(o, "go", lambda x: x * 7))

    check.script(program)


def test_method_added_to_a_subclass_later(check):
    def program(compile):
        class Base:
            def go(self, x):
                return x + 1

        class Sub(Base):
            pass

        return changing(
            compile, lambda x, o: o.go(x), Sub(), lambda: setattr(Sub, "go", lambda s, x: x * 3)
        )

    check.script(program)


def test_method_added_between_super_and_its_target(check):
    def program(compile):
        class A:
            def go(self, x):
                return x + 1

        class B(A):
            pass

        class C(B):
            def go(self, x):
                return super().go(x) * 2

        return changing(
            compile, lambda x, o: o.go(x), C(), lambda: setattr(B, "go", lambda s, x: x - 5)
        )

    check.script(program)


def test_getattribute_added_later(check):
    def program(compile):
        C = fresh()
        o = C()
        o.scale = 2.0

        def hook(self, name):
            return 9.0 if name == "scale" else object.__getattribute__(self, name)

        return changing(
            compile, lambda x, o: x * o.scale, o, lambda: setattr(C, "__getattribute__", hook)
        )

    check.script(program)


def test_setattr_added_later(check):
    def program(compile):
        C = fresh()
        o = C()

        def store(x, o):
            o.value = x.shape[0]
            return x + 1

        def hook(self, name, value):
            object.__setattr__(self, name, value * 10)

        return changing(compile, store, o, lambda: setattr(C, "__setattr__", hook)), o.value

    check.script(program)


def test_getattr_hook(check):
    class Hooked:
        def __getattr__(self, name):
            if name.startswith("by_"):
                return int(name[3:])
            raise AttributeError(name)

    check(
        lambda x, o: (x * o.by_4, hasattr(o, "other"), getattr(o, "other", None)),
        (X, Hooked()),
        fullgraph=True,
    )


def test_getattr_added_later(check):
    def program(compile):
        C = fresh()
        return changing(
            compile,
            lambda x, o: x * getattr(o, "scale", 1.0),
            C(),
            lambda: setattr(C, "__getattr__", lambda s, n: 6.0),
        )

    check.script(program)


def test_class_of_an_instance_assigned(check):
    def program(compile):
        A = fresh(go=lambda s, x: x + 1)
        B = fresh(go=lambda s, x: x - 1)
        o = A()
        return changing(compile, lambda x, o: o.go(x), o, lambda: setattr(o, "__class__", B))

    check.script(program)


def test_instance_dict_replaced(check):
    def program(compile):
        C = fresh()
        o = C()
        o.scale = 2.0
        return changing(
            compile, lambda x, o: x * o.scale, o, lambda: setattr(o, "__dict__", {"scale": 8.0})
        )

    check.script(program)


def test_base_classes_assigned(check):
    def program(compile):
        class Root:
            pass

        class A(Root):
            def go(self, x):
                return x + 1

        class B(Root):
            def go(self, x):
                return x - 1

        class C(A):
            pass

        def swap():
            C.__bases__ = (B,)

        return changing(compile, lambda x, o: o.go(x), C(), swap)

    check.script(program)


def test_old_value_is_returned_after_the_attribute_changed(check):
    def f(x, o):
        old = o.value
        o.value = x + 1
        return old, o.value

    check(f, (X, Plain(value=X * 3)), fullgraph=True)


def test_attribute_deleted_and_set_again_moves_to_the_end(check):
    def f(x, o):
        del o.a
        o.a = x + 1
        return list(o.__dict__)

    check(f, (X, Plain(a=1, b=2)))


def test_deleted_attribute_raises(check):
    def f(x, o):
        del o.a
        try:
            return o.a
        except AttributeError as error:
            return x + 1, str(error)

    check(f, (X, Plain(a=1)))


def test_deleting_a_missing_attribute_raises(check):
    def f(x, o):
        y = x + 1
        del o.nothing
        return y

    check(f, (X, Plain(a=1)))


def test_slots(check):
    class Slotted:
        __slots__ = ("a", "b")

        def __init__(self, a):
            self.a = a

    def f(x, o):
        o.b = x + o.a
        o.a += 1
        new = Slotted(x)
        return o, new, hasattr(new, "b")

    check(f, (X, Slotted(3)), (X, Slotted(4)), fullgraph=True)


def test_property_with_setter_and_deleter(check):
    class Celsius:
        def __init__(self):
            self._k = 1.0
            self.log = []

        @property
        def k(self):
            self.log.append("get")
            return self._k

        @k.setter
        def k(self, value):
            self.log.append("set")
            self._k = value * 2

        @k.deleter
        def k(self):
            self.log.append("del")
            self._k = 0.0

    def f(x, o):
        y = x * o.k
        o.k = 4.0
        z = y * o.k
        del o.k
        return z

    check(f, (X, Celsius()), fullgraph=True)


def test_property_without_setter_raises(check):
    class Fixed:
        @property
        def value(self):
            return 3

    def f(x, o):
        try:
            o.value = 4
        except AttributeError as error:
            return x * o.value, str(error)

    check(f, (X, Fixed()))


def test_instance_dict_entry_under_a_property_of_the_same_name(check):
    class Cached:
        @property
        def value(self):
            if "value" not in self.__dict__:
                self.__dict__["value"] = 5
            return self.__dict__["value"]

    check(lambda x, o: (x * o.value, o.value), (X, Cached()))


def test_new_object_with_a_dict_entry_under_a_property(check):
    class Cached:
        @property
        def value(self):
            return self.__dict__["value"]

        @value.setter
        def value(self, new):
            self.__dict__["value"] = new
            self.__dict__["count"] = self.__dict__.get("count", 0) + 1

    def f(x):
        o = Cached()
        o.value = x + 1
        o.value = x + 2
        return o

    check(f, (X,))


def test_data_descriptor_of_ones_own(check):
    class Typed:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, instance, owner=None):
            return self if instance is None else getattr(instance, self.name)

        def __set__(self, instance, value):
            instance.__dict__[self.name] = value + 1

    class Holder:
        field = Typed()

        def __init__(self, value):
            self.field = value

    def f(x, o):
        o.field = o.field * 2
        return x * o.field, Holder(x).field

    check(f, (X, Holder(3)), (X, Holder(4)))


def test_non_data_descriptor_gives_way_to_the_instance(check):
    class Lazy:
        def __get__(self, instance, owner=None):
            return 7.0

    class Holder:
        field = Lazy()

    def f(x, o):
        first = o.field
        o.field = 2.0
        return x * first + o.field

    check(f, (X, Holder()))


def test_static_and_class_methods(check):
    class Tools:
        factor = 3

        @staticmethod
        def add(x, y):
            return x + y

        @classmethod
        def scale(cls, x):
            return x * cls.factor

        @classmethod
        def make(cls):
            return cls()

    class Sub(Tools):
        factor = 5

    def f(x, o):
        return o.add(x, 1), o.scale(x), Tools.scale(x), Sub.scale(x), type(o.make())

    check(f, (X, Sub()), fullgraph=True)


def test_super_with_and_without_arguments(check):
    class A:
        def go(self, x):
            return x + 1

        @classmethod
        def name(cls):
            return "A" + cls.__name__

    class B(A):
        def go(self, x):
            return super().go(x) * 2

        @classmethod
        def name(cls):
            return "B" + super().name()

    class C(B):
        def go(self, x):
            return super(B, self).go(x) + super().go(x)

    check(lambda x, o: (o.go(x), o.name()), (X, C()))


def test_cooperative_super_in_a_diamond(check):
    class Root:
        def go(self, x, log):
            log.append("root")
            return x

    class Left(Root):
        def go(self, x, log):
            log.append("left")
            return super().go(x, log) + 1

    class Right(Root):
        def go(self, x, log):
            log.append("right")
            return super().go(x, log) * 2

    class Both(Left, Right):
        pass

    check(lambda x, o, log: o.go(x, log), (X, Both(), []), fullgraph=True)


def test_cached_property_is_computed_once_and_stored(check):
    class Lazy:
        def __init__(self):
            self.count = 0

        @functools.cached_property
        def value(self):
            self.count += 1
            return 3.0

    check(lambda x, o: x * o.value * o.value, (X, Lazy()))


def test_bound_methods_are_equal_but_not_the_same(check):
    def f(x, o):
        return x + 1, o.double is o.double, o.double == o.double, o.double.__self__ is o

    check(f, (X, Plain()))


def test_stored_bound_method(check):
    def f(x, o):
        method = o.double
        o.kept = method
        return method(x)

    check(f, (X, Plain()))


def test_object_attribute_hasattr_then_added(check):
    def program(compile):
        C = fresh()
        o = C()
        return changing(
            compile,
            lambda x, o: x + 1 if hasattr(o, "a") else x - 1,
            o,
            lambda: setattr(o, "a", 1),
            lambda: delattr(o, "a"),
        )

    check.script(program)


def test_vars_and_dunder_dict_see_writes(check):
    def f(x, o):
        o.new = x + 1
        d = vars(o)
        d["other"] = 3
        return sorted(d), o.other

    check(f, (X, Plain(a=1)))


def test_object_and_its_dict_passed_together(check):
    def program(compile):
        o = Plain(a=1)

        @compile
        def f(x, o, d):
            o.a = x + 1
            d["b"] = o.a
            return d["a"], o.b

        return f(X, o, o.__dict__), f(X, o, o.__dict__), o

    check.script(program)


def test_object_and_another_dict_then_its_own(check):
    def program(compile):
        o = Plain(a=1)

        @compile
        def f(x, o, d):
            o.a = x + 1
            return d["a"]

        return f(X, o, {"a": 5}), f(X, o, o.__dict__)

    check.script(program)


def test_attribute_chain_with_a_shared_object(check):
    inner = Plain(value=1)
    outer = Plain(left=inner, right=inner)

    def f(x, o):
        o.left.value = x + 1
        return o.right.value, o.left is o.right

    check(f, (X, outer), (X, Plain(left=Plain(value=1), right=Plain(value=2))), fullgraph=True)


def test_two_objects_then_the_same_object_twice(check):
    def f(x, a, b):
        a.value = x + 1
        b.value = x + 2
        return a.value

    shared = Plain(value=0)
    check(f, (X, Plain(value=1), Plain(value=2)), (X, shared, shared), fullgraph=True)


def test_dir_and_name_of_the_class(check):
    check(
        lambda x, o: (x + 1, type(o).__name__, o.__class__.__qualname__, o.__module__), (X, Plain())
    )


def test_augmented_assignment_evaluates_the_target_once(check):
    def f(x, o, log):
        def get():
            log.append("get")
            return o

        get().value += x
        return o.value

    check(f, (X, Plain(value=X), []), fullgraph=True)


def test_metaclass_attribute_and_property(check):
    class Meta(type):
        kind = "meta"

        @property
        def label(cls):
            return cls.__name__ * 2

    class C(metaclass=Meta):
        pass

    check(lambda x: (x + 1, C.kind, C.label), (X,))


def test_metaclass_getattr(check):
    class Meta(type):
        def __getattr__(cls, name):
            return len(name)

    class C(metaclass=Meta):
        pass

    check(lambda x: x * C.something, (X,))


def test_property_of_the_metaclass_changed(check):
    def program(compile):
        class Meta(type):
            @property
            def k(cls):
                return 2

        class C(metaclass=Meta):
            pass

        f = compile(lambda x: x * C.k)
        a = f(X)
        Meta.k = property(lambda c: 5)
        return a, f(X)

    check.script(program)


def test_getattr_of_the_metaclass_changed(check):
    def program(compile):
        class Meta(type):
            def __getattr__(cls, n):
                return 2

        class C(metaclass=Meta):
            pass

        f = compile(lambda x: x * C.k)
        a = f(X)
        C.k = 7
        b = f(X)
        del C.k
        Meta.__getattr__ = lambda c, n: 9
        return a, b, f(X)

    check.script(program)


def test_names_of_a_class_changed(check):
    def program(compile):
        class C:
            pass

        o = C()
        f = compile(lambda x, o: (x + 1, type(o).__name__, C.__qualname__, C.__doc__))
        a = f(X, o)
        C.__name__ = "D"
        C.__qualname__ = "Q"
        C.__doc__ = "doc"
        return a, f(X, o)

    check.script(program)


def test_slot_set_and_deleted_outside(check):
    class S:
        __slots__ = ("a",)

    def program(compile):
        o = S()
        f = compile(lambda x, o: x + getattr(o, "a", 100))
        r = [f(X, o)]
        o.a = 1
        r.append(f(X, o))
        del o.a
        r.append(f(X, o))
        return r

    check.script(program)


def test_getattribute_that_fails_asks_getattr(check):
    class Both:
        def __getattribute__(self, name):
            if name == "scale":
                raise AttributeError(name)
            return object.__getattribute__(self, name)

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return len(name)

    check(lambda x, o: (x * o.scale, hasattr(o, "other"), getattr(o, "__nope__", 3)), (X, Both()))
