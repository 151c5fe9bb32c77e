"""What a program is: Constant, Variable, Operator nodes; building, verifying, printing, drawing."""

from .graph import Graph
from .nodes import Constant, Node, Operator, Variable, reachable
from .verify import verify

__all__ = ["Constant", "Graph", "Node", "Operator", "Variable", "reachable", "verify"]
