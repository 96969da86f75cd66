"""Holds a run of a graph so far on fake tensors under autograd: what ``autograd.grad`` would give.

Metadata of single calls is propagated without their history, so a call that differentiates needs
the whole graph in front of it once. It goes on from where it was when it is asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx

from capture.graph import fake
from capture.graph.links import Links
from capture.graph.recording import Recording
from capture.graph.state import TorchState, applied, snapshot
from capture.graph.tensor_meta import CannotPropagate, TensorMeta
from capture.graph.values import TensorValue

__all__ = ["Shadow"]


class Shadow:
    """The run of one graph.

    Args:
        graph: the FX graph, which may grow.
        state: torch's state at its start.
    """

    def __init__(self, graph: fx.Graph, state: TorchState) -> None:
        self.graph = graph
        self.state = state._replace(autocast_cache=False)
        self.env: dict[fx.Node, Any] = {}
        self.done: set[fx.Node] = set()

    def catch_up(self, numbers: dict[fx.Node, Any]) -> None:
        """Run the nodes that are new.

        Args:
            numbers: the values of those placeholders that are Python numbers.

        Raises:
            CannotPropagate: if that cannot be done on fake tensors.
        """
        try:
            with applied(self.state), fake.running(Recording()):
                for node in self.graph.nodes:
                    if node not in self.done:
                        self.done.add(node)
                        if not _is_unforetold(node, numbers):
                            self.env[node] = self._run(node, numbers)
                self.state = snapshot()._replace(autocast_cache=False)
        except CannotPropagate:
            raise
        except Exception as error:
            raise CannotPropagate(f"it cannot be foretold: {_first_line(error)}") from None

    def _run(self, node: fx.Node, numbers: dict[fx.Node, Any]) -> Any:
        if node.op == "placeholder":
            if node in numbers:
                return numbers[node]
            return fake.make_fake(node.meta["capture_meta"])
        args = fx.map_arg(node.args, self._of)
        kwargs = fx.map_arg(node.kwargs, self._of)
        target: Any = node.target
        if not getattr(target, "capture_traceable", True):
            raise CannotPropagate("it runs through code of the program")
        if node.op == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        return target(*args, **kwargs)

    def _of(self, node: fx.Node) -> Any:
        if node not in self.env:
            raise CannotPropagate("an input is no plain tensor of known sizes")
        return self.env[node]

    def gradients(
        self,
        outputs: Sequence[fx.Node],
        inputs: Sequence[fx.Node],
        grad_outputs: Sequence[fx.Node | None],
        **options: Any,
    ) -> list[torch.Tensor | None]:
        """Call ``torch.autograd.grad``; the graph of the run is freed as the real one will be.

        Raises:
            CannotPropagate: if it raises.
        """
        env = self.env
        try:
            with applied(self.state), fake.running(Recording()):
                return list(
                    torch.autograd.grad(
                        [env[node] for node in outputs],
                        [env[node] for node in inputs],
                        [None if node is None else env[node] for node in grad_outputs],
                        allow_unused=True,
                        **options,
                    )
                )
        except Exception as error:
            raise CannotPropagate(_first_line(error)) from None

    def arrivals(
        self,
        outputs: Sequence[fx.Node],
        leaves: Sequence[fx.Node],
        grad_outputs: Sequence[fx.Node | None],
    ) -> list[int]:
        """Return the places of the leaves in the order in which gradients reach them.

        Raises:
            CannotPropagate: if that cannot be told, or one gets none.
        """
        order: list[int] = []
        handles = [
            self._of(leaf).register_hook(lambda _, place=place: order.append(place))
            for place, leaf in enumerate(leaves)
        ]
        try:
            self.gradients(outputs, leaves, grad_outputs, retain_graph=True)
        finally:
            for handle in handles:
                handle.remove()
        if sorted(order) != list(range(len(leaves))):
            raise CannotPropagate("a leaf gets no gradient")
        return order

    def set(self, node: fx.Node, result: Any) -> None:
        """Note the result of a node that was not run here."""
        self.done.add(node)
        self.env[node] = result

    def leaves_of(
        self, tensor: torch.Tensor, values: Iterable[TensorValue]
    ) -> tuple[list[TensorValue], bool]:
        """Return the values whose tensors are leaves behind ``tensor``; whether that is all."""
        known = [v for v in values if isinstance(self.env.get(v.node), torch.Tensor)]
        links = Links([self.env[v.node] for v in known])
        links.inner = {}  # only leaves end the walk
        places = links.of(tensor)
        return [known[n] for n in places if n >= 0], all(n >= 0 for n in places)


def _is_unforetold(node: fx.Node, numbers: dict[fx.Node, Any]) -> bool:
    """True for an input that has no fake tensor: what uses it cannot be run."""
    if node.op != "placeholder" or node in numbers:
        return False
    meta: TensorMeta = node.meta["capture_meta"]
    return meta.is_symbolic or not meta.is_plain


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
