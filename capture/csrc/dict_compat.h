/* Holds what the guard tree asks of dicts and types that differs between Python versions: version
 * tags and the real instance dict. Must not know guards.
 */
#ifndef CAPTURE_DICT_COMPAT_H
#define CAPTURE_DICT_COMPAT_H

#include <Python.h>
#include <stdint.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "no rules for the dicts and types of this Python version"
#endif

/* A number that is never the same again once the dict was written to, or 0 if there is none.
 * It is unique over all dicts, so a new dict at an old address does not match either.
 * On 3.13 a write through an object's inline values leaves the tag alone: no number for those. */
static inline uint64_t
dict_version(PyObject *dict)
{
#if PY_VERSION_HEX >= 0x030D0000
    if (((PyDictObject *)dict)->ma_values != NULL) {
        return 0;
    }
#endif
#if PY_VERSION_HEX >= 0x030C0000
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return ((PyDictObject *)dict)->ma_version_tag;
#pragma GCC diagnostic pop
#else
    return ((PyDictObject *)dict)->ma_version_tag;
#endif
}

/* The same for what _PyType_Lookup finds on a type; 0 until a look-up has assigned one. */
static inline uint64_t
type_version(PyTypeObject *type)
{
#if PY_VERSION_HEX < 0x030D0000
    if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) {
        return 0;
    }
#endif
    return type->tp_version_tag;
}

/* Borrows; the instance's own __dict__, made from inline values if need be, or NULL. Never raises.
 * Type objects are refused: what they keep is no dict of theirs to hand out. */
static inline PyObject *
instance_dict(PyObject *object)
{
    if (PyType_Check(object)) {
        return NULL;
    }
    PyObject **place = _PyObject_GetDictPtr(object);
    return place == NULL ? NULL : *place;
}

#endif
