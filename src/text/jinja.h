// jinja: private to the template interpreter (jinja_*.c and template.c). Source text becomes a tree of nodes once
// (jinja_lex, jinja_parse, jinja_expr); a render walks the tree (jinja_exec, jinja_eval) over values (jinja_value).
//
// Memory: everything of a parse or of a render lives in one arena with a limit; nothing is freed before the end. So a
// failure at any depth may jump straight to the entry function (ch_jj_fail, longjmp): there is nothing to clean up on the
// way, and no call needs its result checked. Code that holds anything outside the arena must not call what can fail.
//
// Strings are valid UTF-8 and know which of their bytes were written by the template ("literal") and which came from the
// variables; the mark follows the bytes through every operation that keeps them. What a filter computes is not literal.
#ifndef CH_TEXT_JINJA_H
#define CH_TEXT_JINJA_H

#include <setjmp.h>

#include "text/text.h"

enum {
    JJ_MAX_SOURCE = 4 << 20,  // bytes of a template
    JJ_MAX_TREE = 128 << 20,  // bytes of its tree
    JJ_MAX_NEST = 150,        // nested brackets and blocks in a template
    JJ_MAX_RANGE = 100000,    // elements of range(), as in the reference's sandbox
    JJ_MAX_ARGS = 8           // positional, and named, arguments kept on the C stack; more go to the arena
};

typedef struct jj_ctx jj_ctx;
typedef struct jj_val jj_val;
typedef struct jj_node jj_node;

// ---- values -------------------------------------------------------------------------------------------------------------
typedef struct jj_run {
    size_t begin;
    bool literal;
} jj_run; // from begin up to the next run, or to the end of the string

// Bytes being gathered; also the room behind a string, so that `s = s + t` again and again copies s only now and then.
typedef struct jj_buf {
    char *p;
    size_t n, cap;
    jj_run *run;
    size_t n_run, cap_run;
} jj_buf; // start from {0}

typedef struct jj_str {
    const char *p; // not NUL-terminated
    size_t n;
    size_t n_chars;     // SIZE_MAX: not counted yet
    const jj_run *run;  // n_run >= 1 unless n is 0
    size_t n_run;
    jj_buf *own;        // NULL, or the buffer that holds these bytes at its beginning
    bool markup;        // marked safe: `+` escapes the other side, as the reference's Markup does
} jj_str;

enum { JJ_LIST, JJ_TUPLE, JJ_ITER, JJ_RANGE, JJ_KEYS, JJ_VALUES, JJ_ITEMS, JJ_GROUP };
typedef struct jj_seq {
    int kind;
    size_t n, cap;
    jj_val *item;
    size_t pos;       // JJ_ITER: elements already taken
    int64_t range[3]; // JJ_RANGE: start, stop, step
} jj_seq;

typedef struct jj_entry jj_entry;
typedef struct jj_dict {
    size_t n, cap;
    jj_entry *entry; // in order of insertion
    uint32_t *slot;  // n_slot (power of two) places, 0: free, else 1 + index of the entry; NULL while the dict is small
    size_t n_slot;
} jj_dict;

typedef struct jj_undef {
    const char *hint; // whole message, or NULL
    const char *type; // of the object that lacks the name; NULL: a variable
    const jj_str *name;
    bool element; // the name was no string
    int64_t index;
} jj_undef;

typedef struct jj_func jj_func;
typedef struct jj_macro jj_macro;
typedef struct jj_loop jj_loop;

// JJ_ABSENT marks an argument that was not given and never escapes into a template.
enum {
    JJ_ABSENT, JJ_UNDEF, JJ_NONE, JJ_BOOL, JJ_INT, JJ_FLOAT, JJ_STR, JJ_SEQ, JJ_DICT, JJ_NS, JJ_FUNC, JJ_MACRO, JJ_LOOP
};
struct jj_val {
    int type;
    union {
        bool b;
        int64_t i;
        double f;
        const jj_str *s;
        jj_seq *q;
        jj_dict *d; // JJ_DICT and JJ_NS
        const jj_undef *u;
        const jj_func *fn;
        const jj_macro *m;
        jj_loop *l;
    } u;
};
struct jj_entry {
    jj_val key, val;
    uint64_t hash;
};

typedef struct jj_kw {
    const jj_str *name;
    jj_val val;
} jj_kw;
typedef struct jj_args {
    const jj_val *pos;
    size_t n;
    const jj_kw *kw;
    size_t n_kw;
} jj_args;

// A filter, test, method or global. params: names of its parameters, separated by spaces ("" : none); the call is bound to
// them and arg[k] is JJ_ABSENT where nothing was given. params NULL: takes what comes, in raw.
typedef struct jj_in {
    jj_ctx *x;
    jj_val self; // value filtered or tested, or the method's object
    const jj_val *arg;
    const jj_args *raw;
} jj_in;
typedef jj_val (*jj_fn)(const jj_in *in);
typedef struct jj_def {
    const char *name;
    jj_fn fn;
    const char *params;
    int n_needed; // leading parameters that must be given
} jj_def;
struct jj_func {
    const jj_def *def;
    jj_val self;
};

typedef struct jj_bind {
    int32_t sym;
    jj_val val;
} jj_bind;
typedef struct jj_scope {
    struct jj_scope *up; // NULL: the template's own variables (ctx->root)
    jj_bind *var;
    size_t n, cap;
    bool captured; // a macro refers to it: a loop may not use it again
} jj_scope;

struct jj_macro {
    const jj_node *node;
    jj_scope *scope; // where it was defined
};

struct jj_loop {
    jj_seq *src;
    size_t pos; // next element of src
    size_t index0;
    jj_val cur, prev, next;
    bool peeked, has_next;  // next was looked up; there is one
    const jj_node *filter;  // condition of `for x in y if condition`, NULL: none (any more)
    const jj_node *target;
    jj_scope *outer;
    const jj_node *node;
    int depth0;
    jj_val changed;         // arguments of the last loop.changed()
};

// ---- tree ---------------------------------------------------------------------------------------------------------------
enum {
    // statements
    JJ_S_DATA, JJ_S_PRINT, JJ_S_IF, JJ_S_FOR, JJ_S_SET, JJ_S_SETBLOCK, JJ_S_MACRO, JJ_S_CALL, JJ_S_FILTER, JJ_S_WITH,
    JJ_S_SCOPE, JJ_S_BREAK, JJ_S_CONTINUE,
    // expressions
    JJ_E_CONST, JJ_E_NAME, JJ_E_LIST, JJ_E_TUPLE, JJ_E_DICT, JJ_E_ATTR, JJ_E_ITEM, JJ_E_SLICE, JJ_E_CALL, JJ_E_FILTER,
    JJ_E_TEST, JJ_E_COND, JJ_E_OR, JJ_E_AND, JJ_E_NOT, JJ_E_NEG, JJ_E_POS, JJ_E_COMPARE, JJ_E_MATH, JJ_E_CONCAT,
    JJ_E_NSREF
};
enum {
    JJ_OP_ADD, JJ_OP_SUB, JJ_OP_MUL, JJ_OP_DIV, JJ_OP_FLOORDIV, JJ_OP_MOD, JJ_OP_POW, JJ_OP_EQ, JJ_OP_NE, JJ_OP_LT,
    JJ_OP_LE, JJ_OP_GT, JJ_OP_GE, JJ_OP_IN, JJ_OP_NOTIN
};

typedef struct jj_list {
    jj_node **at;
    size_t n, cap;
} jj_list;
typedef struct jj_call {
    jj_list pos;
    jj_list kw;      // JJ_E_CONST of the name, value, name, value, ...
    jj_node *star;   // *args
    jj_node *dstar;  // **kwargs
} jj_call;

// What the fields mean, by kind:
//  DATA     val text                              PRINT    a
//  IF       list condition, condition, ...; bodies[k] per condition, and the last one (n_bodies = n + 1) of `else`
//  FOR      a target, b iterated, c filter, bodies[0], bodies[1] of `else`, uses 1: recursive
//  SET      a target, b value                     SETBLOCK a target, b filter chain or NULL, bodies[0]
//  MACRO    sym, list targets (names), list2 defaults of the last ones, bodies[0], uses   CALL a call, else as MACRO
//  FILTER   b filter chain, bodies[0]             WITH     list targets, list2 values, bodies[0]     SCOPE bodies[0]
//  CONST    val      NAME sym, val name           LIST, TUPLE list        DICT list key, value, ...
//  ATTR     a, val name     ITEM a, b             SLICE a start, b stop, c step (each may be NULL)
//  CALL     a, call         FILTER a (NULL: the block's text), val name, def, call           TEST the same
//  COND     a condition, b then, c else or NULL   OR, AND list            NOT, NEG, POS a
//  COMPARE, MATH  list operands, ops between them CONCAT list             NSREF sym, val attribute
struct jj_node {
    uint8_t kind;
    uint8_t uses; // MACRO: JJ_USES_*
    int32_t line;
    int32_t sym;
    jj_val val;
    jj_node *a, *b, *c;
    jj_list list, list2;
    jj_list *bodies;
    size_t n_bodies;
    uint8_t *ops;
    jj_call *call;
    const jj_def *def; // NULL: no such filter or test; an error only where it is reached
};
enum { JJ_USES_CALLER = 1, JJ_USES_VARARGS = 2, JJ_USES_KWARGS = 4 };
enum { JJ_SYM_LOOP, JJ_SYM_CALLER, JJ_SYM_VARARGS, JJ_SYM_KWARGS, JJ_N_FIXED_SYM };

struct ch_template {
    ch_arena *arena;
    jj_list body;
    const jj_str **sym; // names of variables
    size_t n_sym;
};

// ---- one parse or render ------------------------------------------------------------------------------------------------
struct jj_ctx {
    ch_arena *arena;
    size_t max_memory; // of arena
    size_t max_output; // bytes of one string
    uint64_t steps;    // left
    int depth, max_depth;
    int line; // being evaluated, for messages; 0: parsing
    int64_t now;
    const ch_template *t;
    jj_val *root; // n_sym variables of the template itself
    json_t *held; // being read by from_json; released when the render ends
    ch_error err;
    jmp_buf fail;
};

// Ends the parse or render; a render's message begins with the template's line.
CH_PRINTF(3, 4) _Noreturn void ch_jj_fail(jj_ctx *x, int code, const char *fmt, ...);
_Noreturn void ch_jj_raise(jj_ctx *x, const jj_str *msg); // raise_exception: the message as it is
_Noreturn void ch_jj_fail_undef(jj_ctx *x, jj_val v); // "'x' is undefined"
void *ch_jj_alloc(jj_ctx *x, size_t n, size_t size);
void ch_jj_charge(jj_ctx *x, uint64_t steps); // ends the render when its steps are used up
void ch_jj_enter(jj_ctx *x);                  // one level deeper; every path out does x->depth--

void ch_jj_parse(jj_ctx *x, ch_template *t, const char *src, size_t n); // jinja_parse.c

// ---- values: jinja_string.c ---------------------------------------------------------------------------------------------
void ch_jj_buf_add(jj_ctx *x, jj_buf *b, const char *p, size_t n, bool literal);
void ch_jj_buf_add_str(jj_ctx *x, jj_buf *b, const jj_str *s);
void ch_jj_buf_puts(jj_ctx *x, jj_buf *b, const char *s); // not literal
const jj_str *ch_jj_buf_str(jj_ctx *x, const jj_buf *b);
jj_str *ch_jj_str(jj_ctx *x, const char *p, size_t n, bool literal); // the bytes are not copied
const jj_str *ch_jj_str_copy(jj_ctx *x, const char *p, size_t n);    // not literal
const jj_str *ch_jj_concat(jj_ctx *x, const jj_str *a, const jj_str *b);
const jj_str *ch_jj_sub(jj_ctx *x, const jj_str *s, size_t begin, size_t end); // bytes
size_t ch_jj_n_chars(jj_ctx *x, const jj_str *s);
size_t ch_jj_byte_of_char(jj_ctx *x, const jj_str *s, size_t k); // k <= n_chars
size_t ch_jj_find(jj_ctx *x, const jj_str *s, const jj_str *what, size_t from, size_t to); // SIZE_MAX: not there
size_t ch_jj_rfind(jj_ctx *x, const jj_str *s, const jj_str *what, size_t from, size_t to);
const jj_str *ch_jj_replace(jj_ctx *x, const jj_str *s, const jj_str *old, const jj_str *new_, int64_t count);
enum { JJ_LEFT = 1, JJ_RIGHT = 2 };
const jj_str *ch_jj_strip(jj_ctx *x, const jj_str *s, const jj_str *chars, int sides); // chars NULL: white space
// s between left and right copies of fill (one character; NULL: a blank); refused before it is made when too long.
const jj_str *ch_jj_pad(jj_ctx *x, const jj_str *s, int64_t left, int64_t right, const jj_str *fill);
bool ch_jj_is_space(uint32_t cp);
size_t ch_jj_line_end(const jj_str *s, size_t i, size_t *next); // byte where the line that starts at i ends
enum { JJ_UPPER, JJ_LOWER, JJ_CAPITALIZE, JJ_TITLE, JJ_SWAPCASE };
const jj_str *ch_jj_case(jj_ctx *x, const jj_str *s, int mode);
const jj_str *ch_jj_escape(jj_ctx *x, const jj_str *s); // HTML; result is markup
bool ch_jj_str_is(const jj_str *s, const char *z);
bool ch_jj_str_eq(const jj_str *a, const jj_str *b);

// ---- values: jinja_value.c ----------------------------------------------------------------------------------------------
jj_val ch_jj_none(void);
jj_val ch_jj_absent(void);
jj_val ch_jj_bool(bool b);
jj_val ch_jj_int(int64_t i);
jj_val ch_jj_float(double f);
jj_val ch_jj_of_str(const jj_str *s);
jj_val ch_jj_of_seq(jj_seq *q);
jj_val ch_jj_undef_hint(jj_ctx *x, const char *hint);
jj_val ch_jj_undef_name(jj_ctx *x, const jj_str *name);
jj_val ch_jj_undef_attr(jj_ctx *x, jj_val obj, const jj_str *name);
jj_val ch_jj_undef_item(jj_ctx *x, jj_val obj, jj_val key);
const char *ch_jj_type_name(jj_val v); // as Python names it
bool ch_jj_is_str(jj_val v);
bool ch_jj_is_num(jj_val v); // int, float or bool
jj_seq *ch_jj_seq(jj_ctx *x, int kind, size_t cap);
void ch_jj_seq_add(jj_ctx *x, jj_seq *q, jj_val v);
jj_seq *ch_jj_iterate(jj_ctx *x, jj_val v); // elements; a list is returned itself (live), everything else as a copy
bool ch_jj_iterable(jj_val v);
int64_t ch_jj_length(jj_ctx *x, jj_val v); // -1: has none
jj_dict *ch_jj_dict(jj_ctx *x);
jj_val *ch_jj_dict_find(jj_ctx *x, const jj_dict *d, jj_val key); // NULL: not there; fails on unhashable keys
jj_val *ch_jj_dict_find_str(jj_ctx *x, const jj_dict *d, const jj_str *key);
void ch_jj_dict_set(jj_ctx *x, jj_dict *d, jj_val key, jj_val val);
bool ch_jj_dict_remove(jj_ctx *x, jj_dict *d, jj_val key, jj_val *old);
jj_seq *ch_jj_dict_view(jj_ctx *x, const jj_dict *d, int kind); // JJ_KEYS, JJ_VALUES, JJ_ITEMS
bool ch_jj_truth(jj_ctx *x, jj_val v);
bool ch_jj_equal(jj_ctx *x, jj_val a, jj_val b);
int ch_jj_order(jj_ctx *x, jj_val a, jj_val b, const char *op); // <0, 0, >0, 2: unordered (NaN); fails on other types
void ch_jj_sort(jj_ctx *x, jj_val *key, jj_val *item, size_t n, bool reverse); // stable, by key; item moves along
jj_val ch_jj_from_json(jj_ctx *x, const json_t *j, bool copy); // copy false: strings point into j

// ---- text of values: jinja_print.c --------------------------------------------------------------------------------------
const jj_str *ch_jj_to_str(jj_ctx *x, jj_val v);  // str(v)
const jj_str *ch_jj_repr(jj_ctx *x, jj_val v);
size_t ch_jj_float_repr(double f, char out[40]);
jj_val ch_jj_filter_tojson(const jj_in *in);
jj_val ch_jj_filter_from_json(const jj_in *in);

// ---- printf and str.format: jinja_format.c ------------------------------------------------------------------------------
const jj_str *ch_jj_percent(jj_ctx *x, const jj_str *f, jj_val args);
const jj_str *ch_jj_format(jj_ctx *x, const jj_str *f, const jj_args *a);

// ---- operators: jinja_op.c ----------------------------------------------------------------------------------------------
jj_val ch_jj_math(jj_ctx *x, int op, jj_val a, jj_val b);
bool ch_jj_compare(jj_ctx *x, int op, jj_val a, jj_val b);
bool ch_jj_contains(jj_ctx *x, jj_val box, jj_val v);
jj_val ch_jj_slice(jj_ctx *x, jj_val v, jj_val start, jj_val stop, jj_val step);
jj_val ch_jj_item(jj_ctx *x, jj_val obj, jj_val key); // obj[key]
jj_val ch_jj_attr(jj_ctx *x, jj_val obj, const jj_str *name);

// ---- evaluation: jinja_eval.c, jinja_exec.c -----------------------------------------------------------------------------
jj_val ch_jj_eval(jj_ctx *x, const jj_node *n, jj_scope *s);
jj_val ch_jj_eval_filter(jj_ctx *x, const jj_node *n, jj_val self, jj_scope *s);
jj_val ch_jj_call(jj_ctx *x, jj_val f, const jj_args *a);
jj_val ch_jj_call_node(jj_ctx *x, const jj_node *n, jj_scope *s, const jj_kw *extra); // extra: NULL or one more keyword
jj_val ch_jj_call_def(jj_ctx *x, const jj_def *d, jj_val self, const jj_args *a);
jj_val ch_jj_call_macro(jj_ctx *x, const jj_macro *m, const jj_args *a);
jj_val ch_jj_lookup(jj_ctx *x, jj_scope *s, int32_t sym);
void ch_jj_assign(jj_ctx *x, jj_scope *s, int32_t sym, jj_val v);
void ch_jj_assign_target(jj_ctx *x, jj_scope *s, const jj_node *target, jj_val v);
enum { JJ_GO, JJ_BREAK, JJ_CONTINUE };
int ch_jj_exec(jj_ctx *x, const jj_list *body, jj_scope *s, jj_buf *out);
const jj_str *ch_jj_loop_again(jj_ctx *x, const jj_loop *l, jj_val over); // loop(over) of a recursive loop
jj_val ch_jj_loop_attr(jj_ctx *x, jj_loop *l, const jj_str *name);

// ---- tables -------------------------------------------------------------------------------------------------------------
const jj_def *ch_jj_find_def(const jj_def *table, const char *name, size_t n); // table ends with a NULL name
const jj_def *ch_jj_find_filter(const char *name, size_t n);
const jj_def *ch_jj_find_test(const char *name, size_t n);
const jj_def *ch_jj_find_method(jj_val obj, const jj_str *name); // of str, list, tuple, dict, loop
const jj_def *ch_jj_find_global(const char *name, size_t n);
extern const jj_def ch_jj_filters_text[], ch_jj_filters_seq[], ch_jj_methods_str[];
jj_val ch_jj_path(jj_ctx *x, jj_val v, jj_val attribute, jj_val def); // item at "a.b.0"; def ABSENT or used when undefined
bool ch_jj_run_test(jj_ctx *x, const jj_str *name, jj_val v, const jj_args *a);
// Arguments as C values; what names the parameter in messages.
const jj_str *ch_jj_arg_str(jj_ctx *x, jj_val v, const char *what);
int64_t ch_jj_arg_int(jj_ctx *x, jj_val v, const char *what, int64_t absent);
bool ch_jj_arg_bool(jj_ctx *x, jj_val v, bool absent);
bool ch_jj_given(jj_val v); // neither absent nor None

#endif
