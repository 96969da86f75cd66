/* Holds what the guard tree asks of dicts and types that differs between Python versions: version
 * tags and the real instance dict. Must not know guards.
 */
#ifndef CAPTURE_DICT_COMPAT_H
#define CAPTURE_DICT_COMPAT_H

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#if PY_VERSION_HEX >= 0x030D0000
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include <internal/pycore_dict.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_pystate.h>
#pragma GCC diagnostic pop
#endif

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "no rules for the dicts and types of this Python version"
#endif

/* A number that is never the same again once the dict was written to, or 0 if there is none.
 * It is unique over all dicts, so a new dict at an old address does not match either.
 * On 3.13 a write through an object's inline values leaves the tag alone: no number for those, but
 * they have slots, see below. */
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

/* Where that number lies. */
static inline const void *
dict_version_place(PyObject *dict)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return &((PyDictObject *)dict)->ma_version_tag;
#pragma GCC diagnostic pop
}

/* ---- slots: 3.13 ----------------------------------------------------------------------------
 *
 * The values of an instance lie in an array, in the order of keys that its class shares. Keys are
 * only ever added there, and their number changes when that happens. So the same number and the
 * same pointer in a slot say what a look-up of the slot's key would say, without one. */

/* A number for the keys of a dict with slots, unique over all keys there ever were; 0: no slots. */
static inline uint32_t
slot_keys_number(PyObject *dict)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyDictObject *self = (PyDictObject *)dict;
    if (self->ma_values == NULL) {
        return 0;
    }
    PyDictKeysObject *keys = self->ma_keys;
    if (keys->dk_version == 0) { /* as the specializing interpreter gives it out */
        struct _Py_dict_state *state = &_PyInterpreterState_GET()->dict_state;
        if (state->next_keys_version == 0) {
            return 0;
        }
        keys->dk_version = state->next_keys_version++;
    }
    return keys->dk_version;
#else
    (void)dict;
    return 0;
#endif
}

/* The slot of a key, which is a str, or -1. The dict has slots. */
static inline Py_ssize_t
slot_of_key(PyObject *dict, PyObject *key)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyDictKeysObject *keys = ((PyDictObject *)dict)->ma_keys;
    const PyDictUnicodeEntry *entries = DK_UNICODE_ENTRIES(keys);
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
        if (entries[i].me_key == key || PyUnicode_Compare(entries[i].me_key, key) == 0) {
            return i;
        }
    }
#else
    (void)dict;
    (void)key;
#endif
    return -1;
}

/* What a slot holds, borrowed, or NULL; the dict has slots. */
static inline PyObject *
slot_value(PyObject *dict, Py_ssize_t slot)
{
#if PY_VERSION_HEX >= 0x030D0000
    return ((PyDictObject *)dict)->ma_values->values[slot];
#else
    (void)dict;
    (void)slot;
    return NULL;
#endif
}

/* Where lie what says which keys and slots there are, the number of the keys, and a slot's value;
 * the dict has slots. */
static inline const void *
slot_values_place(PyObject *dict)
{
    return &((PyDictObject *)dict)->ma_values;
}

static inline const void *
slot_keys_place(PyObject *dict)
{
    return &((PyDictObject *)dict)->ma_keys;
}

static inline const void *
slot_keys_number_place(PyObject *dict)
{
#if PY_VERSION_HEX >= 0x030D0000
    return &((PyDictObject *)dict)->ma_keys->dk_version;
#else
    return dict; /* never asked: no dict has slots */
#endif
}

static inline const void *
slot_place(PyObject *dict, Py_ssize_t slot)
{
#if PY_VERSION_HEX >= 0x030D0000
    return &((PyDictObject *)dict)->ma_values->values[slot];
#else
    (void)slot;
    return dict;
#endif
}

/* Whether the dict has slots and its keys are still those of the number. */
static inline bool
slot_keys_are(PyObject *dict, uint32_t number)
{
#if PY_VERSION_HEX >= 0x030D0000
    const PyDictObject *self = (PyDictObject *)dict;
    return self->ma_values != NULL && self->ma_keys->dk_version == number;
#else
    (void)dict;
    (void)number;
    return false;
#endif
}

/* ---- types and instances -------------------------------------------------------------------- */

/* As `dict_version`, for what _PyType_Lookup finds on a type; 0 until a look-up assigned one. */
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
    if (place == NULL) {
        return NULL;
    }
    if (*place == NULL) { /* made on first use (an OrderedDict's, a function's) */
        *place = PyDict_New();
        if (*place == NULL) {
            PyErr_Clear();
        }
    }
    return *place;
}

#endif
