"""The method of an instance, found natively: what `Jitted.__get__` is once a method was compiled.

`instance.method` finds the programs of that instance and binds them to it, before every call. In
Python that takes longer than the call itself; here it is one look into the dictionary `_methods`,
by the instance's identity. What is not in there goes to the function in Python.

    ptr bind_method(ptr face, ptr args, i64 nargs)    a METH_FASTCALL method: (instance, owner=None)

The name of the dictionary and the function in Python are symbols, with the addresses of these
objects: code in the cache holds no address.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

from ..runtime.builtin import c_api_addresses, method_descriptor
from ..runtime.layout import native_layout
from .cache import shared_cache
from .compile import compile_here
from .target import Target

BIND = "bind_method"

_TEXT = """
target triple = "{triple}"

@attribute = external global i8
@otherwise = external global i8
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyLong_FromVoidPtr(ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare ptr @PyMethod_New(ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)

define ptr @{name}(ptr %face, ptr %args, i64 %nargs) {{
start:
  %given = alloca [4 x ptr]
  %spare = sub i64 %nargs, 1
  %some = icmp ult i64 %spare, 2
  br i1 %some, label %methods, label %python
methods:
  %instance = load ptr, ptr %args
  %all = call ptr @PyObject_GetAttr(ptr %face, ptr @attribute)
  %none = icmp eq ptr %all, null
  br i1 %none, label %error, label %look
look:
  %key = call ptr @PyLong_FromVoidPtr(ptr %instance)
  %no.key = icmp eq ptr %key, null
  br i1 %no.key, label %drop, label %find
find:
  %method = call ptr @PyDict_GetItemWithError(ptr %all, ptr %key)
  call void @Py_DecRef(ptr %key)
  %missing = icmp eq ptr %method, null
  br i1 %missing, label %absent, label %bind
bind:
  ; making the bound method may collect garbage, and what that runs may forget this method
  call void @Py_IncRef(ptr %method)
  %bound = call ptr @PyMethod_New(ptr %method, ptr %instance)
  call void @Py_DecRef(ptr %method)
  call void @Py_DecRef(ptr %all)
  ret ptr %bound
absent:
  call void @Py_DecRef(ptr %all)
  br label %python
python:
  ; with this object before them; one too many is enough for Python to refuse it
  store ptr %face, ptr %given
  %few = icmp ult i64 %nargs, 3
  %count = select i1 %few, i64 %nargs, i64 3
  br label %next
next:
  %number = phi i64 [0, %python], [%after, %copy]
  %after = add i64 %number, 1
  %more = icmp ult i64 %number, %count
  br i1 %more, label %copy, label %call
copy:
  %from = getelementptr ptr, ptr %args, i64 %number
  %one = load ptr, ptr %from
  %to = getelementptr ptr, ptr %given, i64 %after
  store ptr %one, ptr %to
  br label %next
call:
  %found = call ptr @PyObject_Vectorcall(ptr @otherwise, ptr %given, i64 %after, ptr null)
  ret ptr %found
drop:
  call void @Py_DecRef(ptr %all)
  br label %error
error:
  ret ptr null
}}
"""


@functools.cache
def native_binding(kind: type, attribute: str, otherwise: Callable[..., Any]) -> Any:
    """A method of `kind` that binds what its dictionary `attribute` has for an instance.

    Anything else is for `otherwise`. None where there are no native entries.
    """
    if native_layout() is None:
        return None
    name = sys.intern(attribute)
    symbols = c_api_addresses() | {"attribute": id(name), "otherwise": id(otherwise)}
    code = compile_here(_binding_ir, cache=shared_cache(), symbols=symbols)
    for one in (code, name, otherwise):  # the class may be asked to the very end
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
    return method_descriptor(kind, "__get__", code.address(BIND))


def _binding_ir(target: Target) -> str:
    return _TEXT.format(triple=target.triple, name=BIND)
