"""What all optimizers share: groups of parameters, state, and the step.

An optimizer is one small rule (see `rules.py`): which arrays it keeps for a parameter, which
numbers a step needs, and how one parameter is updated. It is written with plain operators, once,
and runs on NumPy arrays outside of `jit` and on traced values inside. Its state is made at once,
not at the first step, so that a compiled step finds it and updates it in place.

The parameters of an optimizer lie side by side in one block of memory as soon as a program shares
them; so do their gradients, and each kind of state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError, StructureError, explain
from ..jit import is_tracing
from ..tensor import Tensor, no_grad, operand, peek, replace, side_by_side
from .group import Group

# What a kept array is at first: a number everywhere, or an array made for a parameter, or none.
Start = float | Callable[[Tensor], np.ndarray | None]


class Optimizer:
    """The base of all optimizers.

    >>> import wengert as wg
    >>> from wengert import optim
    >>> w = wg.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = optim.SGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8, 1.6], dtype=float64, requires_grad=True)
    """

    # numbers among the options that turn a part of the rule off when they are zero
    switches: tuple[str, ...] = ("weight_decay",)
    # whether `step` decides by the loss, and so must be given a closure
    asks = False
    # options that compiled steps are made for: they cannot be changed
    fixed: tuple[str, ...] = ()

    def __init__(self, params: Iterable[Any], **defaults: Any):
        self.defaults = defaults
        self.param_groups: list[Group] = []
        # for each parameter, in the order of the groups, the arrays that the rule keeps
        self.state: list[dict[str, Tensor]] = []
        given = self._listed(params)
        groups = given if given and isinstance(given[0], Mapping) else [{"params": given}]
        if not given:
            raise StructureError(
                explain(
                    self._name,
                    "got no parameters",
                    "Give tensors with requires_grad=True: model.parameters().",
                )
            )
        for group in groups:
            self.add_param_group(group)

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _listed(self, params: Any) -> list[Any]:
        if isinstance(params, (Tensor, np.ndarray, Mapping)) or not isinstance(params, Iterable):
            raise DTypeError(
                explain(
                    self._name,
                    f"got {type(params).__name__} as parameters, expected several tensors or dicts",
                    "Give a list: [w], or model.parameters().",
                )
            )
        return list(params)

    # ------------------------------------------------------------ the rule

    def kept(self, group: Group) -> dict[str, Start]:
        """The arrays kept for each parameter, by name, and what they are at first."""
        return {}

    def counts(self, group: Group) -> bool:
        """Whether the rule needs to know how many steps there have been."""
        return False

    def numbers(self, group: Group, step: Any) -> dict[str, Any]:
        """What the update needs to know, in float64: numbers, or one for each element of `step`."""
        return {"lr": group.number("lr")}

    def update(self, p: Any, g: Any, kept: dict[str, Any], n: Any, group: Group) -> Any:
        """The new content of one parameter `p` with gradient `g`; replaces what is in `kept`.

        `n` has the numbers as attributes, in the parameter's precision.
        """
        raise NotImplementedError

    # ------------------------------------------------------------ steps

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; `closure` computes it and gives the loss."""
        loss = None if closure is None else closure()
        with no_grad():
            for group in self.param_groups:
                self._step(group)
        return loss

    def _step(self, group: Group) -> None:
        every = {place: p.grad for place, p in enumerate(group.params)}
        gradients = {place: grad for place, grad in every.items() if grad is not None}
        if not gradients:
            return
        present = list(gradients)
        numbers = self._numbers(group, present)
        decay = group.number("weight_decay") if self._adds_decay(group) else None
        maximize, names = group.on("maximize"), self.kept(group)
        states = self._states_of(group)
        for place, gradient in gradients.items():
            p, g = operand(group.params[place]), operand(gradient)
            real = group.params[place].dtype.type
            if maximize:
                g = -g
            if decay is not None:
                g = g + decay.astype(real) * p
            own = {name: states[place][name] for name in names if name in states[place]}
            kept = {name: operand(tensor) for name, tensor in own.items()}
            new = self.update(p, g, kept, _Numbers(numbers, place, real), group)
            replace(group.params[place], new)
            for name, tensor in own.items():
                replace(tensor, kept[name])

    def _numbers(self, group: Group, present: list[int]) -> dict[str, Any]:
        """Count the step for the parameters in these places; the numbers that it needs."""
        step = None
        if self.counts(group):
            step = operand(group.steps) + _marked(present, len(group.params))
            replace(group.steps, step)
            if len(present) < len(group.params):
                step = np.maximum(step, 1.0)  # formulas may have a pole at zero
        numbers = self.numbers(group, step)
        if is_tracing():
            for name, row in group.rows.items():
                replace(row, numbers[name])
                numbers[name] = row
        return numbers

    def _adds_decay(self, group: Group) -> bool:
        """Whether `weight_decay` is a part of the gradient."""
        return group.on("weight_decay")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or fill them with zeros."""
        for group in self.param_groups:
            for p in group.params:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad = np.zeros(p.shape, p.dtype)

    @property
    def lr(self) -> Any:
        """The learning rate of the first group; assigned to, that of all groups."""
        return self.param_groups[0]["lr"]

    @lr.setter
    def lr(self, value: Any) -> None:
        for group in self.param_groups:
            group["lr"] = value

    # ------------------------------------------------------------ groups and state

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add a group: a dict with "params" and the options that differ from the defaults."""
        options = {name: value for name, value in param_group.items() if name != "params"}
        unknown = set(options) - set(self.defaults)
        if "params" not in param_group or unknown:
            problem = f"got the option {min(unknown)!r}" if unknown else 'the group has no "params"'
            raise StructureError(
                explain(
                    f"{self._name}: add_param_group",
                    problem,
                    f'Give {{"params": [...]}} with any of {", ".join(self.defaults)}.',
                )
            )
        params = param_group["params"]
        params = [params] if isinstance(params, Tensor) else self._listed(params)
        self._check(params)
        group = Group(self._name, params, {**self.defaults, **options}, self.switches, self.fixed)
        self.param_groups.append(group)
        self.state += [{} for _ in params]
        side_by_side(params)
        self._complete()
        group.watch(self._complete)

    def _check(self, params: list[Any]) -> None:
        known = {id(p) for group in self.param_groups for p in group.params}
        for number, p in enumerate(params):
            problem = ""
            if not isinstance(p, Tensor):
                problem = f"is {type(p).__name__}, expected a tensor"
            elif not (p.is_leaf and p.requires_grad):
                problem = "is not a leaf that requires a gradient"
            elif p.dtype.kind != "f":
                problem = f"is of {p.dtype}, expected a real dtype"
            elif id(p) in known:
                problem = "is there twice"
            if problem:
                raise DTypeError(
                    explain(
                        self._name,
                        f"parameter {number} {problem}",
                        "Give each of the tensors made with requires_grad=True once.",
                    )
                )
            known.add(id(p))

    def turn(self, switches: Sequence[Mapping[str, bool]]) -> None:
        """Turn options of each group on and off, as `Group.switches` has noted them."""
        for group, turned_on in zip(self.param_groups, switches, strict=True):
            group.turn(turned_on)
        self._complete()

    def _complete(self) -> None:
        """Make the state that the rule keeps now and did not keep before."""
        states = iter(self.state)
        for group in self.param_groups:
            own = [next(states) for _ in group.params]
            self._make_rows(group)
            for name, value in self.kept(group).items():
                made = []
                for p, state in zip(group.params, own, strict=True):
                    start = None if name in state else _started(value, p)
                    if start is not None:
                        state[name] = Tensor(start)
                        made.append(state[name])
                side_by_side(made)

    def _make_rows(self, group: Group) -> None:
        """Memory for the numbers that each parameter has one of.

        What a program stores it computes once, for all parameters together; it would compute what
        it need not store in each parameter's loops, with the code for a power in all of them.
        """
        step = np.ones(len(group.params)) if self.counts(group) else None
        numbers = self.numbers(group, step)
        group.rows = {
            name: group.rows.get(name, Tensor(np.array(value)))
            for name, value in numbers.items()
            if value.ndim
        }

    def state_dict(self) -> dict[str, Any]:
        """State and options as arrays and numbers, in PyTorch's arrangement."""
        state: dict[int, dict[str, Any]] = {}
        groups = []
        for group in self.param_groups:
            places = range(len(state), len(state) + len(group.params))
            for place, step in zip(places, peek(group.steps), strict=True):
                state[place] = {"step": float(step)} if self.counts(group) else {}
                kept = self.state[place]
                state[place].update({name: np.array(peek(kept[name])) for name in kept})
            groups.append({**group, "params": list(places)})
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over state and options from `state_dict`, of wengert or of PyTorch."""
        loaded = state_dict["param_groups"]
        own = [len(group.params) for group in self.param_groups]
        if [len(group["params"]) for group in loaded] != own:
            raise StructureError(
                explain(
                    f"{self._name}: load_state_dict",
                    f"got groups of {[len(group['params']) for group in loaded]} parameters, "
                    f"expected {own}",
                    "Make the optimizer with the same groups as the one that was saved.",
                )
            )
        entries = [[_entry(state_dict["state"], key) for key in one["params"]] for one in loaded]
        for group, own_entries in zip(self.param_groups, entries, strict=True):
            self._check_entries(group, own_entries)
        for group, options, own_entries in zip(self.param_groups, loaded, entries, strict=True):
            for name, value in options.items():
                if name != "params":
                    group[name] = value
            self._load_group(group, own_entries)

    def _check_entries(self, group: Group, entries: list[Mapping[str, Any]]) -> None:
        """Refuse state of another model before anything is changed."""
        rows = zip(group.params, self._states_of(group), entries, strict=True)
        for number, (p, state, entry) in enumerate(rows):
            for name, value in entry.items():
                expected = state[name].shape if name in state else p.shape
                if name != "step" and tuple(value.shape) != expected:
                    raise ShapeError(
                        explain(
                            f"{self._name}: load_state_dict",
                            f"{name} of parameter {number} has shape {tuple(value.shape)}, "
                            f"expected {expected}",
                            "Load the state of an optimizer of the same model.",
                        )
                    )

    def _load_group(self, group: Group, entries: list[Mapping[str, Any]]) -> None:
        kept = self.kept(group)
        for p, state, entry in zip(group.params, self._states_of(group), entries, strict=True):
            for name, value in kept.items():
                if name in state:
                    new = entry.get(name)
                    state[name][...] = _started(value, p) if new is None else array_of(new, p.dtype)
        # where steps are not counted there, an entry means that there was one
        group.steps[...] = np.array([float(one.get("step", bool(one))) for one in entries])

    def _states_of(self, group: Group) -> list[dict[str, Tensor]]:
        first = 0
        for one in self.param_groups:
            if one is group:
                break
            first += len(one.params)
        return self.state[first : first + len(group.params)]

    def __repr__(self) -> str:
        lines = [f"{self._name}("]
        for number, group in enumerate(self.param_groups):
            count = sum(p.size for p in group.params)
            options = ", ".join(f"{k}={v!r}" for k, v in group.items() if k != "params")
            lines.append(
                f"  group {number}: {len(group.params)} tensors, {count} numbers; {options}"
            )
        return "\n".join([*lines, ")"])


class _Numbers:
    """The numbers of one step for one parameter, in its precision."""

    def __init__(self, numbers: dict[str, Any], place: int, real: Any):
        for name, value in numbers.items():
            value = value[place] if value.ndim else value
            setattr(self, name, value.astype(real))


def _started(value: Start, p: Tensor) -> np.ndarray | None:
    return value(p) if callable(value) else np.full(p.shape, value, p.dtype)


def _entry(state: Mapping[str, Any], key: Any) -> Mapping[str, Any]:
    found = state.get(key, state.get(str(key), {}))  # files know keys as text
    return {name: value for name, value in found.items() if value is not None}


def array_of(value: Any, dtype: Any) -> np.ndarray:
    """A copy of an array, or of a tensor of wengert or PyTorch."""
    return np.array(value.numpy() if hasattr(value, "numpy") else value, dtype)


def _marked(present: list[int], count: int) -> np.ndarray:
    marks = np.zeros(count)
    marks[present] = 1.0
    return marks
