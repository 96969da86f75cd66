/* Holds the extension module `capture._native`: its slots and its initialisation.
 * Must not know what the parts do.
 */
#include "native.h"

int
module_add_type(PyObject *module, PyTypeObject **type, PyType_Spec *spec)
{
    if (*type == NULL) {
        *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    }
    return *type == NULL ? -1 : PyModule_AddType(module, *type);
}

static int
module_exec(PyObject *module)
{
#ifdef Py_GIL_DISABLED
    PyErr_SetString(PyExc_ImportError,
                    "capture does not support free-threaded builds of Python: use a standard build");
    return -1;
#endif
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError,
                        "capture does not support subinterpreters: import it in the main one only");
        return -1;
    }
    return cache_init(module) < 0 || entry_init(module) < 0 || continuation_init(module) < 0 ||
                   driver_init(module) < 0 || eval_frame_init(module) < 0 ||
                   callables_init(module) < 0 || self_test_init(module) < 0 ||
                   guard_tree_register(module) < 0
               ? -1
               : 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "capture._native",
    .m_doc = "The native core of capture: frame hook, per-code cache, driver and guard tree.",
    .m_slots = module_slots,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    return PyModuleDef_Init(&module_definition);
}
