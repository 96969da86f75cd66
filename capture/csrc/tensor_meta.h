/* Holds the reading of tensor metadata without torch headers; must not know the guard tree. */
#ifndef CAPTURE_TENSOR_META_H
#define CAPTURE_TENSOR_META_H

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* What a tensor must look like. Made by tensor_facts_new, freed by tensor_facts_free. */
typedef struct {
    PyTypeObject *cls;  /* borrowed: the guard tree watches it */
    uint64_t keys;      /* dispatch key set */
    int32_t dtype;
    int32_t device_type;  /* -1: implied by the key set */
    int32_t device_index;
    int32_t ndim;
    int8_t requires_grad;
    int8_t is_leaf;     /* -1: any */
    bool native;        /* read by torch's C functions; else ask `slow` */
    bool contiguous;    /* demand row-major strides of whatever sizes come */
    bool any_stride;    /* demand nothing of strides */
    bool exact;         /* no size or stride is -1 */
    PyObject *slow;     /* strong: callable(tensor) -> bool */
    int64_t dims[];     /* ndim sizes, then ndim strides; -1: any */
} TensorFacts;

/* New, or NULL with an exception. `spec` is the tuple that lower.py makes. */
TensorFacts *tensor_facts_new(PyObject *spec);
void tensor_facts_free(TensorFacts *facts);

/* Whether the value is such a tensor. Never leaves an exception set. Borrows. */
bool tensor_facts_hold(const TensorFacts *facts, PyObject *value);

/* Show `see` each aligned word that the answer `tensor_facts_hold` gave for this very value rests on;
 * false if there is more to it than words, or if `see` says so. */
bool tensor_witness(const TensorFacts *facts, PyObject *value,
                    bool (*see)(void *context, const void *place), void *context);
/* The sizes and strides, in torch's memory; false where they cannot be read. Borrows. */
bool tensor_dims(PyObject *tensor, int64_t *ndim, int64_t **sizes, int64_t **strides);

/* The storage's address, or NULL where it cannot be read. Borrows. */
void *tensor_storage(PyObject *tensor);

int tensor_meta_register(PyObject *module);

#endif
