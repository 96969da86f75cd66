"""Holds equivalents of itertools (Modules/itertoolsmodule.c) as checked calls of generators.

Must not know the interpreter, variables or torch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from capture.polyfills.arguments import Missing, as_size
from capture.polyfills.containers import tuple_from
from capture.polyfills.registry import generator_of, polyfill_of

Items = tuple[Any, ...]


@generator_of(itertools.chain)
@polyfill_of(itertools.chain)
def chain(*iterables: Iterable[Any]) -> Generator[Any, None, None]:
    """itertools.chain(): the arguments are not looked at before their turn."""
    for iterable in iterables:
        for item in iterable:  # noqa: UP028 - `yield from` would hand close() on
            yield item


@polyfill_of(itertools.chain.from_iterable)
def chain_from_iterable(iterable: Iterable[Iterable[Any]], /) -> Iterator[Any]:
    """itertools.chain.from_iterable()."""
    return _chain_items(iter(iterable))


@generator_of(itertools.chain)
def _chain_items(iterators: Iterator[Iterable[Any]]) -> Generator[Any, None, None]:
    while True:
        try:
            iterable = next(iterators)
        except StopIteration:
            return
        for item in iterable:  # noqa: UP028 - `yield from` would hand close() on
            yield item


def _pick(pool: Items, positions: list[int]) -> Items:
    items = []
    for position in positions:
        items.append(pool[position])
    return (*items,)


def _count_up(size: int) -> list[int]:
    positions: list[int] = []
    while len(positions) < size:
        positions.append(len(positions))
    return positions


@polyfill_of(itertools.product)
def product(*iterables: Iterable[Any], repeat: Any = 1) -> Iterator[Items]:
    """itertools.product(): reads its arguments at once."""
    times = as_size(repeat)
    if times < 0:
        raise ValueError("repeat argument cannot be negative")
    pools: list[Items] = []
    if times:
        for iterable in iterables:
            pools.append(tuple_from(iterable))
    return _product_items(pools * times)


@generator_of(itertools.product)
def _product_items(pools: list[Items]) -> Generator[Items, None, None]:
    for pool in pools:
        if not pool:
            return
    positions = [0] * len(pools)
    while True:
        items = []
        wheel = 0
        while wheel < len(pools):
            items.append(pools[wheel][positions[wheel]])
            wheel += 1
        yield (*items,)
        # Turn the last wheel; one that has gone round turns the wheel before it.
        wheel = len(pools) - 1
        while wheel >= 0:
            positions[wheel] += 1
            if positions[wheel] < len(pools[wheel]):
                break
            positions[wheel] = 0
            wheel -= 1
        if wheel < 0:
            return


@polyfill_of(itertools.permutations)
def permutations(iterable: Iterable[Any], r: Any = None) -> Iterator[Items]:
    """itertools.permutations(): reads its argument at once."""
    pool = tuple_from(iterable)
    size = len(pool)
    if r is not None:
        if not isinstance(r, int):
            raise TypeError("Expected int as r")
        size = as_size(r)
        if size < 0:
            raise ValueError("r must be non-negative")
    return _permutation_items(pool, size)


@generator_of(itertools.permutations)
def _permutation_items(pool: Items, size: int) -> Generator[Items, None, None]:
    if size > len(pool):
        return
    chosen = _count_up(size)
    while True:
        yield _pick(pool, chosen)
        # The next choice in lexicographic order: drop places from the right until one can grow
        # to a position not in use; what follows it starts over with the smallest ones left.
        grown = -1
        while chosen and grown < 0:
            candidate = chosen.pop() + 1
            while candidate < len(pool) and candidate in chosen:
                candidate += 1
            if candidate < len(pool):
                grown = candidate
        if grown < 0:
            return
        chosen.append(grown)
        candidate = 0
        while len(chosen) < size:
            if candidate not in chosen:
                chosen.append(candidate)
            candidate += 1


@polyfill_of(itertools.combinations)
def combinations(iterable: Iterable[Any], r: Any) -> Iterator[Items]:
    """itertools.combinations(): reads its argument at once."""
    size = as_size(r)
    pool = tuple_from(iterable)
    if size < 0:
        raise ValueError("r must be non-negative")
    return _combination_items(pool, size)


@generator_of(itertools.combinations)
def _combination_items(pool: Items, size: int) -> Generator[Items, None, None]:
    if size > len(pool):
        return
    chosen = _count_up(size)
    while True:
        yield _pick(pool, chosen)
        place = size - 1
        while place >= 0 and chosen[place] == place + len(pool) - size:
            place -= 1
        if place < 0:
            return
        position = chosen[place] + 1
        while place < size:
            chosen[place] = position
            position += 1
            place += 1


@polyfill_of(itertools.combinations_with_replacement)
def combinations_with_replacement(iterable: Iterable[Any], r: Any) -> Iterator[Items]:
    """itertools.combinations_with_replacement(): reads its argument at once."""
    size = as_size(r)
    pool = tuple_from(iterable)
    if size < 0:
        raise ValueError("r must be non-negative")
    return _replacement_items(pool, size)


@generator_of(itertools.combinations_with_replacement)
def _replacement_items(pool: Items, size: int) -> Generator[Items, None, None]:
    if size and not pool:
        return
    chosen = [0] * size
    while True:
        yield _pick(pool, chosen)
        place = size - 1
        while place >= 0 and chosen[place] == len(pool) - 1:
            place -= 1
        if place < 0:
            return
        position = chosen[place] + 1
        while place < size:
            chosen[place] = position
            place += 1


@polyfill_of(itertools.accumulate)
def accumulate(
    iterable: Iterable[Any], func: Callable[[Any, Any], Any] | None = None, *, initial: Any = None
) -> Iterator[Any]:
    """itertools.accumulate(): adds where no function is given."""
    return _accumulate_items(iter(iterable), func, initial)


@generator_of(itertools.accumulate)
def _accumulate_items(
    iterator: Iterator[Any], function: Callable[[Any, Any], Any] | None, initial: Any
) -> Generator[Any, None, Any]:
    total: Any = Missing
    if initial is not None:
        total = initial
        yield total
    while True:
        try:
            item = next(iterator)
            if total is Missing:
                total = item
            elif function is None:
                total = total + item
            else:
                total = function(total, item)
        except StopIteration as stop:
            return stop.value
        yield total


def _size_or_minus_one(value: Any) -> int:
    # C forgets whatever goes wrong in the conversion.
    try:
        return as_size(value)
    except Exception:
        return -1


@polyfill_of(itertools.islice)
def islice(iterable: Iterable[Any], /, *args: Any) -> Iterator[Any]:
    """itertools.islice(): skips by reading."""
    if not args:
        raise TypeError("islice expected at least 2 arguments, got 1")
    if len(args) > 3:
        raise TypeError(f"islice expected at most 4 arguments, got {len(args) + 1}")
    first = args[0] if len(args) > 1 else None
    last = args[1] if len(args) > 1 else args[0]
    start = 0 if first is None else _size_or_minus_one(first)
    stop = None if last is None else _size_or_minus_one(last)
    if stop == -1:
        raise ValueError(
            "Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize."
        )
    if start < 0 or (stop is not None and stop < 0):
        raise ValueError("Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    step = 1
    if len(args) > 2 and args[2] is not None:
        step = _size_or_minus_one(args[2])
    if step < 1:
        raise ValueError("Step for islice() must be a positive integer or None.")
    return _islice_items(iter(iterable), start, stop, step)


@generator_of(itertools.islice)
def _islice_items(
    iterator: Iterator[Any], wanted: int, stop: int | None, step: int
) -> Generator[Any, None, Any]:
    read = 0
    while True:
        try:
            while read < wanted:
                next(iterator)
                read += 1
            if stop is not None and read >= stop:
                return None
            item = next(iterator)
        except StopIteration as end:
            return end.value
        read += 1
        # Items between the last wanted one and `stop` are still read, by the call that ends.
        wanted += step
        if stop is not None and wanted > stop:
            wanted = stop
        yield item


@polyfill_of(itertools.starmap)
def starmap(function: Callable[..., Any], iterable: Iterable[Iterable[Any]], /) -> Iterator[Any]:
    """itertools.starmap()."""
    return _starmap_items(function, iter(iterable))


@generator_of(itertools.starmap)
def _starmap_items(
    function: Callable[..., Any], iterator: Iterator[Iterable[Any]]
) -> Generator[Any, None, Any]:
    while True:
        try:
            value = function(*tuple_from(next(iterator)))
        except StopIteration as stop:
            return stop.value
        yield value


@polyfill_of(itertools.takewhile)
def takewhile(predicate: Callable[[Any], Any], iterable: Iterable[Any], /) -> Iterator[Any]:
    """itertools.takewhile(): the first item that fails is read and lost."""
    return _takewhile_items(predicate, iter(iterable))


@generator_of(itertools.takewhile)
def _takewhile_items(
    predicate: Callable[[Any], Any], iterator: Iterator[Any]
) -> Generator[Any, None, Any]:
    while True:
        try:
            item = next(iterator)
            if not predicate(item):
                return None
        except StopIteration as stop:
            return stop.value
        yield item


@polyfill_of(itertools.dropwhile)
def dropwhile(predicate: Callable[[Any], Any], iterable: Iterable[Any], /) -> Iterator[Any]:
    """itertools.dropwhile(): asks no more behind the first item that fails."""
    return _dropwhile_items(predicate, iter(iterable))


@generator_of(itertools.dropwhile)
def _dropwhile_items(
    predicate: Callable[[Any], Any], iterator: Iterator[Any]
) -> Generator[Any, None, Any]:
    dropping = True
    while True:
        try:
            item = next(iterator)
            if dropping and predicate(item):
                continue
        except StopIteration as stop:
            return stop.value
        dropping = False
        yield item


@polyfill_of(itertools.filterfalse)
def filterfalse(function: Callable[[Any], Any] | None, iterable: Iterable[Any], /) -> Iterator[Any]:
    """itertools.filterfalse(): `None` tests the items themselves."""
    return _filterfalse_items(function, iter(iterable))


@generator_of(itertools.filterfalse)
def _filterfalse_items(
    function: Callable[[Any], Any] | None, iterator: Iterator[Any]
) -> Generator[Any, None, Any]:
    while True:
        try:
            item = next(iterator)
            if item if function is None else function(item):
                continue
        except StopIteration as stop:
            return stop.value
        yield item


@polyfill_of(itertools.compress)
def compress(data: Iterable[Any], selectors: Iterable[Any]) -> Iterator[Any]:
    """itertools.compress()."""
    iterator = iter(data)
    return _compress_items(iterator, iter(selectors))


@generator_of(itertools.compress)
def _compress_items(data: Iterator[Any], selectors: Iterator[Any]) -> Generator[Any, None, Any]:
    while True:
        try:
            item = next(data)
            if not next(selectors):
                continue
        except StopIteration as stop:
            return stop.value
        yield item


class GroupState:
    """What a groupby() and its groups share: the iterator, and the item read but not handed out."""

    def __init__(self, iterator: Iterator[Any], key: Callable[[Any], Any] | None) -> None:
        """Start before the first item."""
        self.iterator = iterator
        self.key_function = key
        self.item: Any = Missing
        self.key: Any = Missing
        self.group_key: Any = Missing
        self.group_number = 0

    def step(self) -> bool:
        """Read the next item and its key; false at the end."""
        try:
            item = next(self.iterator)
            key = item if self.key_function is None else self.key_function(item)
        except StopIteration:
            return False
        self.item = item
        self.key = key
        return True

    def in_group(self, group_key: Any) -> bool:
        """Tell whether the item read belongs to the group of `group_key`."""
        return group_key is self.key or bool(group_key == self.key)


@polyfill_of(itertools.groupby)
def groupby(
    iterable: Iterable[Any], key: Callable[[Any], Any] | None = None
) -> Iterator[tuple[Any, Iterator[Any]]]:
    """itertools.groupby(): asking for the next group ends the last one."""
    return _groupby_items(GroupState(iter(iterable), key))


@generator_of(itertools.groupby)
def _groupby_items(state: GroupState) -> Generator[tuple[Any, Iterator[Any]], None, None]:
    while True:
        state.group_number += 1
        while state.key is Missing or (
            state.group_key is not Missing and state.in_group(state.group_key)
        ):
            if not state.step():
                return
        state.group_key = state.key
        yield state.key, _group_items(state, state.key, state.group_number)


@generator_of(type(next(itertools.groupby([0]))[1]))
def _group_items(state: GroupState, group_key: Any, number: int) -> Generator[Any, None, None]:
    while state.group_number == number:
        if state.item is Missing and not state.step():
            return
        if not state.in_group(group_key):
            return
        item = state.item
        state.item = Missing
        state.key = Missing
        yield item


def _is_number(value: Any) -> bool:
    kind = type(value)
    return (
        hasattr(kind, "__index__")
        or hasattr(kind, "__int__")
        or hasattr(kind, "__float__")
        or isinstance(value, complex)
    )


@polyfill_of(itertools.count)
def count(start: Any = 0, step: Any = 1) -> Iterator[Any]:
    """itertools.count(): each next value is computed before the present one is handed out."""
    if not _is_number(start) or not _is_number(step):
        raise TypeError("a number is required")
    exact = type(start) is int and type(step) is int
    if not exact and isinstance(start, int) and isinstance(step, int) and step == 1:
        # C counts in a Py_ssize_t: a bool or a subclass becomes an int at once.
        return _count_items(int.__add__(start, 0), 1)
    return _count_items(start, step)


@generator_of(itertools.count)
def _count_items(value: Any, step: Any) -> Generator[Any, None, Any]:
    while True:
        present = value
        try:
            value = value + step
        except StopIteration as stop:
            return stop.value
        yield present


@polyfill_of(itertools.cycle)
def cycle(iterable: Iterable[Any], /) -> Iterator[Any]:
    """itertools.cycle()."""
    return _cycle_items(iter(iterable))


@generator_of(itertools.cycle)
def _cycle_items(iterator: Iterator[Any]) -> Generator[Any, None, None]:
    saved = []
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            break
        saved.append(item)
        yield item
    while saved:
        for item in saved:
            yield item


@polyfill_of(itertools.repeat)
def repeat(object: Any, times: Any = Missing) -> Iterator[Any]:
    """itertools.repeat()."""
    if times is Missing:
        return _repeat_forever(object)
    return _repeat_items(object, as_size(times))


@generator_of(itertools.repeat)
def _repeat_forever(item: Any) -> Generator[Any, None, None]:
    while True:
        yield item


@generator_of(itertools.repeat)
def _repeat_items(item: Any, times: int) -> Generator[Any, None, None]:
    while times > 0:
        times -= 1
        yield item


@polyfill_of(itertools.zip_longest)
def zip_longest(*iterables: Iterable[Any], fillvalue: Any = None) -> Iterator[Items]:
    """itertools.zip_longest()."""
    iterators: list[Any] = []
    for iterable in iterables:
        iterators.append(iter(iterable))
    return _zip_longest_items(iterators, fillvalue)


@generator_of(itertools.zip_longest)
def _zip_longest_items(iterators: list[Any], fill: Any) -> Generator[Items, None, None]:
    active = len(iterators)
    while active:
        items = []
        place = 0
        while place < len(iterators):
            item = fill
            if iterators[place] is not Missing:
                try:
                    item = next(iterators[place])
                except StopIteration:
                    active -= 1
                    if not active:
                        return
                    iterators[place] = Missing
            items.append(item)
            place += 1
        yield (*items,)


@polyfill_of(itertools.pairwise)
def pairwise(iterable: Iterable[Any], /) -> Iterator[tuple[Any, Any]]:
    """itertools.pairwise()."""
    return _pairwise_items(iter(iterable))


@generator_of(itertools.pairwise)
def _pairwise_items(iterator: Iterator[Any]) -> Generator[tuple[Any, Any], None, Any]:
    try:
        left = next(iterator)
    except StopIteration as stop:
        return stop.value
    while True:
        try:
            right = next(iterator)
        except StopIteration as stop:
            return stop.value
        yield left, right
        left = right


@polyfill_of(itertools.tee)
def tee(iterable: Iterable[Any], n: Any = 2, /) -> tuple[Iterator[Any], ...]:
    """itertools.tee(): the copies share a chain of links, freed behind the slowest."""
    copies = as_size(n)
    if copies < 0:
        raise ValueError("n must be >= 0")
    if copies == 0:
        return ()
    iterator = iter(iterable)
    if hasattr(iterator, "__copy__"):
        result = [iterator]
        while len(result) < copies:
            result.append(iterator.__copy__())
        return (*result,)
    iterator = iter(iterator)  # C asks twice
    link: list[Any] = []
    result = []
    while len(result) < copies:
        result.append(_tee_items(iterator, link))
    return (*result,)


@generator_of(type(itertools.tee(())[0]))
def _tee_items(iterator: Iterator[Any], link: list[Any]) -> Generator[Any, None, Any]:
    # A link is empty while nobody has read its item, then [item, next link].
    while True:
        if not link:
            try:
                item = next(iterator)
            except StopIteration as stop:
                return stop.value
            link.append(item)
            link.append([])
        item, link = link
        yield item


def _batches(iterable: Iterable[Any], n: Any, strict: bool) -> Iterator[Items]:
    size = as_size(n)
    if size < 1:
        raise ValueError("n must be at least one")
    return _batched_items(iter(iterable), size, strict)


def _batched_items(
    iterator: Iterator[Any], size: int, strict: bool
) -> Generator[Items, None, None]:
    while True:
        items: list[Any] = []
        while len(items) < size:
            try:
                item = next(iterator)
            except StopIteration:
                break
            items.append(item)
        if not items:
            return
        if strict and len(items) < size:
            raise ValueError("batched(): incomplete batch")
        yield (*items,)


def batched_312(iterable: Iterable[Any], n: Any) -> Iterator[Items]:
    """itertools.batched() of 3.12."""
    return _batches(iterable, n, False)


def batched_313(iterable: Iterable[Any], n: Any, *, strict: Any = False) -> Iterator[Items]:
    """itertools.batched() from 3.13."""
    return _batches(iterable, n, bool(strict))


def _register_batched(original: Any) -> None:
    generator_of(original)(_batched_items)
    try:
        original((), 1, strict=True)
    except TypeError:
        polyfill_of(original)(batched_312)
    else:
        polyfill_of(original)(batched_313)


if hasattr(itertools, "batched"):
    _register_batched(itertools.batched)
