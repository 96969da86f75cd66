/* Holds the reading of torch's global and thread-local state; must not know the guard tree. */
#ifndef CAPTURE_GLOBAL_STATE_H
#define CAPTURE_GLOBAL_STATE_H

#include <Python.h>
#include <stdbool.h>

extern PyTypeObject *GlobalStateSnapshot_Type;

/* Whether the state of this thread is the snapshot's. Borrows. Never leaves an exception set. */
bool global_state_holds(PyObject *snapshot);

int global_state_register(PyObject *module);

#endif
