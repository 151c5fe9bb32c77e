from .flatten import flatten
from .tracers import const_graph, full_graph
