"""Holds symbolic sizes: torch's ``ShapeEnv`` for one graph, and what its expressions become.

The only module that knows ``torch.fx.experimental.symbolic_shapes``; nothing of it is imported
before the first size is symbolic. Must not know graphs, tensors' metadata or sources: a symbol
stands for an input that the caller knows by an opaque key. Checked on torch 2.13 and 2.14.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from capture.config import settings
from capture.errors import CaptureError

__all__ = ["Condition", "Dim", "Inexpressible", "Shapes", "SymbolInput", "Undecided", "fold"]

_ENVIRONMENT = "torch.fx.experimental.symbolic_shapes"


class Inexpressible(CaptureError):
    """Raised where an expression has no form in plain integer arithmetic."""


class Undecided(Inexpressible):
    """Raised where something has to be known of a number that only the graph knows."""


class Dim:
    """A size or stride that may vary: an expression over the symbols of one ``Shapes``.

    It has no arithmetic and is no number: code that takes a size for an int fails on it instead of
    using the value of one call.

    Attributes:
        expr: the sympy expression.
        hint: its value in the call that is being captured; None if it depends on data.
    """

    __slots__ = ("expr", "hint", "shapes")

    def __init__(self, expr: Any, hint: int | None, shapes: Shapes) -> None:
        self.expr = expr
        self.hint = hint
        self.shapes = shapes

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dim):
            return NotImplemented
        return self.shapes is other.shapes and bool(self.expr == other.expr)

    def __hash__(self) -> int:
        return hash(self.expr)

    def __repr__(self) -> str:
        return str(self.expr)


@dataclass
class SymbolInput:
    """The number that a symbol stands for.

    Attributes:
        key: the caller's name for the number.
        hint: its value in the call that is being captured.
        is_size: whether it is a size or stride of a tensor.
        node: the graph's placeholder for it, once there is one.
    """

    key: Any
    hint: int
    is_size: bool
    node: Any = None


@dataclass(frozen=True)
class Condition:
    """What must hold of the symbols' numbers for a graph to be right.

    Attributes:
        expr: the relation.
        place: the user's line that made it necessary, if that is known.
    """

    expr: Any
    place: str | None


class Shapes:
    """The symbols of one graph and what was decided about them.

    Args:
        takes_data: whether operators may bring numbers that depend on data.

    Attributes:
        inputs: symbol to the number that it stands for.
        memo: outcomes of operators on symbolic sizes; what they decided is decided here for good.
        told: symbol to the node that gives its number, for numbers that depend on data.
    """

    def __init__(self, takes_data: bool = True) -> None:
        environment: Any = importlib.import_module(_ENVIRONMENT)
        self.sympy: Any = importlib.import_module("sympy")
        self.env: Any = environment.ShapeEnv(
            duck_shape=False,
            allow_scalar_outputs=takes_data and settings.capture_scalar_outputs,
            allow_dynamic_output_shape_ops=(
                takes_data and settings.capture_dynamic_output_shape_ops
            ),
        )
        self._undecided: Any = environment.GuardOnDataDependentSymNode
        self._dynamic: Any = environment.DimDynamic.DYNAMIC
        self._range: Any = importlib.import_module("torch.utils._sympy.value_ranges").ValueRanges
        self._constraint: Any = environment.StrictMinMaxConstraint
        self.inputs: dict[Any, SymbolInput] = {}
        self.by_key: dict[Any, Dim] = {}
        self.memo: dict[Any, Any] = {}
        self.mode: Any = None
        self.told: dict[Any, Any] = {}
        self._told_by: dict[Any, Dim] = {}
        self._taken: set[Any] = set()  # assumptions that were handed out
        self._values: dict[Any, Any] = {}
        self._places: list[str | None] = []

    # --- symbols -------------------------------------------------------------------------------

    def size(
        self, key: Any, name: str, hint: int, low: int | None = None, high: int | None = None
    ) -> Dim:
        """Make a symbol for a size of at least two (or a stride), within bounds if given.

        Raises:
            ValueError: if ``hint`` is not within the bounds.
        """
        if (low is not None and hint < low) or (high is not None and hint > high):
            raise ValueError(f"{name} is {hint}, not between {low} and {high}")
        found = self.by_key.get(key)
        if found is not None:
            return found
        symbol = self.env.create_symbol(hint, _named(name), self._dynamic)
        if low is not None or high is not None:
            least = max(2, low or 0)
            bounds = self._range(least, self.sympy.oo if high is None else high)
            if high is None:
                bounds = self._range(least, self.env.var_to_range[symbol].upper)
            self.env._update_var_to_range(symbol, bounds)
        return self._add(symbol, SymbolInput(key, hint, is_size=True))

    def number(self, key: Any, name: str, hint: int, node: Any) -> Dim:
        """Make a symbol for any integer; ``node`` is the graph's placeholder for it."""
        found = self.by_key.get(key)
        if found is not None:
            return found
        symbol = self.env.create_unspecified_symbol(hint, _named(name), self._dynamic)
        return self._add(symbol, SymbolInput(key, hint, is_size=False, node=node))

    def _add(self, symbol: Any, number: SymbolInput) -> Dim:
        self.inputs[symbol] = number
        self._values[symbol] = self.sympy.Integer(number.hint)
        dim = self.by_key[number.key] = Dim(symbol, number.hint, self)
        return dim

    # --- numbers that depend on data -----------------------------------------------------------

    def told_by(self, node: Any) -> Dim:
        """Return the symbol for an integer that a node of the graph gives."""
        found = self._told_by.get(node)
        if found is None:
            symbol = self.env.create_unbacked_symint().node.expr
            self.env.pending_fresh_unbacked_symbols.clear()
            found = self._told_by[node] = Dim(symbol, None, self)
            self.told[symbol] = node
        return found

    def tell(self, symbol: Any, node: Any) -> None:
        """Note which node gives the number of a symbol that an operator brought."""
        self.told[symbol] = node

    def is_known(self, symbol: Any) -> bool:
        """Tell whether the graph has the number of a symbol: as an input, or from a node."""
        return symbol in self.inputs or symbol in self.told

    def depends_on_data(self, n: Any) -> bool:
        """Tell whether an int or ``Dim`` is a number that only the graph knows."""
        return type(n) is Dim and n.hint is None

    def assume(self, relation: Any) -> None:
        """Take a relation of torch's numbers for granted; it is among the assumptions then."""
        if not self.env.guard_or_defer_runtime_assert(
            relation.node.expr, "a condition of the program"
        ):
            raise Undecided("a condition of the program does not hold")

    def assumptions(self, known: set[Any]) -> list[Any]:
        """Return what was assumed of data since the last time: relations of known symbols.

        Relations with symbols that are not in ``known`` tell how an operator's result relates to
        its arguments: the operator sees to them.
        """
        self.env.pending_fresh_unbacked_symbols.clear()
        found = []
        for relation in self.all_assumed():
            if relation not in self._taken:
                if relation.free_symbols <= known:
                    found.append(relation)
                else:
                    self._taken.add(relation)
        return found

    def asserted(self, relation: Any) -> None:
        """Note that the graph asserts an assumption."""
        self._taken.add(relation)

    def all_assumed(self) -> list[Any]:
        """Return all that was assumed of data so far."""
        return [a.expr for found in self.env.deferred_runtime_asserts.values() for a in found]

    def might_hold(self, relation: Any, values: dict[Any, int]) -> bool:
        """Tell whether a relation is not false for these values of the symbols."""
        numbers = {symbol: self.sympy.Integer(n) for symbol, n in values.items()}
        return bool(relation.xreplace(numbers).doit() != self.sympy.false)

    # --- to and from torch's numbers -----------------------------------------------------------

    def symint(self, n: Any) -> Any:
        """Return torch's number for an int or a ``Dim``."""
        if type(n) is not Dim:
            return n
        return self.env.create_symintnode(n.expr, hint=n.hint)

    def dim(self, n: Any) -> Any:
        """Return an int or a ``Dim`` for an int or torch's symbolic int.

        Raises:
            Inexpressible: if it is no function of the inputs.
        """
        if type(n) is int:
            return n
        expr = n.node.expr
        if expr.is_Integer:
            return int(expr)
        return Dim(expr, self.hint(expr), self)

    def hint(self, expr: Any) -> int | None:
        """Return what an expression gives in the call that is being captured, if that is known."""
        if all(symbol in self._values for symbol in expr.free_symbols):
            return self.value(expr)
        return None

    def value(self, expr: Any) -> int:
        """Return what an expression gives in the call that is being captured."""
        found = expr.xreplace(self._values)
        if not found.is_Integer:
            found = found.doit()
        if not found.is_Integer:
            raise Inexpressible(f"{expr} is not known in advance")
        return int(found)

    def settled(self, n: Any) -> Any:
        """Return an int or ``Dim`` with all that has become known since it was made."""
        if type(n) is not Dim:
            return n
        expr = self.env.replace(n.expr)
        if expr.is_Integer:
            return int(expr)
        return n if expr == n.expr else Dim(expr, n.hint, self)

    def settled_expr(self, dim: Dim) -> Any:
        """Return a ``Dim``'s expression with all that has become known since it was made."""
        return self.env.replace(dim.expr)

    def is_two_or_more(self, symbol: Any) -> bool:
        """Tell whether a symbol is a size, or a stride, that is never zero or one."""
        number = self.inputs.get(symbol)
        return number is not None and number.is_size and self.env.var_to_range[symbol].lower >= 2

    def is_product_of_sizes(self, dim: Dim) -> bool:
        """Tell whether a ``Dim`` is a product of what is never zero or one."""
        powers = self.settled_expr(dim).as_powers_dict().items()
        return all(
            power.is_Integer
            and power > 0
            and (int(base) >= 2 if base.is_Integer else self.is_two_or_more(base))
            for base, power in powers
        )

    # --- decisions -----------------------------------------------------------------------------

    def holds(self, relation: Callable[[Any, Any], Any], left: Any, right: Any) -> bool:
        """Decide a comparison as it is in this call; later calls have to agree."""
        try:
            return bool(relation(self.symint(left), self.symint(right)))
        except self._undecided:
            raise Undecided(f"{left} and {right} have to be compared") from None

    def relation(self, relation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        """Return torch's symbolic bool for a comparison, or a bool."""
        return relation(self.symint(left), self.symint(right))

    def known_truth(self, relation: Any) -> bool | None:
        """Return what a symbolic bool (or a bool) comes to whatever the data are, or None."""
        if relation is None or type(relation) is bool:
            return relation
        expr = self.env.replace(relation.node.expr)
        if self._always(expr):
            return True
        return False if self._always(self.sympy.Not(expr)) else None

    def arithmetic(self, function: Callable[..., Any], *numbers: Any) -> Any:
        """Return ``function`` of ints and Dims: an int or a Dim."""
        try:
            return self.dim(function(*map(self.symint, numbers)))
        except self._undecided:
            raise Undecided("arithmetic that depends on data") from None

    def extreme(self, name: str, left: Any, right: Any) -> Any:
        """Return the larger (``max``) or smaller (``min``) of two ints or Dims."""
        torch: Any = importlib.import_module("torch")
        function = torch.sym_max if name == "max" else torch.sym_min
        return self.arithmetic(function, left, right)

    def note_place(self, place: Callable[[], str | None]) -> None:
        """Say which of the user's lines all decisions since the last note are due to."""
        missing = len(self.env.guards) - len(self._places)
        if missing:
            self._places.extend([place()] * missing)

    def conditions(self) -> list[Condition]:
        """Return what was decided: later calls must fulfil all of it."""
        self.note_place(lambda: None)
        env, sympy = self.env, self.sympy
        found: dict[Any, str | None] = {}
        place_of: dict[Any, str | None] = {}
        for guard, place in zip(env.guards, self._places, strict=True):
            for symbol in guard.expr.free_symbols:
                place_of.setdefault(symbol, place)
        for symbol, number in self.inputs.items():
            known = env.replace(symbol)
            bounds = env.var_to_range[symbol]
            if known != symbol:
                found[sympy.Eq(symbol, known, evaluate=False)] = place_of.get(symbol)
                if known.is_Integer or self._within(known, bounds):
                    continue
            if number.is_size or bounds.lower.is_Integer:
                least = int(bounds.lower) if bounds.lower.is_Integer else 0
                found.setdefault(sympy.Ge(symbol, least, evaluate=False), place_of.get(symbol))
            if bounds.upper.is_Integer and int(bounds.upper) < (1 << 63) - 1:
                upper = sympy.Le(symbol, int(bounds.upper), evaluate=False)
                found.setdefault(upper, place_of.get(symbol))
        for guard, place in zip(env.guards, self._places, strict=True):
            relation = env.replace(guard.expr)
            if relation is sympy.true or self._always(relation):
                continue
            found.setdefault(relation, place)
        return [Condition(expr, place) for expr, place in found.items()]

    def _within(self, expr: Any, bounds: Any) -> bool:
        range_ = self.env.bound_sympy(expr)
        return bool(range_.lower >= bounds.lower and range_.upper <= bounds.upper)

    def _always(self, relation: Any) -> bool:
        """Tell whether the symbols' bounds alone make a relation true."""
        try:
            range_ = self.env.bound_sympy(relation)
        except Exception:  # no rule for something in it: then it is checked
            return False
        return range_.lower is self.sympy.true

    def is_never_negative(self, n: Any) -> bool:
        """Tell whether an int or ``Dim`` is at least zero whatever sizes come."""
        if type(n) is not Dim:
            return bool(n >= 0)
        return bool(self.env.bound_sympy(n.expr).lower >= 0)

    def is_positive(self, dim: Dim) -> bool:
        """Tell whether a number is at least one whatever sizes and data come."""
        return bool(self.env.bound_sympy(dim.expr).lower > 0)

    def pinned(self, dim: Dim) -> int | None:
        """Return the one value that a size must have by now, or None."""
        known = self.env.replace(dim.expr)
        return int(known) if known.is_Integer else None

    def reason_for(self, dim: Dim) -> tuple[str, str | None]:
        """Return the first decision about a size, as text, and the user's line."""
        self.note_place(lambda: None)
        for guard, place in zip(self.env.guards, self._places, strict=True):
            if dim.expr in guard.expr.free_symbols and self._pins(guard.expr, dim.expr):
                return self.text_of(guard.expr), place
        for guard, place in zip(self.env.guards, self._places, strict=True):
            if dim.expr in guard.expr.free_symbols:
                return self.text_of(guard.expr), place
        return str(dim), None

    def _pins(self, relation: Any, symbol: Any) -> bool:
        return bool(relation.is_Equality and relation.free_symbols == {symbol})

    def checker(self, expr: Any) -> Callable[..., bool]:
        """Return the slow check of a relation: a function of all inputs' numbers, in order."""
        symbols, sympy = list(self.inputs), self.sympy

        def check(*numbers: int) -> bool:
            values = dict(zip(symbols, map(sympy.Integer, numbers), strict=True))
            return bool(expr.xreplace(values).doit() == sympy.true)

        return check

    def text_of(self, expr: Any) -> str:
        """Return an expression with the names of the inputs in it."""
        names = {
            symbol: self.sympy.Symbol(getattr(number.key, "name", str(symbol)))
            for symbol, number in self.inputs.items()
        }
        return str(expr.xreplace(names))


# --- expressions -------------------------------------------------------------------------------

_NARY = {"Add": "+", "Mul": "*", "Max": "max", "Min": "min", "And": "and", "Or": "or"}
_BINARY = {
    "FloorDiv": "//",
    "CleanDiv": "//",
    "Mod": "%",
    "PythonMod": "%",
    "Equality": "==",
    "Unequality": "!=",
    "StrictLessThan": "<",
    "LessThan": "<=",
    "StrictGreaterThan": ">",
    "GreaterThan": ">=",
}


def fold(expr: Any, leaf: Callable[[Any], Any], apply: Callable[[str, list[Any]], Any]) -> Any:
    """Rebuild an expression out of plain integer arithmetic.

    Args:
        leaf: gives the result for a symbol.
        apply: gives the result for an operator (``+``, ``-``, ``*``, ``//``, ``%``, ``max``,
            ``min``, a comparison, ``and``, ``or``, ``not``) and the results for its operands. Ints
            and bools stand for themselves.

    Raises:
        Inexpressible: if something else occurs in it.
    """
    if expr.is_Symbol:
        return leaf(expr)
    if expr.is_Integer:
        return int(expr)
    kind = type(expr).__name__
    if kind in ("BooleanTrue", "BooleanFalse"):
        return kind == "BooleanTrue"
    if kind in ("Pow", "PowByNatural"):
        base, exponent = expr.args
        if not exponent.is_Integer or not 0 < int(exponent) <= 8:
            raise Inexpressible(f"{expr} is no integer arithmetic")
        result = factor = fold(base, leaf, apply)
        for _ in range(int(exponent) - 1):
            result = apply("*", [result, factor])
        return result
    if kind == "Not":
        return apply("not", [fold(expr.args[0], leaf, apply)])
    symbol = _BINARY.get(kind)
    if symbol is not None:
        return apply(symbol, [fold(arg, leaf, apply) for arg in expr.args])
    symbol = _NARY.get(kind)
    if symbol is None:
        raise Inexpressible(f"{kind} in {expr} is no integer arithmetic")
    if symbol == "+":
        return _sum(expr, leaf, apply)
    result = fold(expr.args[0], leaf, apply)
    for arg in expr.args[1:]:
        result = apply(symbol, [result, fold(arg, leaf, apply)])
    return result


def _sum(expr: Any, leaf: Callable[[Any], Any], apply: Callable[[str, list[Any]], Any]) -> Any:
    """A sum, with what is negative subtracted, the way people write it."""
    negative = [arg for arg in expr.args if arg.could_extract_minus_sign()]
    terms = [arg for arg in expr.args if arg not in negative]
    if not terms:
        terms, negative = negative[:1], negative[1:]
    result = fold(terms[0], leaf, apply)
    for arg in terms[1:]:
        result = apply("+", [result, fold(arg, leaf, apply)])
    for arg in negative:
        result = apply("-", [result, fold(-arg, leaf, apply)])
    return result


def _named(name: str) -> Any:
    """Return what torch takes for the origin of a symbol: it only asks for the name."""
    guards: Any = importlib.import_module("torch._guards")

    @dataclass(frozen=True)
    class Named(guards.Source):  # type: ignore[misc]
        text: str

        @property
        def name(self) -> str:
            return self.text

    return Named(name)
