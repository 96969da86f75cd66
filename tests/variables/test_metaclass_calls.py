"""Metaclasses that make instances through ``type.__call__``, and what is found on a metaclass."""

# mypy: ignore-errors

from __future__ import annotations

import torch

X = torch.tensor([1.0, 2.0])


def test_singletons(check):
    class Singleton(type):
        instances = {}

        def __call__(cls, *args, **kwargs):
            if cls not in cls.instances:
                cls.instances[cls] = super().__call__(*args, **kwargs)
            return cls.instances[cls]

    class Config(metaclass=Singleton):
        def __init__(self, scale=2.0):
            self.scale = scale
            self.reads = 0

    def program(compiled):
        Singleton.instances.clear()

        @compiled
        def fn(x):
            config = Config()
            config.reads += 1
            return x * config.scale, Config(5.0) is config, config.reads

        return [fn(X) for _ in range(3)], len(Singleton.instances)

    report = check.script(program, fullgraph=True)
    assert not report.breaks


def test_instances_are_completed(check):
    class Tagged(type):
        kind = "tagged"

        def __call__(cls, *args, tag=None):
            made = type.__call__(cls, *args)
            made.tag = tag
            return made

        def __getattr__(cls, name):
            return name * 2

    class Plain(metaclass=Tagged):
        def __init__(self, value):
            self.value = value

    class New(metaclass=Tagged):
        def __new__(cls, value):
            made = super().__new__(cls)
            made.value = value
            return made

    class Scale(torch.nn.Module, metaclass=Tagged):
        def __init__(self, value):
            super().__init__()
            self.value = value

        def forward(self, x):
            return x * self.value

    def fn(x, n):
        plain, new, scale = Plain(x, tag=n), New(n, tag="new"), Scale(2.0, tag=1)
        try:
            Plain(1, 2)
        except TypeError as error:
            text = str(error)
        found = Plain.kind, Plain.other
        return scale(x) + plain.value, plain.tag, new.value, new.tag, scale.tag, text, found

    check(fn, (X, 1), (X, 2))  # the first torch.compile of a process replaces Module.__init__


def test_attribute_of_a_metaclass_that_changes(check):
    class Meta(type):
        scale = 2.0

    class Thing(metaclass=Meta):
        pass

    def program(compiled):
        Meta.scale = 2.0
        fn = compiled(lambda x: x * Thing.scale)
        out = [fn(X)]
        Meta.scale = 3.0
        out.append(fn(X))
        Thing.scale = 4.0
        out.append(fn(X))
        del Thing.scale
        return out

    check.script(program)
