// jinja_parse: private to the lexer and the two halves of the template parser.
#ifndef CH_TEXT_JINJA_PARSE_H
#define CH_TEXT_JINJA_PARSE_H

#include "text/jinja.h"

// ---- lexer --------------------------------------------------------------------------------------------------------------
enum {
    JJ_T_EOF, JJ_T_DATA, JJ_T_VAR_BEGIN, JJ_T_VAR_END, JJ_T_BLOCK_BEGIN, JJ_T_BLOCK_END, JJ_T_NAME, JJ_T_STRING,
    JJ_T_INT, JJ_T_FLOAT, JJ_T_OP
};
typedef struct jj_token {
    int type, line;
    const char *p; // DATA, NAME: text; STRING: decoded text; OP: spelling
    size_t n;
    int64_t i;
    double f;
} jj_token;
typedef struct jj_lexer {
    jj_ctx *x;
    const char *src; // line ends are '\n'
    size_t n, pos;
    int line;
    int state; // private
    size_t n_open;
    char open[JJ_MAX_NEST]; // brackets
    bool at_begin; // private
} jj_lexer;
void ch_jj_lex_init(jj_lexer *l, jj_ctx *x, const char *src, size_t n);
void ch_jj_lex_next(jj_lexer *l, jj_token *t);

// ---- parser -------------------------------------------------------------------------------------------------------------
typedef struct jj_parser {
    jj_ctx *x;
    jj_lexer lex;
    jj_token tok, ahead;
    bool has_ahead;
    int depth, loops;
    uint8_t uses; // of the macro being read
    ch_template *t;
    size_t cap_sym;
    uint32_t *sym_slot;
    size_t n_sym_slot;
} jj_parser;
// shared by the two halves of the parser
jj_node *ch_jj_node(jj_parser *p, int kind);
void ch_jj_list_add(jj_ctx *x, jj_list *l, jj_node *n);
int32_t ch_jj_symbol(jj_parser *p, const char *name, size_t n);
void ch_jj_advance(jj_parser *p);
const jj_token *ch_jj_ahead(jj_parser *p);
bool ch_jj_at_op(const jj_parser *p, const char *op);
bool ch_jj_at_name(const jj_parser *p, const char *name);
bool ch_jj_skip_op(jj_parser *p, const char *op);
bool ch_jj_skip_name(jj_parser *p, const char *name);
void ch_jj_expect_op(jj_parser *p, const char *op);
_Noreturn void ch_jj_unexpected(jj_parser *p, const char *expected);
jj_node *ch_jj_parse_expr(jj_parser *p, bool with_cond);
enum { JJ_TUPLE_PLAIN, JJ_TUPLE_NO_COND, JJ_TUPLE_PARENS, JJ_TUPLE_TARGET };
jj_node *ch_jj_parse_tuple(jj_parser *p, int mode, const char *end_name); // end_name: NULL or a word that ends it
jj_node *ch_jj_parse_filters(jj_parser *p, jj_node *n, bool inline_start);
const jj_str *ch_jj_token_str(jj_parser *p); // text of the current token as a literal

#endif
