/* Holds the evaluation of integer conditions over tensor sizes and numbers; must not know torch. */
#ifndef CAPTURE_SHAPE_GUARDS_H
#define CAPTURE_SHAPE_GUARDS_H

#include <Python.h>
#include <stdbool.h>

typedef struct ShapeProgram ShapeProgram;

/* New, or NULL with an exception. spec = (variables, code, fallback) as guards/size_program.py makes
 * it: a variable is (slot, kind, dim), the code a tuple of ints. The fallback, called with the
 * variables' values, decides what int64 cannot; it is borrowed for as long as the program lives. */
ShapeProgram *shape_program_new(PyObject *spec, Py_ssize_t n_slots, PyObject **fallback);
void shape_program_free(ShapeProgram *program);

/* Whether all conditions hold of the slots' values. Never leaves an exception set. */
bool shape_program_holds(const ShapeProgram *program, PyObject *const *slots);

/* Size or stride `dim` of a tensor as a new int, or NULL; may leave an exception set. */
PyObject *tensor_dim(PyObject *tensor, Py_ssize_t dim, bool stride);

#endif
