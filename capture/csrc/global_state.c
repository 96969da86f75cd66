/* Reads torch's state as a row of words, each by a function of torch's own libraries.
 *
 * Every word has a Python callable to fall back on. A native reader is used only for the words that
 * `state_enable` names, after a self-test in Python has seen it follow the state. Must not know
 * the guard tree.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "global_state.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

enum {
    AUTOGRAD,        /* grad, inference and forward-grad mode: bits 0, 1, 2 */
    KEYS_INCLUDED,   /* thread-local dispatch keys: autocast, modes, functorch, ... */
    KEYS_EXCLUDED,
    DEFAULT_DTYPE,
    DEFAULT_BACKEND, /* of the default tensor type */
    DETERMINISTIC,   /* bit 0, warn-only bit 1 */
    TORCH_FUNCTION,  /* how far __torch_function__ is disabled */
    FUNCTION_MODES,  /* length of the stack */
    DISPATCH_MODES,
    SAVED_HOOKS,     /* 0 when there are none and they are not disabled */
    FORWARD_AD,      /* level + 1 */
    AUTOCAST,        /* dtypes of cpu and cuda, and the cache: only compared under autocast */
    N_WORDS,
};

static const char *const word_names[N_WORDS] = {
    "autograd",       "keys_included",  "keys_excluded",  "default_dtype",
    "default_backend", "deterministic",  "torch_function", "function_modes",
    "dispatch_modes", "saved_hooks",    "forward_ad",     "autocast",
};

#define KEYS_SYMBOL "_ZN3c104impl26raw_local_dispatch_key_setE"

static struct {
    bool set_up;
    bool has_keys;
    bool native[N_WORDS];
    PyObject *fallback[N_WORDS]; /* strong: callable() -> int */
    Py_ssize_t autograd_offset;
    PyObject *forward_ad; /* strong: the dict of torch.autograd.forward_ad */
    PyObject *level_name;
    void *context;
    void *c10, *cpu, *python; /* libraries */
    void *(*autograd_state)(void);
    uint16_t (*default_dtype)(void);
    uint16_t (*default_backend)(void);
    void *(*global_context)(void);
    bool (*deterministic)(void *context);
    bool (*warn_only)(void *context);
    int8_t (*torch_function)(void);
    int64_t (*function_modes)(void);
    int64_t (*dispatch_modes)(void);
    char *(*saved_hooks)(void);
    int8_t (*autocast_dtype)(int8_t device_type);
    bool (*autocast_cache)(void);
} torch;

/* Addresses of this thread's copies of torch's thread-local variables. */
static _Thread_local struct {
    const uint8_t *autograd;
    const uint64_t *keys;
    const char *hooks;
} here;

static void
find_thread_state(void)
{
    /* what torch lacks is read from here, never: word_is_known says no */
    static const uint64_t no_keys[2];
    static const char no_hooks[128];
    static const uint8_t no_flags[64];
    /* dlsym gives the address of the calling thread's copy */
    here.keys = torch.has_keys ? dlsym(torch.c10, KEYS_SYMBOL) : no_keys;
    here.autograd = torch.autograd_state == NULL ? no_flags : torch.autograd_state();
    here.hooks = torch.saved_hooks == NULL ? no_hooks : torch.saved_hooks();
}

/* The double-ended queue of hooks is empty when its first and last positions agree; behind it
 * stands an optional text, present while hooks are disabled. */
static inline uint64_t
hooks_word(const char *hooks)
{
    uint64_t first, last;
    memcpy(&first, hooks + 16, sizeof(first));
    memcpy(&last, hooks + 48, sizeof(last));
    return first != last || hooks[112] != 0;
}

static inline uint64_t
forward_ad_word(void)
{
    PyObject *level = PyDict_GetItemWithError(torch.forward_ad, torch.level_name);
    if (level == NULL || !PyLong_Check(level)) {
        PyErr_Clear();
        return UINT64_MAX;
    }
    return (uint64_t)PyLong_AsUnsignedLongLongMask(level) + 1;
}

enum { DEVICE_CPU = 0, DEVICE_CUDA = 1 };

static inline uint64_t
native_word(int word)
{
    switch (word) {
    case AUTOGRAD:
        return here.autograd[torch.autograd_offset] & 7;
    case KEYS_INCLUDED:
        return here.keys[0];
    case KEYS_EXCLUDED:
        return here.keys[1];
    case DEFAULT_DTYPE:
        return torch.default_dtype();
    case DEFAULT_BACKEND:
        return torch.default_backend();
    case DETERMINISTIC:
        return (uint64_t)torch.deterministic(torch.context) |
               (uint64_t)torch.warn_only(torch.context) << 1;
    case TORCH_FUNCTION:
        return (uint8_t)torch.torch_function();
    case FUNCTION_MODES:
        return (uint64_t)torch.function_modes();
    case DISPATCH_MODES:
        return (uint64_t)torch.dispatch_modes();
    case SAVED_HOOKS:
        return hooks_word(here.hooks);
    case FORWARD_AD:
        return forward_ad_word();
    case AUTOCAST:
        return (uint64_t)(uint8_t)torch.autocast_dtype(DEVICE_CPU) |
               (uint64_t)(uint8_t)torch.autocast_dtype(DEVICE_CUDA) << 8 |
               (uint64_t)torch.autocast_cache() << 16;
    default:
        return 0;
    }
}

/* Whether torch has the functions this word needs. */
static bool
word_is_known(int word)
{
    switch (word) {
    case AUTOGRAD:
        return torch.autograd_state != NULL && torch.autograd_offset >= 0;
    case KEYS_INCLUDED:
    case KEYS_EXCLUDED:
        return torch.has_keys;
    case DEFAULT_DTYPE:
        return torch.default_dtype != NULL;
    case DEFAULT_BACKEND:
        return torch.default_backend != NULL;
    case DETERMINISTIC:
        return torch.context != NULL && torch.deterministic != NULL && torch.warn_only != NULL;
    case TORCH_FUNCTION:
        return torch.torch_function != NULL;
    case FUNCTION_MODES:
        return torch.function_modes != NULL;
    case DISPATCH_MODES:
        return torch.dispatch_modes != NULL;
    case SAVED_HOOKS:
        return torch.saved_hooks != NULL;
    case FORWARD_AD:
        return torch.forward_ad != NULL;
    case AUTOCAST:
        return torch.autocast_dtype != NULL && torch.autocast_cache != NULL;
    default:
        return false;
    }
}

/* Never leaves an exception set; *ok is false when the word cannot be read. */
static uint64_t
read_word(int word, bool *ok)
{
    if (torch.native[word]) {
        return native_word(word);
    }
    PyObject *result =
        torch.fallback[word] == NULL ? NULL : PyObject_CallNoArgs(torch.fallback[word]);
    uint64_t value = 0;
    if (result == NULL || !PyLong_Check(result)) {
        *ok = false;
    }
    else {
        value = PyLong_AsUnsignedLongLongMask(result);
    }
    Py_XDECREF(result);
    PyErr_Clear();
    return value;
}

/* ---- snapshot ------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    uint64_t words[N_WORDS];
    uint32_t compared;  /* bit per word */
    uint32_t by_python; /* the compared words without a native reader */
    PyObject *details;  /* callable() -> bool for what words cannot tell, or NULL */
} Snapshot;

PyTypeObject *GlobalStateSnapshot_Type;

static inline void
know_thread(void)
{
    if (here.keys == NULL) {
        find_thread_state();
    }
}

/* The word numbers that differ, as bits. */
static uint32_t
changed_words(const Snapshot *self, bool stop_early)
{
    uint32_t changed = 0;
    know_thread();
    for (int word = 0; word < N_WORDS; word++) {
        bool ok = true;
        if ((self->compared >> word & 1) &&
            (read_word(word, &ok) != self->words[word] || !ok)) {
            changed |= (uint32_t)1 << word;
            if (stop_early) {
                break;
            }
        }
    }
    return changed;
}

/* The common case: every word natively, without a loop over kinds. */
static inline bool
native_words_hold(const Snapshot *self)
{
    const uint64_t *words = self->words;
    uint64_t different = native_word(AUTOGRAD) ^ words[AUTOGRAD];
    different |= native_word(KEYS_INCLUDED) ^ words[KEYS_INCLUDED];
    different |= native_word(KEYS_EXCLUDED) ^ words[KEYS_EXCLUDED];
    different |= native_word(SAVED_HOOKS) ^ words[SAVED_HOOKS];
    if (different != 0) {
        return false;
    }
    different |= native_word(DEFAULT_DTYPE) ^ words[DEFAULT_DTYPE];
    different |= native_word(DEFAULT_BACKEND) ^ words[DEFAULT_BACKEND];
    different |= native_word(DETERMINISTIC) ^ words[DETERMINISTIC];
    different |= native_word(TORCH_FUNCTION) ^ words[TORCH_FUNCTION];
    different |= native_word(FUNCTION_MODES) ^ words[FUNCTION_MODES];
    different |= native_word(DISPATCH_MODES) ^ words[DISPATCH_MODES];
    different |= native_word(FORWARD_AD) ^ words[FORWARD_AD];
    if (self->compared >> AUTOCAST & 1) {
        different |= native_word(AUTOCAST) ^ words[AUTOCAST];
    }
    return different == 0;
}

bool
global_state_holds(PyObject *snapshot)
{
    Snapshot *self = (Snapshot *)snapshot;
    know_thread();
    if (self->by_python == 0) {
        if (!native_words_hold(self)) {
            return false;
        }
    }
    else if (changed_words(self, true) != 0) {
        return false;
    }
    if (self->details == NULL) {
        return true;
    }
    PyObject *answer = PyObject_CallNoArgs(self->details);
    bool holds = answer == Py_True;
    Py_XDECREF(answer);
    PyErr_Clear();
    return holds;
}

static PyObject *
snapshot_holds(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return PyBool_FromLong(global_state_holds(self));
}

static PyObject *
snapshot_changed(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    uint32_t changed = changed_words((Snapshot *)self, false);
    PyObject *names = PyList_New(0);
    for (int word = 0; names != NULL && word < N_WORDS; word++) {
        if (changed >> word & 1) {
            PyObject *name = PyUnicode_FromString(word_names[word]);
            if (name == NULL || PyList_Append(names, name) < 0) {
                Py_CLEAR(names);
            }
            Py_XDECREF(name);
        }
    }
    return names;
}

static PyObject *
snapshot_words(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    PyObject *words = PyDict_New();
    for (int word = 0; words != NULL && word < N_WORDS; word++) {
        PyObject *value = PyLong_FromUnsignedLongLong(((Snapshot *)self)->words[word]);
        if (value == NULL || PyDict_SetItemString(words, word_names[word], value) < 0) {
            Py_CLEAR(words);
        }
        Py_XDECREF(value);
    }
    return words;
}

static PyObject *
snapshot_compare(PyObject *self, PyObject *other, int operation)
{
    if (!Py_IS_TYPE(other, GlobalStateSnapshot_Type) ||
        (operation != Py_EQ && operation != Py_NE)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    Snapshot *a = (Snapshot *)self, *b = (Snapshot *)other;
    bool same = a->compared == b->compared && a->details == b->details;
    for (int word = 0; same && word < N_WORDS; word++) {
        same = !(a->compared >> word & 1) || a->words[word] == b->words[word];
    }
    return PyBool_FromLong(same == (operation == Py_EQ));
}

static Py_hash_t
snapshot_hash(PyObject *self)
{
    uint64_t mixed = ((Snapshot *)self)->compared;
    for (int word = 0; word < N_WORDS; word++) {
        if (((Snapshot *)self)->compared >> word & 1) {
            mixed = mixed * 0x9E3779B97F4A7C15u + ((Snapshot *)self)->words[word];
        }
    }
    Py_hash_t hash = (Py_hash_t)(mixed ^ mixed >> 32);
    return hash == -1 ? -2 : hash;
}

static int
snapshot_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Snapshot *)self)->details);
    return 0;
}

static int
snapshot_clear(PyObject *self)
{
    Py_CLEAR(((Snapshot *)self)->details);
    return 0;
}

static void
snapshot_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    (void)snapshot_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef snapshot_methods[] = {
    {"holds", snapshot_holds, METH_NOARGS, "Whether the state of this thread is this one."},
    {"changed", snapshot_changed, METH_NOARGS, "Return the names of the words that differ now."},
    {"words", snapshot_words, METH_NOARGS, "Return the words by name."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot snapshot_slots[] = {
    {Py_tp_dealloc, snapshot_dealloc},
    {Py_tp_traverse, snapshot_traverse},
    {Py_tp_clear, snapshot_clear},
    {Py_tp_richcompare, snapshot_compare},
    {Py_tp_hash, snapshot_hash},
    {Py_tp_methods, snapshot_methods},
    {Py_tp_doc, "Torch's global state at one moment, in one thread."},
    {0, NULL},
};

static PyType_Spec snapshot_spec = {
    .name = "capture._native.GlobalStateSnapshot",
    .basicsize = sizeof(Snapshot),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = snapshot_slots,
};

/* state_snapshot(under_autocast=False, details=None) -> GlobalStateSnapshot */
static PyObject *
state_snapshot(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"under_autocast", "details", NULL};
    int under_autocast = 0;
    PyObject *details = Py_None;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|pO:state_snapshot", names, &under_autocast,
                                     &details)) {
        return NULL;
    }
    if (!torch.set_up) {
        PyErr_SetString(PyExc_RuntimeError, "state_setup was not called");
        return NULL;
    }
    know_thread();
    Snapshot *self = PyObject_GC_New(Snapshot, GlobalStateSnapshot_Type);
    if (self == NULL) {
        return NULL;
    }
    memset(self->words, 0, sizeof(self->words));
    self->compared = ((uint32_t)1 << N_WORDS) - 1;
    if (!under_autocast) {
        self->compared &= ~((uint32_t)1 << AUTOCAST);
    }
    self->by_python = 0;
    self->details = details == Py_None ? NULL : Py_NewRef(details);
    PyObject_GC_Track((PyObject *)self);
    for (int word = 0; word < N_WORDS; word++) {
        bool ok = true;
        if (!(self->compared >> word & 1)) {
            continue;
        }
        self->words[word] = read_word(word, &ok);
        if (!torch.native[word]) {
            self->by_python |= (uint32_t)1 << word;
        }
        if (!ok) {
            PyErr_Format(PyExc_RuntimeError, "cannot read torch's state: %s", word_names[word]);
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

/* ---- set-up --------------------------------------------------------------------------------- */

/* ISO C has no cast from an object pointer to a function pointer; POSIX says the bits agree. */
static void
find_function(void *library, const char *name, void *function)
{
    void *symbol = library == NULL ? NULL : dlsym(library, name);
    memcpy(function, &symbol, sizeof(symbol));
}

static void *
find_library(const char *path)
{
    return dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
}

/* state_setup(libc10, libtorch_cpu, libtorch_python, forward_ad.__dict__, fallbacks: dict)
 *     -> bytes of this thread's autograd state, in which the caller finds the flags */
static PyObject *
state_setup(PyObject *module, PyObject *args)
{
    const char *c10, *cpu, *python;
    PyObject *forward_ad, *fallbacks;
    (void)module;
    if (!PyArg_ParseTuple(args, "sssO!O!:state_setup", &c10, &cpu, &python, &PyDict_Type,
                          &forward_ad, &PyDict_Type, &fallbacks)) {
        return NULL;
    }
    for (int word = 0; word < N_WORDS; word++) {
        PyObject *fallback = PyDict_GetItemString(fallbacks, word_names[word]);
        Py_XSETREF(torch.fallback[word], Py_XNewRef(fallback));
        torch.native[word] = false;
    }
    Py_XSETREF(torch.forward_ad, Py_NewRef(forward_ad));
    Py_XSETREF(torch.level_name, PyUnicode_InternFromString("_current_level"));
    torch.autograd_offset = -1;
    torch.c10 = find_library(c10);
    torch.cpu = find_library(cpu);
    torch.python = find_library(python);
    find_function(torch.c10, "_ZN3c1013AutogradState13get_tls_stateEv", &torch.autograd_state);
    find_function(torch.c10, "_ZN3c1017get_default_dtypeEv", &torch.default_dtype);
    find_function(torch.c10, "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv",
                  &torch.dispatch_modes);
    find_function(torch.cpu, "_ZN2at13globalContextEv", &torch.global_context);
    find_function(torch.cpu, "_ZNK2at7Context23deterministicAlgorithmsEv", &torch.deterministic);
    find_function(torch.cpu, "_ZNK2at7Context31deterministicAlgorithmsWarnOnlyEv",
                  &torch.warn_only);
    find_function(torch.cpu, "_ZN2at4impl22PythonTorchFunctionTLS18get_disabled_stateEv",
                  &torch.torch_function);
    find_function(torch.cpu, "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv",
                  &torch.function_modes);
    find_function(torch.cpu, "_ZN2at23SavedTensorDefaultHooks13get_tls_stateEv",
                  &torch.saved_hooks);
    find_function(torch.cpu, "_ZN2at8autocast18get_autocast_dtypeEN3c1010DeviceTypeE",
                  &torch.autocast_dtype);
    find_function(torch.cpu, "_ZN2at8autocast25is_autocast_cache_enabledEv",
                  &torch.autocast_cache);
    find_function(torch.python, "_ZN5torch7tensors24get_default_dispatch_keyEv",
                  &torch.default_backend);
    torch.context = torch.global_context == NULL ? NULL : torch.global_context();
    torch.has_keys = torch.c10 != NULL && dlsym(torch.c10, KEYS_SYMBOL) != NULL;
    find_thread_state();
    torch.set_up = true;
    Py_RETURN_NONE;
}

/* state_autograd_bytes() -> bytes: the start of this thread's autograd state */
static PyObject *
state_autograd_bytes(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
    know_thread();
    if (torch.autograd_state == NULL) {
        return PyBytes_FromStringAndSize("", 0);
    }
    return PyBytes_FromStringAndSize((const char *)here.autograd, 32);
}

/* state_native_words(autograd_offset) -> {name: value} of every word that has a native reader */
static PyObject *
state_native_words(PyObject *module, PyObject *args)
{
    (void)module;
    if (!PyArg_ParseTuple(args, "n:state_native_words", &torch.autograd_offset)) {
        return NULL;
    }
    PyObject *words = PyDict_New();
    know_thread();
    for (int word = 0; words != NULL && torch.set_up && word < N_WORDS; word++) {
        if (!word_is_known(word)) {
            continue;
        }
        PyObject *value = PyLong_FromUnsignedLongLong(native_word(word));
        if (value == NULL || PyDict_SetItemString(words, word_names[word], value) < 0) {
            Py_CLEAR(words);
        }
        Py_XDECREF(value);
    }
    return words;
}

/* state_enable(names): use the native readers of these words and of no others */
static PyObject *
state_enable(PyObject *module, PyObject *names)
{
    (void)module;
    for (int word = 0; word < N_WORDS; word++) {
        PyObject *name = PyUnicode_FromString(word_names[word]);
        int wanted = name == NULL ? -1 : PySequence_Contains(names, name);
        Py_XDECREF(name);
        if (wanted < 0) {
            return NULL;
        }
        torch.native[word] = wanted && word_is_known(word);
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"state_setup", state_setup, METH_VARARGS, "Look up torch's functions; use none yet."},
    {"state_autograd_bytes", state_autograd_bytes, METH_NOARGS,
     "Return the start of this thread's autograd state."},
    {"state_native_words", state_native_words, METH_VARARGS,
     "Return what the native readers read now."},
    {"state_enable", state_enable, METH_O, "Choose the words to read natively."},
    {"state_snapshot", (PyCFunction)(void (*)(void))state_snapshot, METH_VARARGS | METH_KEYWORDS,
     "Take a snapshot of torch's state in this thread."},
    {NULL, NULL, 0, NULL},
};

int
global_state_register(PyObject *module)
{
    if (GlobalStateSnapshot_Type == NULL) {
        GlobalStateSnapshot_Type = (PyTypeObject *)PyType_FromSpec(&snapshot_spec);
        if (GlobalStateSnapshot_Type == NULL) {
            return -1;
        }
    }
    if (PyModule_AddType(module, GlobalStateSnapshot_Type) < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
