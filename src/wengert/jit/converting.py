"""How the control flow of users' functions becomes operations under `jit` and `vmap`."""

from __future__ import annotations

from typing import Any

from ..trace import preparing


def _convert(function: Any) -> Any:
    from ..control import called  # needed where something is traced

    return called(function)


def _why_not(code: Any) -> str:
    from ..control import reason

    return reason(code)


CONVERTER = preparing.CONVERTER = _convert, _why_not  # `vmap` comes before this part
