"""Holds propagation of symbolic sizes by a run on real tensors of *generic* sizes.

Fake tensors take 2 to 20 ms for an operator with symbolic sizes, a run on small real tensors 50 us.
For the operators listed here sizes and strides of the results are products of sizes, strides and
constants of the arguments, by the same formula for all sizes of at least two, as long as nothing
has to be equal that is not the same expression. So they are run once with a different prime for
each symbol, none of which divides a constant of the call: the primes in a result tell the formula,
and what needs two symbols to be equal fails. Everything else is left to fake tensors.

Must not know graphs.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from capture.graph.symbols import Dim, Shapes
from capture.graph.tensor_meta import TensorMeta
from capture.graph.values import SizeValue

__all__ = ["Point", "aligned", "at_hints", "is_uniform", "liftable", "point_for"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_GENERIC = _words("""
    linear matmul bmm mm addmm baddbmm imatmul add sub subtract mul multiply truediv div
    true_divide iadd isub imul itruediv rsub neg exp log sqrt rsqrt square abs tanh sigmoid relu
    gelu silu softplus elu leaky_relu mish hardtanh dropout softmax log_softmax layer_norm rms_norm
    embedding transpose permute t T mT swapaxes view reshape contiguous clone detach to float half
    bfloat16 double bool long int unsqueeze masked_fill where eq ne lt le gt ge logical_not
    logical_and logical_or bitwise_and bitwise_or bitwise_not and_ or_ invert and or tril triu sum
    mean amax amin cumsum scaled_dot_product_attention cross_entropy nll_loss mse_loss expand
    expand_as zeros ones empty full zeros_like ones_like empty_like full_like new_zeros new_ones
    new_full new_empty adaptive_avg_pool2d sin cos erf clamp clamp_min clamp_max minimum maximum
    type_as pow arange getitem split chunk unbind
""")
# among the others a size could stand for the number of a dimension
_TAKES_SIZES = _words("""
    add sub subtract mul multiply truediv div true_divide rsub iadd isub imul itruediv view reshape
    masked_fill where eq ne lt le gt ge expand zeros ones empty full new_zeros new_ones new_full
    new_empty adaptive_avg_pool2d clamp clamp_min clamp_max arange
""")
_LOSSES = _words("cross_entropy nll_loss")
_ELEMENTWISE = _words("""
    add sub mul div truediv true_divide iadd isub imul itruediv maximum minimum eq ne lt le gt ge
    where masked_fill mse_loss bitwise_and bitwise_or and or and_ or_ logical_and logical_or pow
""")
# and these may give back, or share memory with, what they are given
_MAY_SHARE = _words("""
    view reshape contiguous expand expand_as split chunk unbind to float half bfloat16 double bool
    long int getitem clone squeeze type_as dropout
""")
_PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)
_MOST_SYMBOLS = 4


def is_uniform(name: str) -> bool:
    """Tell whether an operator does the same with all sizes, zero and one included."""
    return name in _GENERIC and name not in _MAY_SHARE


class Point:
    """Numbers for the symbols of one call.

    Attributes:
        primes: symbol to the number it has.
    """

    def __init__(self, shapes: Shapes, primes: dict[Any, int]) -> None:
        self._shapes = shapes
        self.primes = primes

    def value(self, n: Any) -> int:
        """Return an int for an int or a ``Dim``."""
        if type(n) is not Dim:
            return int(n)
        result = 1
        for base, power in self._shapes.settled_expr(n).as_powers_dict().items():
            result *= int(self.primes.get(base, base)) ** int(power)
        return result

    def at(self, meta: TensorMeta) -> TensorMeta:
        """Return metadata with numbers for symbols."""
        return meta._replace(
            shape=tuple(map(self.value, meta.shape)), stride=tuple(map(self.value, meta.stride))
        )

    def lifted(self, meta: TensorMeta) -> TensorMeta:
        """Return metadata with symbols for what the primes in its numbers stand for."""
        return meta._replace(
            shape=tuple(map(self._lift, meta.shape)), stride=tuple(map(self._lift, meta.stride))
        )

    def _lift(self, number: int) -> Any:
        if number == 0:
            return 0
        rest: Any = number
        expr: Any = 1
        for symbol, prime in self.primes.items():
            while rest % prime == 0:
                rest //= prime
                expr = symbol * expr
        if expr == 1:
            return number
        expr = expr * rest
        return Dim(expr, self._shapes.value(expr), self._shapes)


def point_for(
    name: str,
    metas: Sequence[TensorMeta],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    sizes: Sequence[SizeValue],
    shapes: Shapes,
) -> Point | None:
    """Return numbers to run a call with, or None if that would not tell what it does."""
    if name not in _GENERIC or not _is_uniform(name, metas, args, kwargs):
        return None
    if sizes and name not in _TAKES_SIZES:
        return None
    constants: set[int] = set()
    symbols: dict[Any, None] = {}
    numbers: list[Any] = [value.dim for value in sizes]
    for meta in metas:
        if meta.device.type != "cpu":
            return None
        numbers.extend((*meta.shape, *meta.stride))
    for n in numbers:
        if type(n) is not Dim:
            constants.add(n)
            continue
        for base, power in shapes.settled_expr(n).as_powers_dict().items():
            if base.is_Integer:
                constants.add(int(base))
            elif not base.is_Symbol or not power.is_Integer or power <= 0:
                return None
            elif not shapes.is_two_or_more(base):
                return None
            else:
                symbols[base] = None
    if not symbols or len(symbols) > _MOST_SYMBOLS:
        return None
    _collect((args, dict(kwargs)), constants)
    free = (p for p in _PRIMES if all(c % p or c == 0 for c in constants))
    primes = dict(zip(symbols, free, strict=False))
    return Point(shapes, primes) if len(primes) == len(symbols) else None


def at_hints(meta: TensorMeta) -> TensorMeta:
    """The metadata with the sizes that there are now; they must be known."""
    shape, stride = (
        tuple(n.hint if isinstance(n, Dim) else n for n in dims)
        for dims in (meta.shape, meta.stride)
    )
    return meta._replace(shape=shape, stride=stride)


def aligned(name: str, metas: Sequence[TensorMeta], shapes: Shapes) -> list[TensorMeta]:
    """Return metadata in which sizes that the call needs to be equal are the same expression.

    Where they are in the call that is being captured, that is decided; fake tensors, which the call
    would be left to otherwise, would decide the same.
    """
    found = list(metas)
    if len(found) < 2:
        return found
    if name in _LOSSES and found[1].ndim == 1 and found[0].ndim == 2:
        sizes, wanted = found[1].shape, found[0].shape[:1]
        if found[1].stride == (1,) and _decide_equal(sizes, wanted, shapes):
            found[1] = found[1]._replace(shape=wanted)
    elif name in _ELEMENTWISE:
        first = found[0]
        for other in found[1:]:
            rank = min(first.ndim, other.ndim)
            if rank:
                _decide_equal(other.shape[-rank:], first.shape[-rank:], shapes)
    return found


def _decide_equal(sizes: Sequence[Any], wanted: Sequence[Any], shapes: Shapes) -> bool:
    """Decide that symbolic sizes of two or more are equal, if they are now; else decide nothing."""
    pairs = [
        (shapes.settled(a), shapes.settled(b))
        for a, b in zip(sizes, wanted, strict=True)
        if type(a) is Dim and type(b) is Dim
    ]
    pairs = [(a, b) for a, b in pairs if type(a) is Dim and type(b) is Dim and a != b]
    for pair in pairs:
        if pair[0].hint != pair[1].hint or not all(map(shapes.is_product_of_sizes, pair)):
            return False
    return all(shapes.holds(operator.eq, a, b) for a, b in pairs)


def _collect(arg: Any, constants: set[int]) -> None:
    kind = type(arg)
    if kind is int:
        constants.add(abs(arg))
    elif isinstance(arg, tuple | list):
        for item in arg:
            _collect(item, constants)
    elif kind is dict:
        for item in arg.values():
            _collect(item, constants)
    elif kind is slice:
        _collect((arg.start, arg.stop, arg.step), constants)


def _is_uniform(
    name: str, metas: Sequence[TensorMeta], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> bool:
    """Tell whether the arguments are of the kind that a size decides nothing about."""
    if name == "getitem":
        index = args[1] if type(args[1]) is tuple else (args[1],)
        return len(metas) == 1 and all(
            item is None
            or item is Ellipsis
            or (type(item) is int and item in (0, -1))
            or (type(item) is slice and item == slice(None))
            for item in index
        )
    if name == "arange":
        return type(args[-1]) is SizeValue and args[:-1] in ((), (0,))
    if name in ("split", "chunk", "unbind"):
        place = 1 if name == "unbind" else 2
        dim = kwargs.get("dim", args[place] if len(args) > place else 0)
        shape = metas[0].shape if metas else ()
        return type(dim) is int and -len(shape) <= dim < len(shape) and type(shape[dim]) is int
    return True


def liftable(value: Any) -> bool:
    """Tell whether a constant result cannot be a size."""
    return type(value) is not int and not isinstance(value, tuple | list)
