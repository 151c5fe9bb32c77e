"""What a program is: Constant, Variable, Operator nodes; building, verifying, printing, drawing."""

from typing import TYPE_CHECKING, Any

from .graph import Graph
from .nodes import Constant, Node, Operator, Variable, reachable

if TYPE_CHECKING:
    from .rules import verify

__all__ = ["Constant", "Graph", "Node", "Operator", "Variable", "reachable", "verify"]


def __getattr__(name: str) -> Any:
    if name != "verify":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return import_module(".rules", __name__).verify
