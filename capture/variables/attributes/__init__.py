"""Holds attribute look-up and assignment in CPython's order; must not know the interpreter.

Importing the package fills the table of kinds with a look-up of their own.
"""

from __future__ import annotations

from capture.variables.attributes.classes import super_getattr
from capture.variables.attributes.instance_dict import InstanceDictVariable
from capture.variables.attributes.kinds import default_factory
from capture.variables.attributes.lookup import (
    bind,
    is_data_descriptor,
    load_attr,
    load_special,
    object_getattr,
    pin,
    register_getattr,
    type_of,
    type_source_of,
)
from capture.variables.attributes.stores import (
    delete_attr,
    has_instance_dict,
    object_setattr,
    store_attr,
)

__all__ = [
    "InstanceDictVariable",
    "bind",
    "default_factory",
    "delete_attr",
    "has_instance_dict",
    "is_data_descriptor",
    "load_attr",
    "load_special",
    "object_getattr",
    "object_setattr",
    "pin",
    "register_getattr",
    "store_attr",
    "super_getattr",
    "type_of",
    "type_source_of",
]
