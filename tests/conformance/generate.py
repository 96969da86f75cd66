"""Holds the generator of random well-formed programs; must not know how they are run or compared.

A program is the text of a module: classes, helpers, globals, a function ``f``, ``arguments(k)`` that
makes the k-th set of arguments and ``change(k)`` that changes the world before call k. Statements
are typed loosely, so that most of them work and some raise.
"""

# mypy: ignore-errors

from __future__ import annotations

import random

PRELUDE = """\
import collections, contextlib, copy, dataclasses, enum, functools, itertools, math, operator, os, time
import torch
import capture


class Mgr:
    def __init__(self, log, swallow=False):
        self.log = log
        self.swallow = swallow

    def __enter__(self):
        self.log.append(-1)
        return self.log

    def __exit__(self, kind, value, tb):
        self.log.append(-2 if kind is None else -3)
        return self.swallow


@contextlib.contextmanager
def managed(log):
    log.append(-4)
    try:
        yield 5
    finally:
        log.append(-5)


def brk(v):
    os.getpid()
    return v


def brk2(v):
    capture.graph_break()
    return v


@capture.disable
def dis(v):
    return v


def ident(v):
    return v


class E1(Exception):
    pass


class E2(E1):
    def __init__(self, a, b=0):
        super().__init__(a, b)
        self.a = a


@dataclasses.dataclass
class DC:
    n: int = 1
    items: list = dataclasses.field(default_factory=list)

    def total(self):
        return self.n + sum(self.items)


class SL:
    __slots__ = ("n", "items")

    def __init__(self, n):
        self.n = n
        self.items = []

    def __repr__(self):
        return f"SL({self.n})"


class Dyn:
    def __init__(self, n):
        self.n = n
        self.items = []

    def __repr__(self):
        return f"Dyn({self.n})"

    def __getattr__(self, name):
        if name.startswith("q"):
            return self.n + len(name)
        raise AttributeError(name)


NT = collections.namedtuple("NT", "n items")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Box:
    def __init__(self, items):
        self.items = items
        self.n = len(items)

    def __repr__(self):
        return f"Box({self.items})"

    def __len__(self):
        return len(self.items)

    def __iter__(self):
        for i in self.items:
            yield i

    def __getitem__(self, k):
        return self.items[k]

    def __setitem__(self, k, v):
        self.items[k] = v
        self.n += 1

    def __contains__(self, k):
        return k in self.items or k == 100

    def __call__(self, k=1):
        self.n += k
        return self.n

    def __enter__(self):
        self.items.append(7)
        return self

    def __exit__(self, *exc):
        self.n = -1
        return exc[0] is KeyError


def cleaned(log):
    try:
        x = yield 1
        log.append(x)
        yield 2
        yield from log
    except E1:
        log.append(-8)
        yield 8
    finally:
        log.append(-9)
    return 4


def deleg(log):
    r = yield from cleaned(log)
    yield r
    return 6


class LD(dict):
    def __missing__(self, key):
        return len(key)

"""

STARTS = ("t", "u", "n", "x", "b", "s", "li", "d", "o", "tu", "si", "lt")
SIGNATURE = {
    "t": "ten", "u": "ten", "n": "int", "x": "float", "b": "bool", "s": "str", "li": "li",
    "d": "d", "o": "obj", "tu": "tu", "si": "si", "lt": "lt",
}  # fmt: skip
GLOBALS = {"GN": "int", "GF": "float", "GL": "li", "GD": "d", "GT": "ten", "GO": "obj", "GS": "str"}


class Scope:
    """The names a function sees, and what it may do."""

    def __init__(self, names, parent=None, generator=False, args=()):
        self.names = dict(names)
        self.parent = parent
        self.generator = generator
        self.loops = 0
        self.finals = 0
        self.outer = {}
        self.assigned = set(args)
        self.declared = set()


class Generator:
    """Writes one program."""

    def __init__(self, seed, size=1.0):
        self.r = random.Random(seed)
        self.size = size
        self.lines = []
        self.depth = 0
        self.count = 0
        self.functions = []  # (name, generator?)
        self.classes = []
        self.budget = 0
        self.breaks = self.r.choice((0.0, 0.05, 0.15, 0.3))
        self.odd = self.r.choice((0.0, 0.01, 0.04))
        self.tensors = self.r.random() < 0.75
        self.scope = Scope({})

    # --- text -------------------------------------------------------------------------------------

    def put(self, text):
        """Write a line."""
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem="v"):
        """A new name."""
        self.count += 1
        return f"{stem}{self.count}"

    def pick(self, *choices):
        """One of them; a callable is called."""
        found = self.r.choice(choices)
        return found() if callable(found) else found

    def names(self, kind):
        """The names of a kind in sight."""
        return [n for n, k in self.scope.names.items() if k == kind]

    def name(self, kind):
        """A name of this kind, or None."""
        found = self.names(kind)
        if found and self.r.random() < 0.85:
            return self.r.choice(found)
        wanted = [n for n, k in GLOBALS.items() if k == kind]
        if wanted and self.r.random() < 0.5:
            return self.r.choice(wanted)
        return self.r.choice(found) if found else None

    # --- expressions ------------------------------------------------------------------------------

    def e(self, kind, depth=2):
        """An expression of a kind."""
        self.no_walrus = getattr(self, "no_walrus", 0)
        wanted = kind
        if self.r.random() < self.odd:
            kind = self.r.choice(["int", "str", "li", "d", "tu", "none", "float", "obj"])
        text = getattr(self, f"e_{kind}")(depth)
        if text.isdigit() and kind != wanted:
            text = f"({text})"
        if self.r.random() < self.breaks * 0.35:
            return f"{self.pick('brk', 'brk2', 'dis', 'brk')}({text})"
        return text

    def leaf(self, kind, *literals):
        """A name or a literal."""
        found = self.name(kind)
        if found is not None and self.r.random() < 0.75:
            return found
        return self.pick(*literals)

    def e_none(self, depth):
        return "None"

    def e_int(self, depth):
        e, r = self.e, self.r
        if depth <= 0:
            return self.leaf("int", "0", "1", "2", "3", "-1", "7")
        d = depth - 1
        obj = self.name("obj") or "GO"
        fn = self.name("fn")
        calls = [f for f in self.functions if not f[1]]
        choices = [
            lambda: self.e_int(0),
            lambda: self.e_int(0),
            lambda: f"({e('int', d)} {self.pick('+', '-', '|', '&', '^')} {e('int', d)})",
            lambda: f"({e('int', d)} * {e('int', d)} % 101)",
            lambda: (
                f"({e('int', d)} {self.pick('//', '%')} {self.pick('2', '3', '-4', e('int', 0))})"
            ),
            lambda: (
                f"len({e(self.pick('li', 'd', 's_', 'tu', 'si', 'lt') if False else r.choice(['li', 'd', 'str', 'tu', 'si', 'lt']), d)})"
            ),
            lambda: f"int({e(r.choice(['float', 'bool']), d)})",
            lambda: f"({e('int', d)} if {e('bool', d)} else {e('int', d)})",
            lambda: f"({e('bool', d)} and {e('int', d)})",
            lambda: f"({e('int', d)} or {e('int', d)})",
            lambda: f"{self.leaf('li', '[1, 2, 3]')}[{self.pick('0', '-1', '1', e('int', 0))}]",
            lambda: f"sum({e('li', d)})",
            lambda: f"{self.pick('min', 'max')}({e('int', d)}, {e('int', d)})",
            lambda: f"max({e('li', d)}, default={e('int', 0)})",
            lambda: f"{self.leaf('d', 'GD')}.get({e('str', 0)}, {e('int', 0)})",
            lambda: f"{self.leaf('d', 'GD')}[{self.pick(repr('a'), repr('b'), e('str', 0))}]",
            lambda: f"{e('tu', d)}[{self.pick('0', '1', '-1')}]",
            lambda: f"{obj}.{self.pick('n', 'n', 'p', 'qq', 'm(2)', 'm(' + e('int', 0) + ')')}",
            lambda: f"getattr({obj}, {self.pick(repr('n'), repr('zz'))}, {e('int', 0)})",
            lambda: f"abs({e('int', d)})",
            lambda: f"divmod({e('int', d)}, 3)[{self.pick('0', '1')}]",
            lambda: f"next(iter({e('li', d)}), {e('int', 0)})",
            lambda: f"functools.reduce(lambda a, c: a * 2 + c, {e('li', d)}, 0)",
            lambda: (
                f"{self.leaf('li', '[4]')}.{self.pick('pop()', 'count(1)', 'index(1)', 'pop(0)')}"
            ),
            lambda: (
                f"{self.leaf('d', 'GD')}.{self.pick('pop', 'setdefault')}({e('str', 0)}, {e('int', 0)})"
            ),
            lambda: f"operator.{self.pick('add', 'sub', 'xor')}({e('int', d)}, {e('int', d)})",
            lambda: f"(lambda a, c={e('int', 0)}: a - c)({e('int', d)})",
            lambda: f"sum(a * 2 for a in {e('li', 0)} if a != {e('int', 0)})",
            lambda: (
                f"len(list(itertools.{self.pick('accumulate(' + e('li', 0) + ')', 'chain(' + e('li', 0) + ', ' + e('li', 0) + ')', 'islice(' + e('li', 0) + ', 2)')}))"
            ),
            lambda: f"{e('str', d)}.{self.pick('count', 'find')}('a')",
        ]
        box = self.name("box")
        if box is not None:
            choices += [
                lambda: f"{box}({e('int', 0)})",
                lambda: f"{box}[{self.pick('0', '-1', e('int', 0))}]",
                lambda: f"sum({box})",
                lambda: f"len({box})",
                lambda: f"max({box}.items, default={box}.n)",
            ]
        nested = self.name("ll")
        if nested is not None:
            choices += [
                lambda: f"{nested}[{self.pick('0', '-1')}][{self.pick('0', '-1')}]",
                lambda: f"sum(len(a) for a in {nested})",
            ]
        choices += [
            lambda: f"vars({obj}).get('n', {e('int', 0)})",
            lambda: f"NT({e('int', d)}, {e('li', 0)}).n",
            lambda: f"collections.Counter({e('li', d)})[{e('int', 0)}]",
            lambda: f"Color({self.pick('1', '2', '3')}).value",
            lambda: f"collections.deque({e('li', d)}, maxlen=2).count(1)",
            lambda: f"{self.klass()}.shared",
            lambda: f"type({obj}).__mro__.__len__()",
            lambda: f"next(({'a'} for a in {e('li', 0)} if a > {e('int', 0)}), {e('int', 0)})",
        ]
        if fn is not None:
            choices += [lambda: f"{fn}({e('int', d)})"] * 3
        if calls:
            choices += [lambda: self.call(self.r.choice(calls)[0], d)] * 2
        if self.tensors:
            choices += [
                lambda: (
                    f"{self.e_ten(0)}.{self.pick('dim()', 'numel()', 'shape[-1]', 'size(0)', 'ndim', 'shape.numel()')}"
                ),
                lambda: f"len({self.e_ten(0)}.shape)",
            ]
            if r.random() < self.breaks:
                choices += [lambda: f"int({self.e_ten(d)}.sum().item())"] * 2
        if self.walrus_ok():
            choices.append(lambda: self.walrus(d))
        return r.choice(choices)()

    def walrus_ok(self):
        return getattr(self, "no_walrus", 0) == 0

    def walrus(self, d):
        inner = self.e("int", d)
        name = self.fresh("w")
        self.scope.names[name] = "int"
        return f"({name} := {inner})"

    def call(self, name, d):
        form = self.r.randrange(6)
        a, b = self.e("int", d), self.e("int", 0)
        if form == 0:
            return f"{name}({a}, {b})"
        if form == 1:
            return f"{name}({a}, k={b})"
        if form == 2:
            return f"{name}({a}, {b}, {self.e('int', 0)})"
        if form == 3:
            return f"{name}(*[{a}, {b}], **{{'k': {self.e('int', 0)}}})"
        if form == 4:
            return f"{name}({a}, z={b})"
        return f"{name}({a})"

    def e_float(self, depth):
        e = self.e
        if depth <= 0:
            return self.leaf("float", "0.5", "2.0", "-1.25", "0.0")
        d = depth - 1
        choices = [
            lambda: self.e_float(0),
            lambda: self.e_float(0),
            lambda: f"({e('float', d)} {self.pick('+', '-', '*')} {e('float', d)})",
            lambda: f"({e('float', d)} / {self.pick('2', '4.0', e('int', 0))})",
            lambda: f"float({e('int', d)})",
            lambda: f"math.{self.pick('floor', 'sin', 'sqrt', 'exp')}({e('float', 0)})",
            lambda: f"round({e('float', d)}, 2)",
            lambda: f"({e('float', d)} {self.pick('+', '*')} {e('int', d)})",
            lambda: f"max({e('float', d)}, {e('float', d)})",
            lambda: f"({e('float', d)} if {e('bool', d)} else {e('float', d)})",
        ]
        if self.tensors and self.r.random() < self.breaks:
            choices += [lambda: f"{self.e_ten(d)}.sum().item()"] * 3
        return self.r.choice(choices)()

    def e_bool(self, depth):
        e, r = self.e, self.r
        if depth <= 0:
            return self.leaf("bool", "True", "False")
        d = depth - 1
        kinds = ["int", "float", "str", "li", "tu"]
        comparison = ("<", "<=", ">", ">=", "==", "!=")
        choices = [
            lambda: self.e_bool(0),
            lambda: f"({e('int', d)} {self.pick(*comparison)} {e('int', d)})",
            lambda: f"({e('float', d)} {self.pick(*comparison)} {e('float', d)})",
            lambda: (lambda k: f"({e(k, d)} {self.pick(*comparison)} {e(k, d)})")(r.choice(kinds)),
            lambda: (
                f"({e('int', d)} {self.pick('<', '<=')} {e('int', d)} {self.pick('<', '!=')} {e('int', d)})"
            ),
            lambda: f"(not {e(r.choice(['bool', 'int', 'li', 'd', 'str']), d)})",
            lambda: f"({e('bool', d)} {self.pick('and', 'or')} {e('bool', d)})",
            lambda: (
                f"({e('int', d)} {self.pick('in', 'not in')} {e(r.choice(['li', 'si', 'tu']), d)})"
            ),
            lambda: f"({e('str', d)} in {e(r.choice(['d', 'str']), d)})",
            lambda: (
                f"isinstance({e(r.choice(['int', 'bool', 'obj', 'li', 'float']), d)}, {self.pick('int', 'bool', '(list, float)', 'str', self.klass())})"
            ),
            lambda: f"({e('obj', 0)} is {e('obj', 0)})",
            lambda: f"({e('li', 0)} is {e('li', 0)})",
            lambda: f"({e('obj', 0)} {self.pick('==', '<', '!=')} {e('obj', 0)})",
            lambda: f"any(a > {e('int', 0)} for a in {e('li', 0)})",
            lambda: f"all([a < {e('int', 0)} for a in {e('li', 0)}])",
            lambda: (
                f"hasattr({e('obj', 0)}, {self.pick(repr('n'), repr('p'), repr('zz'), repr('qa'))})"
            ),
            lambda: f"bool({e(r.choice(['int', 'li', 'd', 'str', 'si', 'obj', 'float']), d)})",
            lambda: f"({e('si', d)} {self.pick('<=', '==', '>')} {e('si', d)})",
            lambda: f"({e('d', d)} == {e('d', d)})",
            lambda: f"{e('str', d)}.startswith('a')",
            lambda: (
                f"(type({e(r.choice(['int', 'bool', 'obj', 'float']), d)}) is {self.pick('int', 'bool', self.klass())})"
            ),
        ]
        if self.tensors:
            choices += [
                lambda: (
                    f"({self.e_ten(0)}.{self.pick('dtype == torch.float32', 'requires_grad', 'is_contiguous()', 'dim() > 1')})"
                ),
                lambda: f"({self.e_ten(0)} is {self.e_ten(0)})",
            ]
            if r.random() < self.breaks:
                choices += [
                    lambda: f"bool(({self.e_ten(d)}.sum() {self.pick('>', '<')} {e('int', 0)}))",
                    lambda: f"({self.e_ten(d)}.sum() > 0)",
                ]
        return r.choice(choices)()

    def e_str(self, depth):
        e, r = self.e, self.r
        if depth <= 0:
            return self.leaf("str", "'a'", "'b'", "'c'", "'xyz'", "''")
        d = depth - 1
        spec = self.pick("", ":>4", "!r", ":<3", "!s:>5")
        choices = [
            lambda: self.e_str(0),
            lambda: self.e_str(0),
            lambda: f"({e('str', d)} + {e('str', d)})[:8]",
            lambda: (
                f"{e('str', d)}.{self.pick('upper()', 'strip()', 'replace(' + repr('a') + ', ' + repr('b') + ')', 'title()', 'lower()')}"
            ),
            lambda: f"str({e(r.choice(['int', 'bool', 'float', 'li', 'tu']), d)})",
            lambda: f"repr({e(r.choice(['int', 'str', 'd', 'li', 'obj', 'float']), d)})",
            lambda: (
                f'f"{{{e("int", 0).replace(chr(34), chr(39))}{spec}}}-{{{self.e_float(0)}:.2f}}"'
            ),
            lambda: f"'-'.join([str(a) for a in {e('li', 0)}])[:8]",
            lambda: f"({e('str', d)} * {self.pick('2', '0', '1')})[:8]",
            lambda: f"('%d/%s' % ({e('int', d)}, {e('str', d)}))",
            lambda: f"'{{}}:{{a}}'.format({e('int', d)}, a={e('str', 0)})",
            lambda: f"type({e(r.choice(['int', 'obj', 'li', 'bool', 'float']), d)}).__name__",
            lambda: f"{e('str', d)}[{self.pick('1:', '::-1', ':2', '-1:')}]",
            lambda: f"{e('str', d)}[{self.pick('0', '-1')}]",
            lambda: f"({e('str', d)} if {e('bool', d)} else {e('str', d)})",
            lambda: f"next(iter({e('d', d)}), 'a')",
        ]
        return r.choice(choices)()

    def e_li(self, depth):
        e, r = self.e, self.r
        if depth <= 0:
            return self.leaf("li", "[1, 2]", "[]", "[3, 1, 2]", "[0]")
        d = depth - 1
        v = self.fresh("c")

        def comprehension(pattern):
            self.no_walrus = getattr(self, "no_walrus", 0) + 1
            source = e("li", d)
            self.scope.names[v] = "int"
            text = pattern.format(v=v, source=source, body=e("int", d), cond=e("bool", d))
            self.no_walrus -= 1
            self.scope.names.pop(v, None)
            return text

        gens = [f for f in self.functions if f[1]]
        choices = [
            lambda: f"{self.leaf('ll', '[[1]]')}[{self.pick('0', '-1')}]",
            lambda: f"{self.leaf('box', 'Box([3])')}.items",
            lambda: f"[*{self.leaf('box', 'Box([3])')}]",
            lambda: f"{self.leaf('dl', str({'a': [1]}))}[{self.pick(repr('a'), repr('q'))}]",
            lambda: f"[a for b_ in {self.leaf('ll', '[[1]]')} for a in b_]",
            lambda: f"list(collections.deque({e('li', d)}, maxlen=2))",
            lambda: f"list(collections.OrderedDict.fromkeys({e('li', d)}))",
            lambda: f"list(itertools.zip_longest({e('li', 0)}, {e('li', 0)}, fillvalue=1))[0:0]",
            lambda: f"[len(list(g_)) for _, g_ in itertools.groupby({e('li', d)})]",
            lambda: f"copy.copy({e('li', d)})",
            lambda: f"list({self.pick('cleaned', 'deleg')}({e('li', 0)}))[:6]",
            lambda: self.e_li(0),
            lambda: self.e_li(0),
            lambda: f"[{e('int', d)}, {e('int', d)}]",
            lambda: comprehension("[{body} for {v} in {source}]"),
            lambda: comprehension("[{body} for {v} in {source} if {cond}]"),
            lambda: comprehension("list({body} for {v} in {source})"),
            lambda: comprehension("[{v} + c_ for c_ in {source} for {v} in range(2)]"),
            lambda: f"sorted({e(r.choice(['li', 'si']), d)}, reverse={e('bool', 0)})",
            lambda: f"sorted({e('li', d)}, key=lambda a: -a)",
            lambda: f"({e('li', d)} + {e('li', d)})[:6]",
            lambda: f"{e('li', d)}[{self.pick('1:', ':2', '::-1', '::2', ':')}]",
            lambda: f"list(range({self.pick('3', '2', '0', '(' + e('int', 0) + ') % 4')}))",
            lambda: f"[*{e('li', d)}, {e('int', d)}][:6]",
            lambda: f"list(map(lambda a: a + {e('int', 0)}, {e('li', d)}))",
            lambda: f"list({e(r.choice(['si', 'tu', 'li']), d)})",
            lambda: f"list({e('d', d)}.values())",
            lambda: f"[a + c for a, c in zip({e('li', 0)}, {e('li', 0)})]",
            lambda: f"[a * c for a, c in enumerate({e('li', 0)})]",
            lambda: f"list(filter(None, {e('li', d)}))",
            lambda: f"{e('obj', 0)}.items",
            lambda: f"list(reversed({e('li', d)}))",
            lambda: f"({e('li', d)} * {self.pick('2', '0')})[:6]",
            lambda: f"{e('li', d)}.copy()",
            lambda: f"({e('li', d)} if {e('bool', d)} else {e('li', d)})",
            lambda: f"ident({e('li', d)})",
        ]
        if gens:
            choices += [
                lambda: f"list({r.choice(gens)[0]}({e('int', 0)}))",
                lambda: f"[*{r.choice(gens)[0]}({e('int', 0)})][:6]",
            ] * 2
        return r.choice(choices)()

    def e_tu(self, depth):
        e = self.e
        if depth <= 0:
            return self.leaf("tu", "(1, 2)", "(0, 3)")
        d = depth - 1
        return self.r.choice(
            [
                lambda: self.e_tu(0),
                lambda: f"({e('int', d)}, {e('int', d)})",
                lambda: f"tuple({e('li', d)})",
                lambda: f"(*{e('tu', d)}, {e('int', d)})[-2:]",
                lambda: f"divmod({e('int', d)}, 3)",
                lambda: f"next(zip({e('li', d)}, {e('li', d)}), (1, 1))",
                lambda: f"({e('tu', d)} + {e('tu', d)})[:2]",
            ]
        )()

    def e_d(self, depth):
        e = self.e
        if depth <= 0:
            return self.leaf("d", "{'a': 1}", "{}", "{'b': 2, 'a': 0}")
        d = depth - 1
        return self.r.choice(
            [
                lambda: self.e_d(0),
                lambda: self.e_d(0),
                lambda: f"{{{e('str', 0)}: {e('int', d)}, {e('str', 0)}: {e('int', d)}}}",
                lambda: f"{{str(a): a for a in {e('li', 0)}}}",
                lambda: f"dict(a={e('int', d)}, z={e('int', 0)})",
                lambda: f"{{**{e('d', d)}, 'k': {e('int', d)}}}",
                lambda: f"dict(zip(['a', 'b'], {e('li', d)}))",
                lambda: f"({e('d', d)} | {e('d', d)})",
                lambda: f"{e('d', d)}.copy()",
                lambda: f"{{k: w + 1 for k, w in {e('d', 0)}.items()}}",
                lambda: f"LD({e('d', d)})",
                lambda: f"{e('d', 0)}",
            ]
        )()

    def e_si(self, depth):
        e = self.e
        if depth <= 0:
            return self.leaf("si", "{1, 2}", "set()", "{3}")
        d = depth - 1
        return self.r.choice(
            [
                lambda: self.e_si(0),
                lambda: f"{{{e('int', d)}, {e('int', d)}}}",
                lambda: f"set({e('li', d)})",
                lambda: f"({e('si', d)} {self.pick('|', '&', '-', '^')} {e('si', d)})",
                lambda: f"{{a % 3 for a in {e('li', 0)}}}",
                lambda: (
                    f"{e('si', d)}.{self.pick('union', 'intersection', 'difference')}({e('li', d)})"
                ),
            ]
        )()

    def klass(self):
        return self.r.choice([c[0] for c in self.classes] + ["DC", "SL", "Dyn"])

    def e_obj(self, depth):
        e = self.e
        if depth <= 0:
            return self.leaf("obj", "GO")
        d = depth - 1
        k = self.klass()
        return self.r.choice(
            [
                lambda: self.e_obj(0),
                lambda: self.e_obj(0),
                lambda: f"{k}({e('int', d)})",
                lambda: f"({e('obj', 0)} + {e('int', d)})",
                lambda: f"ident({e('obj', 0)})",
                lambda: f"({e('obj', 0)} if {e('bool', d)} else {e('obj', 0)})",
            ]
        )()

    def e_ll(self, depth):
        e = self.e
        li = self.leaf("li", "[1]")
        return self.pick(
            self.leaf("ll", "[[1], [2]]"),
            f"[{li}, {li}]",
            lambda: f"[{e('li', 1)}, {e('li', 1)}]",
            lambda: f"[[a] * 2 for a in {e('li', 0)}] or [[1]]",
            lambda: f"copy.copy({self.leaf('ll', '[[3]]')})",
            lambda: f"[list(a) for a in zip({e('li', 0)}, {e('li', 0)})] or [[1]]",
        )

    def e_box(self, depth):
        return self.pick(self.leaf("box", "Box([1, 2])"), lambda: f"Box({self.e('li', 1)})")

    def e_dl(self, depth):
        e = self.e
        return self.pick(
            self.leaf("dl", "{'a': [1]}"),
            lambda: f"{{'a': {e('li', 1)}, 'b': {e('li', 0)}}}",
            lambda: f"collections.defaultdict(list, a={e('li', 0)})",
            lambda: f"dict.fromkeys(['a', 'b'], {e('li', 0)})",
        )

    def e_lt(self, depth):
        e = self.e
        if depth <= 0:
            return self.leaf("lt", "[]", "[GT]")
        d = depth - 1
        return self.r.choice(
            [
                lambda: self.e_lt(0),
                lambda: f"[{e('ten', d)}, {e('ten', d)}]",
                lambda: f"[{e('ten', 0)} * a for a in {e('li', 0)}][:4]",
                lambda: f"list({e('lt', d)})",
                lambda: f"[a + 1 for a in {e('lt', 0)}]",
                lambda: f"list({e('ten', 0)}.unbind())",
                lambda: f"[{e('ten', 0)}, {e('ten', 0)}]",
            ]
        )()

    def e_ten(self, depth):
        e, r = self.e, self.r
        if depth <= 0:
            return self.leaf("ten", "GT", "torch.ones(3)")
        d = depth - 1
        return r.choice(
            [
                lambda: self.e_ten(0),
                lambda: self.e_ten(0),
                lambda: f"({e('ten', d)} {self.pick('+', '-', '*')} {e('ten', d)})",
                lambda: (
                    f"({e('ten', d)} {self.pick('+', '-', '*')} {e(r.choice(['int', 'float', 'bool']), d)})"
                ),
                lambda: (
                    f"({e(r.choice(['int', 'float']), 0)} {self.pick('+', '-', '*')} {e('ten', d)})"
                ),
                lambda: (
                    f"{e('ten', d)}.{self.pick('sin()', 'relu()', 'abs()', 'neg()', 'clone()', 'detach()', 'float()', 'contiguous()')}"
                ),
                lambda: f"torch.{self.pick('sin', 'relu', 'abs', 'cos')}({e('ten', d)})",
                lambda: (
                    f"{e('ten', d)}.{self.pick('sum()', 'mean()', 'sum(-1)', 'max()', 'amax(0)')}"
                ),
                lambda: f"{e('ten', d)}[{self.pick('0', '-1', '...', '..., 0', '1:', 'None')}]",
                lambda: (
                    f"{e('ten', d)}.{self.pick('view(-1)', 'reshape(-1)[:3]', 'unsqueeze(0)', 'flatten()', 't()', 'expand(2, 3)')}"
                ),
                lambda: f"torch.where({e('ten', 0)} > {e('int', 0)}, {e('ten', d)}, {e('ten', 0)})",
                lambda: (
                    f"torch.{self.pick('ones', 'zeros', 'full')}(3)"
                    if False
                    else f"torch.ones({self.pick('3', '2, 3', '1')})"
                ),
                lambda: f"torch.stack([{e('ten', 0)}, {e('ten', 0)}])",
                lambda: f"torch.cat([{e('ten', 0)}.flatten(), {e('ten', d)}.flatten()])[:3]",
                lambda: f"({e('ten', d)} if {e('bool', d)} else {e('ten', d)})",
                lambda: f"sum({e('lt', 0)}, {e('ten', 0)})",
                lambda: (
                    f"({e('ten', d)} {self.pick('>', '==')} {e('ten', 0)})"
                    if r.random() < 0.3
                    else self.e_ten(0)
                ),
                lambda: f"torch.tensor({e(r.choice(['float', 'li']), 0)})",
                lambda: f"torch.full((3,), {e('float', 0)})",
                lambda: f"{self.e_obj(0)}.scale({e('ten', d)})",
                lambda: "torch.rand(3)",
            ]
        )()

    KINDS = (
        "ll",
        "box",
        "dl",
        "int",
        "int",
        "float",
        "bool",
        "str",
        "li",
        "tu",
        "d",
        "si",
        "obj",
        "ten",
        "ten",
        "lt",
    )

    def kind(self):
        found = self.r.choice(self.KINDS)
        return "int" if found in ("ten", "lt") and not self.tensors else found

    # --- statements -------------------------------------------------------------------------------

    def block(self, size):
        """An indented block."""
        self.depth += 1
        before = dict(self.scope.names)
        start = len(self.lines)
        for _ in range(self.r.randint(1, max(1, size))):
            if self.budget <= 0:
                break
            self.statement()
        if len(self.lines) == start:
            self.put("pass")
        self.depth -= 1
        # names of inner blocks may be unbound afterwards: mostly forget them
        if self.r.random() > 0.1:
            self.scope.names = {n: k for n, k in self.scope.names.items() if n in before}

    def target(self, kind):
        """A name to assign to."""
        own = [
            n for n in self.names(kind)
            if (n in self.scope.assigned or n in self.scope.declared)
        ]  # fmt: skip
        if own and self.r.random() < 0.5:
            return self.r.choice(own)
        name = self.fresh()
        self.scope.assigned.add(name)
        return name

    def statement(self):
        self.budget -= 1
        r = self.r
        deep = self.depth > 4
        table = [
            (14, self.s_assign), (5, self.s_augment), (4, self.s_unpack), (9, self.s_mutate),
            (3, self.s_print), (2, self.s_expr), (2, self.s_attr), (1, self.s_del),
            (1, self.s_global), (1, self.s_assert), (5, self.s_nested), (1, self.s_raw_generator),
        ]  # fmt: skip
        if self.tensors:
            table += [(4, self.s_inplace)]
        if not deep:
            table += [
                (6, self.s_if), (4, self.s_for), (2, self.s_while), (4, self.s_try),
                (3, self.s_with), (2, self.s_match), (3, self.s_closure), (2, self.s_generator),
                (1, self.s_partial),
            ]  # fmt: skip
        if self.scope.loops:
            table += [(2, self.s_jump)]
        if self.depth > 1:
            table += [(1, self.s_return), (1, self.s_raise)]
        if self.scope.generator:
            table += [(5, self.s_yield)]
        if self.breaks:
            table += [(int(20 * self.breaks), self.s_break_here)]
        r.choices([s for _, s in table], [w for w, _ in table])[0]()

    def s_assign(self):
        kind = self.kind()
        text = self.e(kind, self.r.choice((1, 2, 2, 3)))
        name = self.target(kind)
        if self.r.random() < 0.05:
            other = self.fresh()
            self.scope.assigned.add(other)
            self.scope.names[other] = kind
            self.put(f"{name} = {other} = {text}")
        else:
            self.put(f"{name} = {text}")
        self.scope.names[name] = kind

    def own(self, kind):
        found = [
            n for n in self.names(kind) if n in self.scope.assigned or n in self.scope.declared
        ]
        return self.r.choice(found) if found else None

    def s_augment(self):
        kind = self.r.choice(["int", "float", "str", "li", "ten", "tu", "si", "d"])
        name = self.own(kind)
        if name is None:
            return self.s_assign()
        if kind == "int":
            self.put(f"{name} {self.pick('+=', '-=', '^=')} {self.e('int')}")
        elif kind == "str":
            self.put(f"{name} += {self.e('str')}[:2]")
        elif kind == "li":
            self.put(f"{name} += {self.e('li')}[:3]")
        elif kind == "si":
            self.put(f"{name} {self.pick('|=', '&=', '-=')} {self.e('si')}")
        elif kind == "d":
            self.put(f"{name} |= {self.e('d')}")
        elif kind == "tu":
            self.put(f"{name} += ({self.e('int')},)")
        else:
            self.put(f"{name} {self.pick('+=', '-=', '*=')} {self.e(kind)}")

    def s_unpack(self):
        form = self.r.randrange(5)
        a, b = self.target("int"), self.target("int")
        if form == 0:
            self.put(f"{a}, {b} = {self.e('tu')}")
        elif form == 1:
            c = self.fresh()
            self.scope.assigned.add(c)
            self.put(f"{a}, *{c} = {self.e('li')}")
            self.scope.names[c] = "li"
            self.scope.names[a] = "int"
            return
        elif form == 2 and self.own("int"):
            a = b = self.own("int")
            b = self.own("int")
            self.put(f"{a}, {b} = {b}, {a}")
        elif form == 3:
            self.put(f"({a}, {b}), _ = {self.e('tu')}, {self.e('li')}")
        else:
            self.put(f"{a}, {b} = {self.e('int')}, {self.e('int')}")
        self.scope.names[a] = self.scope.names[b] = "int"

    def s_mutate(self):
        e = self.e
        kind = self.r.choice(["li", "li", "d", "si", "lt", "d"])
        if kind == "lt" and not self.tensors:
            kind = "li"
        name = self.name(kind) or (self.e_obj(0) + ".items" if kind == "li" else None)
        if name is None:
            return self.s_assign()
        if kind == "li":
            self.put(self.pick(
                lambda: f"{name}.append({e('int')})",
                lambda: f"{name}.append({e('int')})",
                lambda: f"{name}.insert({self.pick('0', '1', '-1')}, {e('int')})",
                lambda: f"{name}.extend({e('li')}[:3])",
                lambda: f"{name}.sort(reverse={e('bool', 0)})",
                lambda: f"{name}.reverse()",
                lambda: f"{name}.clear()" ,
                lambda: f"{name}.remove({e('int', 0)})",
                lambda: f"{name}[{self.pick('0', '-1', '1')}] = {e('int')}",
                lambda: f"{name}[{self.pick('0', '-1')}] += {e('int')}",
                lambda: f"{name}[{self.pick('1:', ':1', ':0')}] = {e('li')}[:3]",
                lambda: f"del {name}[{self.pick('0', '-1', '1:', ':1')}]",
                lambda: f"{name}.sort(key=lambda a: (a % 3, a))",
                lambda: f"{name}[:] = [a + 1 for a in {name}]",
            ))  # fmt: skip
        elif kind == "lt":
            self.put(self.pick(
                lambda: f"{name}.append({e('ten')})",
                lambda: f"{name}[0] = {e('ten')}",
                lambda: f"{name}.pop()",
                lambda: f"{name}[-1].add_({e('int', 0)})",
                lambda: f"{name}.reverse()",
            ))  # fmt: skip
        elif kind == "d":
            self.put(self.pick(
                lambda: f"{name}[{e('str')}] = {e('int')}",
                lambda: f"{name}[{e('str', 0)}] = {e('int')}",
                lambda: f"{name}[{self.pick(repr('a'), repr('b'))}] += {e('int')}",
                lambda: f"{name}.update({e('d')})",
                lambda: f"{name}.update(a={e('int')})",
                lambda: f"{name}.pop({e('str', 0)}, None)",
                lambda: f"del {name}[{self.pick(repr('a'), e('str', 0))}]",
                lambda: f"{name}.clear()",
                lambda: f"{name}.popitem()",
                lambda: f"{name}.setdefault({e('str', 0)}, {e('int')})",
            ))  # fmt: skip
        else:
            self.put(self.pick(
                lambda: f"{name}.add({e('int')})",
                lambda: f"{name}.discard({e('int')})",
                lambda: f"{name}.update({e('li')})",
                lambda: f"{name}.remove({e('int', 0)})",
                lambda: f"{name}.clear()",
            ))  # fmt: skip

    def s_nested(self):
        e = self.e
        ll, box, dl = self.name("ll"), self.name("box"), self.name("dl")
        options = [
            lambda: f"{self.target_now('box')} = Box({e('li', 1)})",
            lambda: f"{self.target_now('ll')} = {e('ll')}",
        ]
        if ll:
            options += [
                lambda: f"{ll}[0].append({e('int')})",
                lambda: f"{ll}[-1] = {ll}[0]",
                lambda: f"{ll}[0], {ll}[-1] = {ll}[-1], {ll}[0]",
                lambda: f"{ll}.append({e('li')})",
                lambda: f"{ll}[0][0] += {e('int')}",
                lambda: f"{ll}.sort(key=len)",
                lambda: f"{ll}[0] += [{e('int')}]",
            ]
        if box:
            options += [
                lambda: f"{box}[{self.pick('0', '-1')}] = {e('int')}",
                lambda: f"{box}[{self.pick('0', '-1')}] += {e('int')}",
                lambda: f"{box}.items = {e('li')}",
                lambda: f"{self.target_now('bool')} = {e('int')} in {box}",
                lambda: f"{self.target_now('int')}, *{self.target_now('li')} = {box}",
                lambda: f"vars({box})['n'] = {e('int')}",
                lambda: f"{box}.__dict__.update(n={e('int')})",
            ]
        if dl:
            options += [
                lambda: f"{dl}['a'].append({e('int')})",
                lambda: f"{dl}.setdefault('c', []).append({e('int')})",
                lambda: f"{dl}['q'].append({e('int')})",
                lambda: f"for a_ in {dl}.values(): a_.append({e('int')})",
                lambda: f"{dl}['b'] = {dl}['a']",
            ]
        self.put(self.pick(*options))

    def s_raw_generator(self):
        g = self.fresh("g")
        self.scope.assigned.add(g)
        self.put(f"{g} = {self.pick('cleaned', 'deleg')}({self.name('li') or 'GL'})")
        for _ in range(self.r.choice((1, 2, 3))):
            self.put(self.pick(
                lambda: f"{self.target_now('int')} = next({g})",
                lambda: f"{self.target_now('int')} = {g}.send({self.e('int', 0)})",
                lambda: f"{g}.close()",
                lambda: f"{self.target_now('int')} = {g}.throw(E1(2))",
                lambda: f"{g}.throw(ValueError(2))",
                lambda: f"for i_ in {g}: {self.pick('break', 'print(i_)', 'pass', 'GL.append(i_)')}",
                lambda: f"del {g}",
                lambda: f"{self.target_now('li')} = [*{g}]",
            ))  # fmt: skip
            if self.r.random() < 0.3 and self.breaks:
                self.s_break_here()

    def s_print(self):
        self.put(self.pick(
            lambda: f"print({self.e('str')}, {self.e('int')})",
            lambda: f"print({self.e(self.r.choice(['li', 'd', 'obj', 'tu', 'int']))}, end=';')",
            lambda: f"print(f'{{{self.e_int(0)}}}')",
        ) if self.breaks else f"{self.e('obj', 0)}.items.append({self.e('int')})")  # fmt: skip

    def s_expr(self):
        self.put(self.e(self.kind()))

    def s_attr(self):
        obj = self.name("obj") or "GO"
        e = self.e
        self.put(self.pick(
            lambda: f"{obj}.n = {e('int')}",
            lambda: f"{obj}.n += {e('int')}",
            lambda: f"{obj}.items = {e('li')}",
            lambda: f"{obj}.extra = {e(self.kind())}",
            lambda: f"setattr({obj}, {self.pick(repr('n'), repr('zz'))}, {e('int')})",
            lambda: f"{obj}.p = {e('int')}",
            lambda: f"del {obj}.extra",
            lambda: f"{self.klass()}.shared = {e('int')}",
            lambda: f"{obj}.items.append({e('int')})",
        ))  # fmt: skip

    def s_del(self):
        kind = self.r.choice(["int", "float", "str"])
        found = [n for n in self.names(kind) if n in self.scope.assigned and n[0] in "vw"]
        if not found:
            return self.s_assign()
        name = self.r.choice(found)
        self.put(f"del {name}")
        if self.r.random() < 0.9:
            self.scope.names.pop(name, None)

    def s_global(self):
        # every function of the module declares these two
        self.put(self.pick(
            lambda: f"GN = {self.e('int')}" if "GN" in self.scope.declared else self.e("int"),
            lambda: f"GS = {self.e('str')}" if "GN" in self.scope.declared else self.e("str"),
            lambda: f"GL.append({self.e('int')})",
            lambda: f"GD['g'] = {self.e('int')}",
        ))  # fmt: skip

    def s_assert(self):
        self.put(f"assert {self.e('bool')}, {self.e('str', 0)}")

    def s_inplace(self):
        name = self.name("ten")
        if name is None:
            return self.s_assign()
        e = self.e
        self.put(self.pick(
            lambda: f"{name}.add_({e(self.pick('int', 'float') if False else self.r.choice(['int', 'float']), 1)})",
            lambda: f"{name}.mul_({e('int', 0)})",
            lambda: f"{name}[{self.pick('0', '-1', '..., 0')}] = {e(self.r.choice(['int', 'float']), 1)}",
            lambda: f"{name}[...] = {e('ten', 1)}",
            lambda: f"{name}.view(-1)[0] += {e('int', 0)}",
            lambda: f"{name}.copy_({e('ten', 1)})",
            lambda: f"{name}.zero_()",
            lambda: f"{name}.detach().add_(1)",
        ))  # fmt: skip

    def s_break_here(self):
        self.put(self.pick(
            "print('here')", "time.time()", "os.getpid()", "capture.graph_break()",
            lambda: f"dis({self.e(self.kind(), 0)})", lambda: f"print({self.e('int', 0)})",
        ))  # fmt: skip

    def s_if(self):
        self.put(f"if {self.e('bool')}:")
        self.block(3)
        while self.r.random() < 0.2:
            self.put(f"elif {self.e('bool')}:")
            self.block(2)
        if self.r.random() < 0.5:
            self.put("else:")
            self.block(2)

    def loop_body(self, size=3):
        self.scope.loops += 1
        finals, self.scope.finals = self.scope.finals, 0
        self.block(size)
        self.scope.finals = finals
        self.scope.loops -= 1
        if self.r.random() < 0.25:
            self.put("else:")
            self.block(2)

    def s_for(self):
        v = self.fresh("i")
        self.scope.assigned.add(v)
        form = self.r.randrange(9)
        kind = "int"
        head = [f"{v} in range({self.pick('2', '3', '4')})"]
        if form == 0:
            head = [f"{v} in {self.e('li')}"]
        elif form == 1:
            k = self.fresh("i")
            self.scope.assigned.add(k)
            self.scope.names[k] = "str"
            head = [f"{k}, {v} in {self.e('d')}.items()"]
        elif form == 2:
            k = self.fresh("i")
            self.scope.assigned.add(k)
            self.scope.names[k] = "int"
            head = [
                f"{k}, {v} in {self.pick('enumerate', 'zip')}({self.e('li')})".replace(
                    "zip(", f"zip({self.e('li', 0)}, "
                )
            ]
        elif form == 3:
            kind = "str"
            head = [f"{v} in {self.e('d')}"]
        elif form == 4 and self.tensors:
            kind = "ten"
            head = [f"{v} in {self.e(self.r.choice(['lt', 'lt', 'ten']))}"]
        elif form == 5:
            head = [f"{v} in sorted({self.e('si')})"]
        elif form == 6 and [f for f in self.functions if f[1]]:
            g = self.r.choice([f for f in self.functions if f[1]])[0]
            head = [f"{v} in {g}({self.e('int', 0)})"]
        elif form == 7 and self.names("li"):
            # mutation while iterating
            li = self.r.choice(self.names("li"))
            self.put(f"for {v} in {li}:")
            self.scope.names[v] = "int"
            self.depth += 1
            self.put(f"if len({li}) > 7: break")
            self.put(
                self.pick(
                    f"{li}.append({v} + 1)",
                    f"{li}.pop()",
                    f"{li}.insert(0, {v})",
                    f"{li}.remove({v})",
                )
            )
            self.depth -= 1
            return None
        self.put(f"for {head[0]}:")
        self.scope.names[v] = kind
        self.loop_body()
        return None

    def s_while(self):
        w = self.fresh("k")
        self.put(f"{w} = 0")
        self.put(
            f"while {w} < {self.pick('2', '3')} and {self.e('bool', 1)}:"
            if self.r.random() < 0.5
            else f"while ({w} := {w} + 1) < {self.pick('3', '4')}:"
        )
        self.scope.loops += 1
        self.depth += 1
        self.put(f"{w} += 1")
        self.depth -= 1
        finals, self.scope.finals = self.scope.finals, 0
        before = len(self.lines)
        self.block(2)
        del before
        self.scope.finals = finals
        self.scope.loops -= 1
        if self.r.random() < 0.3:
            self.put("else:")
            self.block(1)

    def s_jump(self):
        if self.r.random() < 0.6:
            self.put(f"if {self.e('bool', 1)}:")
            self.depth += 1
            self.put(self.pick("break", "continue"))
            self.depth -= 1
        else:
            self.put(self.pick("break", "continue"))

    def s_return(self):
        if self.r.random() < 0.5:
            return self.s_assign()
        self.put(f"return {self.e(self.kind() if not self.scope.parent else 'int')}")
        return None

    ERRORS = ("ValueError", "KeyError", "E1", "E2", "IndexError", "StopIteration")

    def s_raise(self):
        if self.r.random() < 0.4:
            self.put(f"if {self.e('bool', 1)}:")
            self.depth += 1
        else:
            self.depth += 0
            self.put("if True:")
            self.depth += 1
        text = f"raise {self.r.choice(self.ERRORS)}({self.e('int', 0)})"
        if self.r.random() < 0.25:
            text += self.pick(" from None", " from KeyError('z')")
        self.put(text)
        self.depth -= 1

    def s_try(self):
        self.put("try:")
        self.block(3)
        if self.r.random() < 0.85:
            for _ in range(self.r.choice((1, 1, 2))):
                v = self.fresh("x")
                self.put(
                    f"except {self.pick('Exception', 'ValueError', '(KeyError, IndexError, TypeError)', 'E1', 'AttributeError', 'ZeroDivisionError')} as {v}:"
                )
                self.depth += 1
                self.put(self.pick(
                    lambda: f"{self.target_now('str')} = type({v}).__name__",
                    lambda: f"{self.target_now('int')} = len({v}.args)",
                    lambda: f"{self.target_now('bool')} = {v}.__context__ is None",
                    lambda: f"{self.target_now('int')} = getattr({v}, 'a', 3)",
                    lambda: f"print(repr({v})[:20])" if self.breaks else "pass",
                    lambda: "raise" if self.r.random() < 0.2 else "pass",
                    lambda: f"raise E2(1) from {v}" if self.r.random() < 0.3 else "pass",
                ))  # fmt: skip
                self.depth -= 1
                self.block(2)
            if self.r.random() < 0.2:
                self.put("else:")
                self.block(2)
            if self.r.random() < 0.3:
                self.put("finally:")
                self.block(2)
        else:
            self.put("finally:")
            self.block(2)

    def target_now(self, kind):
        name = self.target(kind)
        self.scope.names[name] = kind
        return name

    def s_with(self):
        log = self.name("li") or "GL"
        form = self.r.randrange(7)
        v = self.fresh()
        self.scope.assigned.add(v)
        if form == 6:
            self.put(f"with {self.e('box')} as {v}:")
            self.scope.names[v] = "box"
        elif form == 0:
            self.put(f"with Mgr({log}) as {v}:")
            self.scope.names[v] = "li"
        elif form == 1:
            self.put(f"with Mgr({log}, swallow={self.e('bool', 0)}):")
        elif form == 2:
            self.put(f"with managed({log}) as {v}:")
            self.scope.names[v] = "int"
        elif form == 3:
            self.put(
                f"with contextlib.suppress({self.pick('ValueError', 'Exception', 'KeyError', 'E1')}):"
            )
        elif form == 4:
            self.put(
                f"with {self.pick('torch.no_grad()', 'torch.enable_grad()', 'torch.set_grad_enabled(' + self.e('bool', 0) + ')')}:"
            )
        else:
            self.put(f"with Mgr({log}) as {v}, managed({log}):")
            self.scope.names[v] = "li"
        self.block(3)

    def s_match(self):
        form = self.r.randrange(3)
        if form == 0:
            self.put(f"match {self.e('int')}:")
            cases = ["case 0 | 1:", "case int(m_) if m_ > 3:", "case _:"]
        elif form == 1:
            self.put(f"match {self.e(self.r.choice(['li', 'tu']))}:")
            cases = ["case []:", "case [m_, *rest_] if m_:", "case (m_, 2):", "case _:"]
        else:
            self.put(f"match {self.e(self.r.choice(['d', 'obj']))}:")
            cases = ["case {'a': m_}:", f"case {self.klass()}(n=m_):", "case _:"]
        self.depth += 1
        for case in cases:
            if self.r.random() < 0.8 or case is cases[-1]:
                self.put(case)
                self.block(2)
        self.depth -= 1

    def s_closure(self):
        name = self.fresh("h")
        outer = self.scope
        arg = self.fresh("a")
        default = self.e("int", 0)
        self.put(
            f"def {name}({arg}, k={default}):"
            if self.r.random() < 0.8
            else f"def {name}({arg}, *rest, k={default}, **kw):"
        )
        inner = Scope(outer.names, outer, args=[arg])
        inner.names[arg] = "int"
        self.scope = inner
        self.depth += 1
        own = [
            n
            for n in outer.names
            if n in outer.assigned and outer.names[n] == "int" and n[0] == "v"
        ]
        if own and self.r.random() < 0.5 and outer.parent is None:
            n = self.r.choice(own)
            self.put(f"nonlocal {n}")
            inner.declared.add(n)
            self.put(f"{n} += {arg}")
        self.depth -= 1
        self.block(3)
        self.depth += 1
        self.put(f"return {self.e('int')}")
        self.depth -= 1
        self.scope = outer
        outer.names[name] = "fn"

    def s_partial(self):
        name = self.fresh("h")
        self.put(self.pick(
            lambda: f"{name} = lambda a, k={self.e('int', 0)}: {self.lambda_body()}",
            lambda: f"{name} = functools.partial(operator.add, {self.e('int')})",
            lambda: f"{name} = {self.e_obj(0)}.m",
        ))  # fmt: skip
        self.scope.assigned.add(name)
        self.scope.names[name] = "fn"

    def lambda_body(self):
        outer = self.scope
        self.scope = Scope(outer.names, outer)
        self.scope.names["a"] = "int"
        self.no_walrus = getattr(self, "no_walrus", 0) + 1
        text = self.e("int")
        self.no_walrus -= 1
        self.scope = outer
        return text

    def s_generator(self):
        gens = [f for f in self.functions if f[1]]
        if not gens:
            return self.s_assign()
        g = self.fresh("g")
        self.scope.assigned.add(g)
        self.put(f"{g} = {self.r.choice(gens)[0]}({self.e('int', 0)})")
        for _ in range(self.r.choice((1, 2, 3))):
            self.put(self.pick(
                lambda: f"{self.target_now('int')} = next({g}, 9)",
                lambda: f"{self.target_now('li')} = list({g})",
                lambda: f"{self.target_now('li')} = list(zip({g}, range(2)))",
                lambda: f"{g}.close()",
                lambda: f"{self.target_now('int')} = 3 in {g}",
                lambda: f"{self.target_now('int')} = next({g})",
                lambda: f"next({g}, None); {g}.send(2)",
                lambda: f"{g}.throw(E1(3))",
                lambda: f"GL.append(sum({g}))",
            ))  # fmt: skip
            if self.r.random() < 0.3 and self.breaks:
                self.s_break_here()
        if self.r.random() < 0.2 and self.scope.parent is None and not self.scope.generator:
            self.put(f"return [{g}, *{g}]" if self.r.random() < 0.3 else f"return {g}.__name__")
        return None

    def s_yield(self):
        self.put(self.pick(
            lambda: f"yield {self.e('int')}",
            lambda: f"yield {self.e('int')}",
            lambda: f"{self.target_now('int')} = (yield {self.e('int')}) or 0",
            lambda: f"yield from {self.e('li')}",
        ))  # fmt: skip

    # --- the module -------------------------------------------------------------------------------

    def function(self, name, signature, text, size, generator=False, method=False, result="int"):
        self.scope = Scope(signature, generator=generator, args=signature)
        self.put(f"def {name}({text}):")
        self.depth += 1
        if name == "f" or self.r.random() < 0.3:
            self.put("global GN, GS")
            self.scope.declared |= {"GN", "GS"}
        self.depth -= 1
        self.budget = size
        self.block(size)
        self.depth += 1
        if generator:
            self.put("yield " + self.e("int", 1))
        elif result is None:
            kinds = ["ll", "box", "dl", "int", "li", "d", "obj", "tu", "str", "bool", "float", "si"]
            if self.tensors:
                kinds += ["ten", "ten", "ten", "lt", "lt"]
            parts = [self.e(k, 1) for k in self.r.sample(kinds, 4)]
            self.put(f"return {', '.join(parts)}")
        else:
            self.put(f"return {self.e(result)}")
        self.depth -= 1
        self.put("")

    def make_class(self, number):
        name = f"C{number}"
        base = (
            self.r.choice([c[0] for c in self.classes])
            if self.classes and self.r.random() < 0.6
            else None
        )
        self.put(f"class {name}({base}):" if base else f"class {name}:")
        self.depth += 1
        self.put(f"shared = {self.r.randint(0, 5)}")
        if base is None or self.r.random() < 0.4:
            self.put("def __init__(self, n):")
            self.depth += 1
            if base:
                self.put("super().__init__(n)")
                self.put(f"self.extra = {self.r.randint(0, 4)}")
            else:
                self.put("self.n = n")
                self.put("self.items = [n, 1]")
            self.depth -= 1
        self.put("def __repr__(self):")
        self.put(f"    return f'{name}({{self.n}})'")
        seen = {"self": "obj", "k": "int"}
        if base is None or self.r.random() < 0.5:
            self.method("m", "self, k", seen, base)
        if base is None or self.r.random() < 0.4:
            self.put("@property")
            self.method("p", "self", {"self": "obj"}, base)
            if self.r.random() < 0.5:
                self.put("@p.setter")
                self.put("def p(self, k):")
                self.put("    self.n = k + 1")
        if base is None:
            self.put("def __add__(self, k):")
            self.put(
                f"    return {self.pick('type(self)', name)}(self.n + (k if isinstance(k, int) else 1))"
            )
            self.put("def scale(self, t):")
            self.put(f"    return t * self.n{self.pick('', ' + self.shared')}")
        if self.r.random() < 0.3:
            self.put("def __eq__(self, k):")
            self.put("    return isinstance(k, C0) and self.n == k.n")
            self.put(self.pick("__hash__ = None", "def __hash__(self): return 3"))
        if self.r.random() < 0.3:
            self.put("def __lt__(self, k):")
            self.put("    return self.n < getattr(k, 'n', 0)")
        if self.r.random() < 0.3:
            self.put("def __len__(self):")
            self.put("    return len(self.items)")
        if self.r.random() < 0.2:
            self.put("def __iadd__(self, k):")
            self.put("    self.items.append(k)")
            self.put("    return self")
        if self.r.random() < 0.2:
            self.put("def __setattr__(self, name, v):")
            self.put("    object.__setattr__(self, name, v)")
        if self.r.random() < 0.2:
            self.put("@classmethod")
            self.put("def make(cls, n): return cls(n)")
            self.put("@staticmethod")
            self.put("def st(n): return n + 1")
        self.depth -= 1
        self.put("")
        self.classes.append((name, base))

    def method(self, name, text, names, base):
        tensors, self.tensors = self.tensors, False
        self.scope = Scope(names, args=names)
        self.put(f"def {name}({text}):")
        self.budget = 3
        old = self.depth
        self.block(2)
        self.depth += 1
        if base and self.r.random() < 0.6:
            inner = "super().p" if name == "p" else "super().m(k)"
            self.put(f"return {inner} + {self.pick('self.shared', self.e_int(0))}")
        else:
            self.put(
                f"return {self.pick('self.n', 'self.shared', 'len(self.items)')} + {self.e('int', 1)}"
            )
        self.depth = old
        self.tensors = tensors

    def tensor(self):
        r = self.r
        dtype = r.choice(["", "", "", "", ", dtype=torch.float64"])
        grad = r.choice(["", "", "", ", requires_grad=True"])
        number = lambda: r.choice([0.5, -1.0, 2.0, 3.25, 0.0, 1.5])  # noqa: E731
        if r.random() < 0.6:
            return f"torch.tensor({[number() for _ in range(3)]}{dtype}{grad})"
        return f"torch.tensor({[[number() for _ in range(3)] for _ in range(2)]}{dtype}{grad})"

    def literal(self, kind):
        r = self.r
        i = lambda: r.randint(-2, 5)  # noqa: E731
        return {
            "int": lambda: str(r.choice([i(), i(), i(), "True" if r.random() < 0.3 else i()])),
            "float": lambda: str(r.choice([0.5, 1.5, -2.0, 0.0, -0.0, 3.0])),
            "bool": lambda: str(r.random() < 0.5),
            "str": lambda: repr(r.choice(["a", "b", "abc", "", "zz", "aXa"])),
            "li": lambda: str([i() for _ in range(r.choice((0, 1, 2, 3, 3)))]),
            "d": lambda: str({k: i() for k in r.sample(["a", "b", "c", "k"], r.randint(0, 3))}),
            "tu": lambda: str((i(), i())),
            "si": lambda: "{" + ", ".join(str(i()) for _ in range(2)) + "}",
            "obj": lambda: f"{r.choice([c[0] for c in self.classes] * 3 + ['DC', 'SL', 'Dyn'])}({i()})",
            "ten": self.tensor,
            "lt": lambda: f"[{', '.join(self.tensor() for _ in range(r.randint(0, 2)))}]",
        }[kind]()  # fmt: skip

    def program(self):
        """The whole module's text."""
        r = self.r
        for number in range(r.choice((1, 2, 2, 3))):
            self.make_class(number)
        # module-level names
        self.scope = Scope({})
        for name, kind in GLOBALS.items():
            self.put(f"{name} = {self.literal(kind)}")
        self.put("")
        for number in range(r.choice((0, 1, 1, 2))):
            generator = r.random() < 0.45
            name = f"gen{number}" if generator else f"help{number}"
            text = (
                "n"
                if generator
                else r.choice(["n, k=1, *z_", "n, k=2, *args, **kw", "n, k=GN, *args, z=3"])
            )
            sig = {"n": "int"} if generator else {"n": "int", "k": "int"}
            self.function(name, sig, text, r.choice((2, 3, 4)), generator)
            self.functions.append((name, generator))
        wanted = {n: k for n, k in SIGNATURE.items() if self.tensors or k not in ("ten", "lt")}
        size = r.choice((2, 4, 6, 8, 12))
        self.function("f", wanted, ", ".join(wanted), max(1, int(size * self.size)), result=None)
        self.put("def arguments(k):")
        self.depth += 1
        base = {n: self.literal(k) for n, k in wanted.items()}
        for number in range(3):
            self.put(f"if k == {number}:")
            self.depth += 1
            if number:
                for n in r.sample(list(wanted), r.choice((1, 2, 3))):
                    base = {**base, n: self.literal(wanted[n])}
            for n, text in base.items():
                self.put(f"{n} = {text}")
            if r.random() < 0.3:
                self.put(
                    r.choice(
                        ["o.items = li", "d = GD", "li = GL", "o = GO"]
                        + (
                            [
                                "u = t",
                                "u = t.view(-1)[:3]",
                                "lt = [t, u]",
                                "lt = [t, t]",
                                "u = t.detach()",
                            ]
                            if self.tensors
                            else []
                        )
                    )
                )
            self.put(f"return ({', '.join(wanted)},)")
            self.depth -= 1
        self.depth -= 1
        self.put("def change(k):")
        self.depth += 1
        self.put("global GN, GF, GS, GL, GO")
        for number in range(7):
            if r.random() < 0.3:
                self.put(f"if k == {number}:")
                kind = r.choice(["GN", "GF", "GS", "GL", "GO"])
                self.put(
                    "    "
                    + r.choice(
                        [
                            f"{kind} = {self.literal(GLOBALS[kind])}",
                            f"{kind} = {self.literal(GLOBALS[kind])}",
                            "C0.shared += 1",
                            "GL.append(2)",
                            "GO.n = 4",
                        ]
                    )
                )
        self.put("pass")
        self.depth -= 1
        return PRELUDE + "\n".join(self.lines) + "\n"
