"""Holds code objects that the tests of the bytecode layer share."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

SOURCE = '''
import os.path as path, sys
from os import *
from os import sep as separator

class Point(object):
    """A class."""
    x: int = 1
    for i in range(3):
        x += i
    ys = [lambda: x for x in range(3)]
    def method(self, *args, k: int = 1, **kw) -> int:
        if not self.x or args and kw: return super().method(*args, **kw)
        return super(Point, self).method + __class__.x

def many(a, b=2, /, c=3, *d, e, f=5, **g):
    global h
    h = a if b is not None else c
    del h
    x = [i * j for i in a for j in b if j if i]
    y = {i: {k for k in x} for i in a}
    z = (i async for i in a) if 0 else (i for i in a)
    def inner(q=a, *, r: "int" = b):
        nonlocal c, x
        c = q
        del x
        return lambda: (a, r)
    a[1:2] = a[::2]; a[1] += 2; del a[0]; a.b = -a, +a, ~a, not a
    del a.b
    f"{a!r:>{b}} {c!s} {a=} {b:x} {c}"
    print(*d, e, *a, k=f, **g); print(k=f if f else 1); print(f, k=1, j=2)
    while a < b <= c != 3:
        if a in b or a not in c: continue
        if a is b: break
    else:
        assert a, "message"
    for i, (j, *k) in a:
        try:
            with a as b, c:
                return i
        except (KeyError, ValueError) as error:
            raise error from None
        finally:
            print(sys)
    match a:
        case [1, *_, Point(x=0, y=q)] | {"k": q} if q: return q
        case {"k": 1, **rest}: return rest
        case str(): return None
    return x or y and z

def rest(a, b):
    while a is None: a = b()
    while a is not None: a = b()
    if b: x = {*a}
    class Inner:
        a = a
        y = 1
        del y
    return {1, 2, 3, *b}, a[b:], x, Inner

def groups(a):
    try: a()
    except* OSError as e: e.x = a
    except* (ValueError, KeyError): pass

def generator(a):
    x = yield a
    y = yield from a
    return x, y

async def coroutine(a):
    async with a as b:
        async for c in b:
            yield await c
    return

async def plain(a):
    return [await x async for x in a if await x]
'''
SOURCE_312 = """
type Alias[T] = list[T]
def generic[T: int, *Ts, **P](x: T) -> T: return x
class Generic[T]:
    z = sys
    def method[U: Generic](self) -> z: pass
def hidden(x):
    g = lambda: x
    return g, [x for x in range(3)], [y for y in [x]], x
def remade():
    return [lambda: (x, y) for x in range(3)], [y for y in ()]
"""
SOURCE_313 = "def default[T = int](x: T): pass\nclass D[T = 1]: pass\n"


def nested(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and all inside it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from nested(const)


def sample_codes() -> list[CodeType]:
    """Return code objects that hold about every instruction of the running Python."""
    codes: list[CodeType] = []
    for source in (SOURCE, SOURCE_312, SOURCE_313):
        try:
            codes.extend(nested(compile(source, "<sample>", "exec", dont_inherit=True)))
        except SyntaxError:
            assert source is not SOURCE
    many = "def big():\n" + "".join(f"  v{i} = [{i}.5, name{i}]\n" for i in range(400))
    loop = "def far(a):\n while a:\n  for x in a:\n" + "".join(
        f"   if x: a.b{i}(x)\n" for i in range(300)
    )
    for source in (many, loop):
        codes.extend(nested(compile(source, "<sample>", "exec", dont_inherit=True)))
    return codes


def stdlib_codes(step: int) -> Iterator[CodeType]:
    """Yield the code objects of every ``step``-th module of the standard library."""
    root = Path(sysconfig.get_paths()["stdlib"])
    paths = [path for path in sorted(root.rglob("*.py")) if "site-packages" not in path.parts]
    for path in paths[::step]:
        try:
            code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue  # bad on purpose, as lib2to3's and test's data
        yield from nested(code)
