/* Evaluates integer conditions over tensor sizes, strides and Python ints on a small stack machine.
 *
 * Arithmetic is Python's on ints: floor division and its remainder. What does not fit in 64 bits,
 * and values that are no exact ints, are left to a Python function. Must not know the guard tree.
 */
#include "shape_guards.h"

#include <stdint.h>

#include "tensor_meta.h"

/* The numbers stand in guards/size_program.py too. */
enum {
    OP_CONST,   /* k: the constant in the next word */
    OP_LOAD,    /* the variable in the next word */
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_FLOORDIV,
    OP_MOD,
    OP_MAX,
    OP_MIN,
    OP_NEG,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_AND,
    OP_OR,
    OP_NOT,
    OP_REQUIRE, /* pops: a condition */
    N_OPS,
};

enum { VARIABLE_SIZE, VARIABLE_STRIDE, VARIABLE_INT, N_VARIABLE_KINDS };

#define MAX_STACK 32
#define MAX_VARIABLES 64

typedef struct {
    int slot;
    int kind;
    Py_ssize_t dim;
} Variable;

struct ShapeProgram {
    PyObject *fallback; /* borrowed */
    Py_ssize_t n_variables;
    Py_ssize_t n_code;
    Variable *variables;
    int64_t *code;
};

static int
bad_program(const char *what)
{
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "malformed size program: %s", what);
    }
    return -1;
}

/* How many words an operator pops and pushes; every program is checked once, so that running one
 * needs no checks. */
static int
check_code(const ShapeProgram *program)
{
    int depth = 0;
    for (Py_ssize_t i = 0; i < program->n_code; i++) {
        int64_t op = program->code[i];
        if (op < 0 || op >= N_OPS) {
            return bad_program("an unknown operator");
        }
        if (op == OP_CONST || op == OP_LOAD) {
            if (++i >= program->n_code) {
                return bad_program("it ends early");
            }
            if (op == OP_LOAD &&
                (program->code[i] < 0 || program->code[i] >= program->n_variables)) {
                return bad_program("an unknown variable");
            }
            depth++;
        }
        else if (op == OP_REQUIRE) {
            depth--;
        }
        else if (op == OP_NEG || op == OP_NOT) {
            if (depth < 1) {
                return bad_program("an operand is missing");
            }
        }
        else {
            depth--;
            if (depth < 1) {
                return bad_program("an operand is missing");
            }
        }
        if (depth < 0 || depth > MAX_STACK) {
            return bad_program("its stack");
        }
    }
    return depth == 0 ? 0 : bad_program("something is left over");
}

static int
fill(ShapeProgram *program, PyObject *variables, PyObject *code, Py_ssize_t n_slots)
{
    for (Py_ssize_t i = 0; i < program->n_variables; i++) {
        Variable *variable = &program->variables[i];
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(variables, i), "iin:variable", &variable->slot,
                              &variable->kind, &variable->dim)) {
            return -1;
        }
        if (variable->slot < 0 || variable->slot >= n_slots || variable->kind < 0 ||
            variable->kind >= N_VARIABLE_KINDS || variable->dim < 0) {
            return bad_program("a variable");
        }
    }
    for (Py_ssize_t i = 0; i < program->n_code; i++) {
        program->code[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(code, i));
        if (program->code[i] == -1 && PyErr_Occurred()) {
            return -1;
        }
    }
    return check_code(program);
}

ShapeProgram *
shape_program_new(PyObject *spec, Py_ssize_t n_slots, PyObject **fallback)
{
    PyObject *variables, *code;
    if (!PyTuple_Check(spec)) {
        bad_program("it is a tuple");
        return NULL;
    }
    if (!PyArg_ParseTuple(spec, "O!O!O:size program", &PyTuple_Type, &variables, &PyTuple_Type,
                          &code, fallback)) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(variables) > MAX_VARIABLES) {
        bad_program("too many variables");
        return NULL;
    }
    ShapeProgram *program = PyMem_Calloc(1, sizeof(ShapeProgram));
    if (program == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    program->fallback = *fallback;
    program->n_variables = PyTuple_GET_SIZE(variables);
    program->n_code = PyTuple_GET_SIZE(code);
    program->variables = PyMem_Calloc((size_t)program->n_variables + 1, sizeof(Variable));
    program->code = PyMem_Calloc((size_t)program->n_code + 1, sizeof(int64_t));
    if (program->variables == NULL || program->code == NULL) {
        PyErr_NoMemory();
    }
    else if (fill(program, variables, code, n_slots) == 0) {
        return program;
    }
    shape_program_free(program);
    return NULL;
}

void
shape_program_free(ShapeProgram *program)
{
    if (program != NULL) {
        PyMem_Free(program->variables);
        PyMem_Free(program->code);
        PyMem_Free(program);
    }
}

/* ---- variables ------------------------------------------------------------------------------ */

static PyObject *
ask_tensor(PyObject *tensor, Py_ssize_t dim, bool stride)
{
    PyObject *dims = stride ? PyObject_CallMethod(tensor, "stride", NULL)
                            : PyObject_GetAttrString(tensor, "shape");
    if (dims == NULL) {
        return NULL;
    }
    PyObject *number = PySequence_GetItem(dims, dim);
    Py_DECREF(dims);
    return number;
}

PyObject *
tensor_dim(PyObject *tensor, Py_ssize_t dim, bool stride)
{
    int64_t n, *sizes, *strides;
    if (tensor_dims(tensor, &n, &sizes, &strides)) {
        return dim < n ? PyLong_FromLongLong((stride ? strides : sizes)[dim]) : NULL;
    }
    return ask_tensor(tensor, dim, stride);
}

/* 1: read; 0: it needs Python; -1: it is not there. */
static int
load_variable(const Variable *variable, PyObject *value, int64_t *number)
{
    if (value == NULL) {
        return -1;
    }
    if (variable->kind == VARIABLE_INT) {
        int overflow = 0;
        if (!PyLong_CheckExact(value)) {
            return 0;
        }
        *number = PyLong_AsLongLongAndOverflow(value, &overflow);
        return overflow == 0;
    }
    int64_t n, *sizes, *strides;
    if (!tensor_dims(value, &n, &sizes, &strides)) {
        return 0;
    }
    if (variable->dim >= n) {
        return -1;
    }
    *number = (variable->kind == VARIABLE_STRIDE ? strides : sizes)[variable->dim];
    return 1;
}

static bool
ask_python(const ShapeProgram *program, PyObject *const *slots)
{
    PyObject *arguments[MAX_VARIABLES] = {NULL};
    Py_ssize_t n = 0;
    bool holds = true;
    for (; n < program->n_variables; n++) {
        const Variable *variable = &program->variables[n];
        PyObject *value = slots[variable->slot];
        if (value == NULL) {
            holds = false;
            break;
        }
        arguments[n] = variable->kind == VARIABLE_INT
                           ? Py_NewRef(value)
                           : tensor_dim(value, variable->dim, variable->kind == VARIABLE_STRIDE);
        if (arguments[n] == NULL) {
            holds = false;
            break;
        }
    }
    if (holds) {
        PyObject *answer = PyObject_Vectorcall(program->fallback, arguments, (size_t)n, NULL);
        holds = answer != NULL && PyObject_IsTrue(answer) == 1;
        Py_XDECREF(answer);
    }
    while (n > 0) {
        Py_DECREF(arguments[--n]);
    }
    PyErr_Clear();
    return holds;
}

/* ---- evaluation ----------------------------------------------------------------------------- */

/* False where the result does not fit, or there is none. */
static inline bool
divide(int64_t a, int64_t b, bool remainder, int64_t *result)
{
    if (b == 0 || (a == INT64_MIN && b == -1)) {
        return false;
    }
    int64_t quotient = a / b, rest = a % b;
    if (rest != 0 && (rest < 0) != (b < 0)) {
        quotient--;
        rest += b;
    }
    *result = remainder ? rest : quotient;
    return true;
}

/* 1: all hold; 0: one does not; -1: Python has to say. */
static int
run(const ShapeProgram *program, const int64_t *variables)
{
    int64_t stack[MAX_STACK + 1];
    int top = 0; /* stack[top] is the topmost word; stack[0] is not used */
    const int64_t *code = program->code, *end = code + program->n_code;
    while (code < end) {
        int64_t op = *code++;
        switch (op) {
        case OP_CONST:
            stack[++top] = *code++;
            continue;
        case OP_LOAD:
            stack[++top] = variables[*code++];
            continue;
        case OP_REQUIRE:
            if (!stack[top--]) {
                return 0;
            }
            continue;
        case OP_NOT:
            stack[top] = !stack[top];
            continue;
        case OP_NEG:
            if (stack[top] == INT64_MIN) {
                return -1;
            }
            stack[top] = -stack[top];
            continue;
        default:
            break;
        }
        int64_t right = stack[top--], left = stack[top], result = 0;
        bool fits = true;
        switch (op) {
        case OP_ADD:
            fits = !__builtin_add_overflow(left, right, &result);
            break;
        case OP_SUB:
            fits = !__builtin_sub_overflow(left, right, &result);
            break;
        case OP_MUL:
            fits = !__builtin_mul_overflow(left, right, &result);
            break;
        case OP_FLOORDIV:
            fits = divide(left, right, false, &result);
            break;
        case OP_MOD:
            fits = divide(left, right, true, &result);
            break;
        case OP_MAX:
            result = left > right ? left : right;
            break;
        case OP_MIN:
            result = left < right ? left : right;
            break;
        case OP_EQ:
            result = left == right;
            break;
        case OP_NE:
            result = left != right;
            break;
        case OP_LT:
            result = left < right;
            break;
        case OP_LE:
            result = left <= right;
            break;
        case OP_GT:
            result = left > right;
            break;
        case OP_GE:
            result = left >= right;
            break;
        case OP_AND:
            result = left && right;
            break;
        default:
            result = left || right;
            break;
        }
        if (!fits) {
            return -1;
        }
        stack[top] = result;
    }
    return 1;
}

bool
shape_program_holds(const ShapeProgram *program, PyObject *const *slots)
{
    int64_t variables[MAX_VARIABLES];
    for (Py_ssize_t i = 0; i < program->n_variables; i++) {
        const Variable *variable = &program->variables[i];
        int found = load_variable(variable, slots[variable->slot], &variables[i]);
        if (found <= 0) {
            return found == 0 && ask_python(program, slots);
        }
    }
    int holds = run(program, variables);
    return holds < 0 ? ask_python(program, slots) : holds;
}
