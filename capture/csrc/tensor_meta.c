/* Reads tensor metadata through torch's stable C functions and a few offsets found by a self-test.
 *
 * Nothing here is used before `tensor_setup` was called with samples and found that every reading
 * agrees with what Python says of them; what does not agree is switched off, and the callers'
 * Python check takes its place. Must not know the guard tree.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tensor_meta.h"

#include <dlfcn.h>
#include <string.h>

#ifdef __APPLE__
#include <malloc/malloc.h>
#define malloc_usable_size malloc_size
#else
#include <malloc.h>
#endif

typedef int32_t (*Get32)(void *handle, int32_t *result);
typedef int32_t (*Get64)(void *handle, int64_t *result);
typedef int32_t (*GetDims)(void *handle, int64_t **result);

static struct {
    bool ready;           /* key set, sizes, strides and dtype can be read */
    bool grad_ready;      /* requires_grad and is_leaf can be read from the autograd record */
    bool storage_ready;
    bool words_ready;     /* the offsets of number of dimensions and dtype are known */
    Py_ssize_t impl;      /* offset of the TensorImpl pointer in the Python object */
    Py_ssize_t keys;      /* offsets within TensorImpl */
    Py_ssize_t autograd;
    Py_ssize_t storage;
    Py_ssize_t ndim;
    Py_ssize_t dtype_code;
    Py_ssize_t grad_flag; /* offsets within the autograd record */
    Py_ssize_t grad_fn;
    void *plain_record;   /* vtable of a record that is no view's */
    getter requires_grad; /* the C getter of torch._C.TensorBase.requires_grad */
    void *requires_grad_closure;
    getter is_leaf;
    void *is_leaf_closure;
    PyTypeObject *base;   /* strong: torch._C.TensorBase */
    Get64 dim;
    GetDims sizes, strides;
    Get32 dtype, device_type, device_index;
} reader;

static inline void *
word_at(const void *base, Py_ssize_t offset)
{
    void *word;
    memcpy(&word, (const char *)base + offset, sizeof(word));
    return word;
}

static inline void *
impl_of(PyObject *tensor)
{
    return word_at(tensor, reader.impl);
}

/* ---- requires_grad and is_leaf -------------------------------------------------------------- */

/* 1, 0, or -1 on failure, with no exception left. */
static int
ask_getter(getter get, void *closure, PyObject *tensor)
{
    PyObject *result = get == NULL ? NULL : get(tensor, closure);
    if (result == NULL) {
        PyErr_Clear();
        return -1;
    }
    int truth = result == Py_True;
    Py_DECREF(result);
    return truth;
}

static inline int
requires_grad_of(PyObject *tensor, const char *impl)
{
    if (reader.grad_ready) {
        const char *record = word_at(impl, reader.autograd);
        if (record == NULL) {
            return 0;
        }
        if (record[reader.grad_flag] || word_at(record, reader.grad_fn) != NULL) {
            return 1;
        }
        /* a view may owe its flag to its base: ask torch */
        if (word_at(record, 0) == reader.plain_record) {
            return 0;
        }
    }
    return ask_getter(reader.requires_grad, reader.requires_grad_closure, tensor);
}

static inline int
is_leaf_of(PyObject *tensor, const char *impl)
{
    if (reader.grad_ready) {
        const char *record = word_at(impl, reader.autograd);
        if (record == NULL) {
            return 1;
        }
        if (word_at(record, 0) == reader.plain_record) {
            return word_at(record, reader.grad_fn) == NULL;
        }
    }
    return ask_getter(reader.is_leaf, reader.is_leaf_closure, tensor);
}

/* ---- facts ---------------------------------------------------------------------------------- */

TensorFacts *
tensor_facts_new(PyObject *spec)
{
    PyObject *cls, *shape, *strides, *slow;
    unsigned long long keys;
    int dtype, device_type, device_index, requires_grad, is_leaf, native, contiguous;
    if (!PyTuple_Check(spec)) {
        PyErr_SetString(PyExc_TypeError, "a tensor's facts are a tuple");
        return NULL;
    }
    if (!PyArg_ParseTuple(spec, "O!KiiiO!OiippO:tensor facts", &PyType_Type, &cls, &keys, &dtype,
                          &device_type, &device_index, &PyTuple_Type, &shape, &strides,
                          &requires_grad, &is_leaf, &native, &contiguous, &slow)) {
        return NULL;
    }
    Py_ssize_t ndim = PyTuple_GET_SIZE(shape);
    if (strides != Py_None && (!PyTuple_Check(strides) || PyTuple_GET_SIZE(strides) != ndim)) {
        PyErr_SetString(PyExc_ValueError, "as many strides as sizes are wanted");
        return NULL;
    }
    TensorFacts *facts = PyMem_Calloc(1, sizeof(TensorFacts) + 2 * (size_t)ndim * sizeof(int64_t));
    if (facts == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    facts->cls = (PyTypeObject *)cls;
    facts->keys = keys;
    facts->dtype = dtype;
    facts->device_type = device_type;
    facts->device_index = device_index;
    facts->ndim = (int32_t)ndim;
    facts->requires_grad = (int8_t)requires_grad;
    facts->is_leaf = (int8_t)is_leaf;
    facts->native = native && reader.ready;
    facts->contiguous = contiguous;
    facts->any_stride = strides == Py_None;
    facts->exact = true;
    for (Py_ssize_t i = 0; i < 2 * ndim; i++) {
        int64_t dim = -1;
        if (i < ndim || !facts->any_stride) {
            dim = PyLong_AsLongLong(PyTuple_GET_ITEM(i < ndim ? shape : strides, i % ndim));
            if (dim == -1 && PyErr_Occurred()) {
                PyMem_Free(facts);
                return NULL;
            }
        }
        facts->dims[i] = dim;
        facts->exact = facts->exact && dim >= 0;
    }
    facts->slow = Py_NewRef(slow);
    return facts;
}

void
tensor_facts_free(TensorFacts *facts)
{
    if (facts != NULL) {
        Py_CLEAR(facts->slow);
        PyMem_Free(facts);
    }
}

static bool
dims_hold(const TensorFacts *facts, const int64_t *sizes, const int64_t *strides)
{
    Py_ssize_t n = facts->ndim;
    const int64_t *wanted = facts->dims;
    if (facts->exact) {
        for (Py_ssize_t i = 0; i < n; i++) {
            if (sizes[i] != wanted[i] || strides[i] != wanted[n + i]) {
                return false;
            }
        }
        return true;
    }
    int64_t row_major = 1;
    for (Py_ssize_t i = n - 1; i >= 0; i--) {
        if (wanted[i] >= 0 && sizes[i] != wanted[i]) {
            return false;
        }
        if (wanted[n + i] >= 0 && strides[i] != wanted[n + i]) {
            return false;
        }
        if (facts->contiguous) {
            if (strides[i] != row_major) {
                return false;
            }
            row_major *= sizes[i] > 1 ? sizes[i] : 1;
        }
    }
    return true;
}

static bool
ask_python(const TensorFacts *facts, PyObject *value)
{
    PyObject *answer = PyObject_CallOneArg(facts->slow, value);
    bool holds = answer == Py_True;
    Py_XDECREF(answer);
    PyErr_Clear();
    return holds;
}

bool
tensor_facts_hold(const TensorFacts *facts, PyObject *value)
{
    if (Py_TYPE(value) != facts->cls) {
        return false;
    }
    if (!facts->native) {
        return ask_python(facts, value);
    }
    char *impl = impl_of(value);
    if (impl == NULL || *(const uint64_t *)(impl + reader.keys) != facts->keys) {
        return false;
    }
    /* the key set is a plain strided tensor's, so torch's answers are the fields themselves */
    void *handle = (char *)value + reader.impl;
    int64_t ndim = -1, *sizes = NULL, *strides = NULL;
    int32_t dtype = -1;
    if (reader.dim(handle, &ndim) || ndim != facts->ndim || reader.dtype(handle, &dtype) ||
        dtype != facts->dtype || reader.sizes(handle, &sizes) ||
        reader.strides(handle, &strides) || !dims_hold(facts, sizes, strides)) {
        return false;
    }
    if (facts->device_type >= 0) {
        int32_t type = -1, index = -2;
        if (reader.device_type(handle, &type) || type != facts->device_type ||
            reader.device_index(handle, &index) || index != facts->device_index) {
            return false;
        }
    }
    if (requires_grad_of(value, impl) != facts->requires_grad) {
        return false;
    }
    return facts->is_leaf < 0 || is_leaf_of(value, impl) == facts->is_leaf;
}

/* Sizes and strides, of which there are that many, where they lie within the TensorImpl itself. */
static bool
dims_witness(const TensorFacts *facts, const char *impl, const int64_t *dims, bool sizes,
             bool (*see)(void *context, const void *place), void *context)
{
    const int64_t *wanted = facts->dims + (sizes ? 0 : facts->ndim);
    size_t size = malloc_usable_size((void *)(uintptr_t)impl);
    if ((const char *)dims < impl || (const char *)(dims + facts->ndim) > impl + size) {
        return false; /* kept elsewhere, and moved when their number changes */
    }
    for (int32_t i = 0; i < facts->ndim; i++) {
        if ((wanted[i] >= 0 || facts->contiguous) && !see(context, &dims[i])) {
            return false;
        }
    }
    return true;
}

static bool
autograd_witness(const char *impl, bool (*see)(void *context, const void *place), void *context)
{
    const char *record = word_at(impl, reader.autograd);
    if (!see(context, impl + reader.autograd)) {
        return false;
    }
    if (record == NULL) {
        return true;
    }
    /* a view may owe its flag to its base: that is asked of torch each time */
    return word_at(record, 0) == reader.plain_record && see(context, record) &&
           see(context, record + reader.grad_flag) && see(context, record + reader.grad_fn);
}

bool
tensor_witness(const TensorFacts *facts, PyObject *value,
               bool (*see)(void *context, const void *place), void *context)
{
    if (!facts->native || !reader.words_ready || facts->device_type >= 0) {
        return false;
    }
    const char *impl = impl_of(value);
    void *handle = (char *)value + reader.impl;
    int64_t *sizes = NULL, *strides = NULL;
    if (reader.sizes(handle, &sizes) || reader.strides(handle, &strides)) {
        return false;
    }
    return see(context, &value->ob_type) && see(context, handle) &&
           see(context, impl + reader.keys) && see(context, impl + reader.dtype_code) &&
           see(context, impl + reader.ndim) &&
           dims_witness(facts, impl, sizes, true, see, context) &&
           dims_witness(facts, impl, strides, false, see, context) &&
           autograd_witness(impl, see, context);
}

bool
tensor_dims(PyObject *tensor, int64_t *ndim, int64_t **sizes, int64_t **strides)
{
    if (!reader.ready || !PyObject_TypeCheck(tensor, reader.base) || impl_of(tensor) == NULL) {
        return false;
    }
    void *handle = (char *)tensor + reader.impl;
    return !reader.dim(handle, ndim) && !reader.sizes(handle, sizes) &&
           !reader.strides(handle, strides);
}

void *
tensor_storage(PyObject *tensor)
{
    if (!reader.storage_ready || !PyObject_TypeCheck(tensor, reader.base)) {
        return NULL;
    }
    void *impl = impl_of(tensor);
    return impl == NULL ? NULL : word_at(impl, reader.storage);
}

/* ---- self-test ------------------------------------------------------------------------------ */

/* How many words of the tensor's TensorImpl may be looked at: what its allocation holds. */
static Py_ssize_t
impl_words(PyObject *tensor)
{
    size_t words = malloc_usable_size(impl_of(tensor)) / 8;
    return words > 64 ? 64 : (Py_ssize_t)words;
}

/* The fewest over column 0 of the rows. */
static Py_ssize_t
common_words(PyObject *rows)
{
    Py_ssize_t fewest = 64;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows); i++) {
        Py_ssize_t words = impl_words(PyTuple_GET_ITEM(PyList_GET_ITEM(rows, i), 0));
        fewest = words < fewest ? words : fewest;
    }
    return fewest;
}

/* An attribute as an address-sized number; 0 with an exception on failure. */
static uintptr_t
number_attr(PyObject *object, const char *name)
{
    PyObject *value = PyObject_GetAttrString(object, name);
    uintptr_t number = value == NULL ? 0 : (uintptr_t)PyLong_AsUnsignedLongLongMask(value);
    Py_XDECREF(value);
    return number;
}

static bool
find_impl(PyObject *samples)
{
    for (Py_ssize_t offset = sizeof(PyObject); offset <= (Py_ssize_t)sizeof(PyObject) + 8;
         offset += 8) {
        bool fits = true;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(samples) && fits; i++) {
            PyObject *tensor = PyTuple_GET_ITEM(PyList_GET_ITEM(samples, i), 0);
            uintptr_t expected = number_attr(tensor, "_cdata");
            if (PyErr_Occurred()) {
                return false;
            }
            fits = expected != 0 && (uintptr_t)word_at(tensor, offset) == expected;
        }
        if (fits) {
            reader.impl = offset;
            return true;
        }
    }
    return false;
}

/* The one offset at which every sample's TensorImpl holds the number at `place` of its tuple. */
static Py_ssize_t
find_word(PyObject *samples, Py_ssize_t place)
{
    Py_ssize_t found = -1, n_words = common_words(samples);
    for (Py_ssize_t word = 0; word < n_words; word++) {
        bool fits = true;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(samples) && fits; i++) {
            PyObject *sample = PyList_GET_ITEM(samples, i);
            uintptr_t expected =
                (uintptr_t)PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(sample, place));
            void *impl = impl_of(PyTuple_GET_ITEM(sample, 0));
            fits = (uintptr_t)word_at(impl, word * 8) == expected;
        }
        if (fits && found >= 0) {
            return -1; /* not the only one */
        }
        if (fits) {
            found = word * 8;
        }
    }
    return found;
}

/* The one offset at which every sample's TensorImpl holds its number of dimensions, with all bits of
 * a word, or its dtype's code, in two bytes; -1 if there is no one place. */
static Py_ssize_t
find_number(PyObject *samples, bool dtype)
{
    Py_ssize_t found = -1, size = dtype ? 2 : 8, end = common_words(samples) * 8;
    for (Py_ssize_t offset = 8; offset + size <= end; offset += size) {
        bool fits = true;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(samples) && fits; i++) {
            PyObject *tensor = PyTuple_GET_ITEM(PyList_GET_ITEM(samples, i), 0);
            void *handle = (char *)tensor + reader.impl;
            int64_t ndim = -1, word = 0;
            int32_t code = -1;
            memcpy(&word, (char *)impl_of(tensor) + offset, (size_t)size);
            fits = !reader.dim(handle, &ndim) && !reader.dtype(handle, &code) &&
                   word == (dtype ? code : ndim);
        }
        if (fits && found >= 0) {
            return -1;
        }
        if (fits) {
            found = offset;
        }
    }
    return found;
}

/* Compare torch's C answers with the tuple's numbers. */
static bool
answers_agree(PyObject *samples)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(samples); i++) {
        PyObject *sample = PyList_GET_ITEM(samples, i);
        PyObject *shape = PyTuple_GET_ITEM(sample, 3), *strides = PyTuple_GET_ITEM(sample, 4);
        void *handle = (char *)PyTuple_GET_ITEM(sample, 0) + reader.impl;
        int64_t ndim = -1, *got_sizes = NULL, *got_strides = NULL;
        int32_t index = -2, dtype = -1, type = -1;
        if (reader.dim(handle, &ndim) || ndim != PyTuple_GET_SIZE(shape) ||
            reader.sizes(handle, &got_sizes) || reader.strides(handle, &got_strides) ||
            reader.dtype(handle, &dtype) || reader.device_type(handle, &type) ||
            reader.device_index(handle, &index)) {
            return false;
        }
        for (Py_ssize_t d = 0; d < ndim; d++) {
            if (got_sizes[d] != PyLong_AsLongLong(PyTuple_GET_ITEM(shape, d)) ||
                got_strides[d] != PyLong_AsLongLong(PyTuple_GET_ITEM(strides, d))) {
                return false;
            }
        }
        if (type != PyLong_AsLong(PyTuple_GET_ITEM(sample, 5)) ||
            index != PyLong_AsLong(PyTuple_GET_ITEM(sample, 6))) {
            return false;
        }
    }
    return !PyErr_Occurred();
}

/* Find the autograd record and, in it, the flag and the grad_fn; grads = [(leaf wanting grad, leaf
 * that wanted one before, result of an operator, its grad_fn), ...]. */
static bool
find_grad_words(PyObject *grads, PyObject *plain)
{
    Py_ssize_t n = PyList_GET_SIZE(grads);
    bool found = false;
    Py_ssize_t n_words = impl_words(plain);
    for (Py_ssize_t i = 0; i < n; i++) {
        for (Py_ssize_t j = 0; j < 3; j++) {
            Py_ssize_t words = impl_words(PyTuple_GET_ITEM(PyList_GET_ITEM(grads, i), j));
            n_words = words < n_words ? words : n_words;
        }
    }
    for (Py_ssize_t word = 1; word < n_words; word++) {
        /* null for a tensor that never had to do with autograd, set for the others */
        if (word_at(impl_of(plain), word * 8) != NULL) {
            continue;
        }
        bool fits = n > 0;
        for (Py_ssize_t i = 0; i < n && fits; i++) {
            PyObject *row = PyList_GET_ITEM(grads, i);
            for (Py_ssize_t j = 0; j < 3 && fits; j++) {
                fits = word_at(impl_of(PyTuple_GET_ITEM(row, j)), word * 8) != NULL;
            }
        }
        if (!fits) {
            continue;
        }
        if (found) {
            return false;
        }
        found = true;
        reader.autograd = word * 8;
    }
    if (!found) {
        return false;
    }
    size_t size = SIZE_MAX;
    for (Py_ssize_t i = 0; i < n; i++) {
        for (Py_ssize_t j = 0; j < 3; j++) {
            void *record = word_at(impl_of(PyTuple_GET_ITEM(PyList_GET_ITEM(grads, i), j)),
                                   reader.autograd);
            if ((uintptr_t)record % 8 != 0) {
                return false;
            }
            size_t usable = malloc_usable_size(record);
            size = usable < size ? usable : size;
        }
    }
    if (size < 64 || size > 4096) {
        return false;
    }
    int flags = 0, functions = 0;
    for (Py_ssize_t offset = 8; offset < (Py_ssize_t)size; offset++) {
        bool is_flag = true, is_function = offset % 8 == 0 && offset + 8 <= (Py_ssize_t)size;
        for (Py_ssize_t i = 0; i < n && (is_flag || is_function); i++) {
            PyObject *row = PyList_GET_ITEM(grads, i);
            const char *wanting = word_at(impl_of(PyTuple_GET_ITEM(row, 0)), reader.autograd);
            const char *wanted = word_at(impl_of(PyTuple_GET_ITEM(row, 1)), reader.autograd);
            const char *result = word_at(impl_of(PyTuple_GET_ITEM(row, 2)), reader.autograd);
            is_flag = is_flag && wanting[offset] == 1 && wanted[offset] == 0;
            if (is_function) {
                void *node = word_at(PyTuple_GET_ITEM(row, 3), sizeof(PyObject));
                is_function = node != NULL && word_at(result, offset) == node &&
                              word_at(wanting, offset) == NULL && word_at(wanted, offset) == NULL;
            }
            reader.plain_record = word_at(wanting, 0);
            if (word_at(wanted, 0) != reader.plain_record ||
                word_at(result, 0) != reader.plain_record) {
                return false;
            }
        }
        if (is_flag) {
            flags++;
            reader.grad_flag = offset;
        }
        if (is_function) {
            functions++;
            reader.grad_fn = offset;
        }
    }
    return flags == 1 && functions == 1;
}

/* The readings against what Python says; checks = [(tensor, requires_grad, is_leaf), ...]. */
static bool
grad_answers_agree(PyObject *checks)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(checks); i++) {
        PyObject *row = PyList_GET_ITEM(checks, i);
        PyObject *tensor = PyTuple_GET_ITEM(row, 0);
        const char *impl = impl_of(tensor);
        if (requires_grad_of(tensor, impl) != (PyTuple_GET_ITEM(row, 1) == Py_True) ||
            is_leaf_of(tensor, impl) != (PyTuple_GET_ITEM(row, 2) == Py_True)) {
            return false;
        }
    }
    return true;
}

static getter
find_getter(PyObject *base, const char *name, void **closure)
{
    PyObject *descriptor = PyObject_GetAttrString(base, name);
    getter found = NULL;
    if (descriptor != NULL && Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) {
        PyGetSetDef *definition = ((PyGetSetDescrObject *)descriptor)->d_getset;
        found = definition->get;
        *closure = definition->closure;
    }
    Py_XDECREF(descriptor); /* the definition belongs to the type, which torch never lets go */
    PyErr_Clear();
    return found;
}

/* ISO C has no cast from an object pointer to a function pointer; POSIX says the bits agree. */
static bool
find_symbol(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof(symbol));
    return symbol != NULL;
}

static bool
find_shim(const char *path)
{
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL) {
        return false;
    }
    /* the handle stays open: torch is never unloaded */
    return find_symbol(library, "aoti_torch_get_dim", &reader.dim) &&
           find_symbol(library, "aoti_torch_get_sizes", &reader.sizes) &&
           find_symbol(library, "aoti_torch_get_strides", &reader.strides) &&
           find_symbol(library, "aoti_torch_get_dtype", &reader.dtype) &&
           find_symbol(library, "aoti_torch_get_device_type", &reader.device_type) &&
           find_symbol(library, "aoti_torch_get_device_index", &reader.device_index);
}

static bool
rows_are_tuples(PyObject *list, Py_ssize_t size)
{
    if (!PyList_Check(list) || PyList_GET_SIZE(list) == 0) {
        return false;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *row = PyList_GET_ITEM(list, i);
        if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != size) {
            return false;
        }
    }
    return true;
}

/* tensor_setup(library, TensorBase, samples, grads, grad_checks) -> (metadata, autograd, storage)
 *
 * samples: (tensor, key set, storage address, shape, strides, device type, device index). */
static PyObject *
tensor_setup(PyObject *module, PyObject *args)
{
    const char *path;
    PyObject *base, *samples, *grads, *checks;
    (void)module;
    if (!PyArg_ParseTuple(args, "sO!OOO:tensor_setup", &path, &PyType_Type, &base, &samples, &grads,
                          &checks)) {
        return NULL;
    }
    Py_XDECREF(reader.base);
    memset(&reader, 0, sizeof(reader));
    reader.base = (PyTypeObject *)Py_NewRef(base);
    if (!rows_are_tuples(samples, 7) || !rows_are_tuples(grads, 4) || !rows_are_tuples(checks, 3)) {
        PyErr_SetString(PyExc_ValueError, "samples are non-empty lists of tuples");
        return NULL;
    }
    PyObject *plain = PyTuple_GET_ITEM(PyList_GET_ITEM(samples, 0), 0);
    reader.requires_grad = find_getter(base, "requires_grad", &reader.requires_grad_closure);
    reader.is_leaf = find_getter(base, "is_leaf", &reader.is_leaf_closure);
    if (find_shim(path) && find_impl(samples)) {
        reader.keys = find_word(samples, 1);
        reader.storage = find_word(samples, 2);
        reader.storage_ready = reader.storage > 0;
        reader.ready = reader.keys > 0 && reader.requires_grad != NULL &&
                       reader.is_leaf != NULL && answers_agree(samples);
        if (reader.ready) {
            reader.grad_ready = find_grad_words(grads, plain);
            if (reader.grad_ready && !grad_answers_agree(checks)) {
                reader.grad_ready = false;
            }
            reader.ready = grad_answers_agree(checks);
        }
        if (reader.ready && reader.grad_ready) {
            reader.ndim = find_number(samples, false);
            reader.dtype_code = find_number(samples, true);
        }
    }
    PyErr_Clear();
    return Py_BuildValue("(NNN)", PyBool_FromLong(reader.ready),
                         PyBool_FromLong(reader.grad_ready),
                         PyBool_FromLong(reader.storage_ready));
}

/* tensor_trust_words(bool): whether the words that a tensor's facts rest on may stand for them; no
 * effect where they were not found. Returns the old choice. */
static PyObject *
tensor_trust_words(PyObject *module, PyObject *flag)
{
    (void)module;
    int trusted = PyObject_IsTrue(flag);
    if (trusted < 0) {
        return NULL;
    }
    bool previous = reader.words_ready;
    reader.words_ready = trusted && reader.ndim > 0 && reader.dtype_code > 0;
    return PyBool_FromLong(previous);
}

/* tensor_codes(tensor) -> (dtype, device type, device index) as torch's C functions number them */
static PyObject *
tensor_codes(PyObject *module, PyObject *tensor)
{
    (void)module;
    if (!reader.ready || !PyObject_TypeCheck(tensor, reader.base)) {
        Py_RETURN_NONE;
    }
    int32_t dtype = -1, type = -1, index = -2;
    void *handle = (char *)tensor + reader.impl;
    if (reader.dtype(handle, &dtype) || reader.device_type(handle, &type) ||
        reader.device_index(handle, &index)) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(iii)", dtype, type, index);
}

static PyMethodDef functions[] = {
    {"tensor_setup", tensor_setup, METH_VARARGS,
     "Find out how tensors are read, by samples; return what was found."},
    {"tensor_trust_words", tensor_trust_words, METH_O,
     "Let the words that a tensor's facts rest on stand for them; return the old choice."},
    {"tensor_codes", tensor_codes, METH_O,
     "Return a tensor's dtype and device as torch's numbers."},
    {NULL, NULL, 0, NULL},
};

int
tensor_meta_register(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
