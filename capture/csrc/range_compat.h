/* Holds the layout of iterators of ranges, which differs between Python versions (CPython:
 * Objects/rangeobject.c). Must not know guards.
 */
#ifndef CAPTURE_RANGE_COMPAT_H
#define CAPTURE_RANGE_COMPAT_H

#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "no rules for the iterators of ranges of this Python version"
#endif

/* Up to 3.11 an iterator keeps its range and a position, from 3.12 on what is left of the range. */
typedef struct {
    PyObject_HEAD
#if PY_VERSION_HEX < 0x030C0000
    long index;
#endif
    long start;
    long step;
    long len;
} RangeIterator;

typedef struct {
    long next; /* the number that comes next, if one does */
    long step;
    long left; /* how many are still to come */
} RangePosition;

/* Borrows an iterator of the type PyRangeIter_Type. */
static inline void
range_position(PyObject *iterator, RangePosition *at)
{
    RangeIterator *it = (RangeIterator *)iterator;
#if PY_VERSION_HEX < 0x030C0000
    /* as unsigned numbers, for behind the last one there may be none */
    at->next = (long)((unsigned long)it->start + (unsigned long)it->index * (unsigned long)it->step);
    at->left = it->len - it->index;
#else
    at->next = it->start;
    at->left = it->len;
#endif
    at->step = it->step;
}

#endif
