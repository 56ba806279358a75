/* plain_name.c -- a linker symbol as a person writes it: namespaces and name, nothing else.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      symbolize.c and elf_lines.c -> here -> the C++ runtime's own demangler, where the
 *             machine has it. Without it a C++ name stays as it is.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tools/alloc.h"
#include "tools/symbolize.h"

enum { TEMPLATE_MAX = 48 }; /* template arguments longer than this become <...> */

static char *demangle(const char *symbol)
{
    typedef char *demangler(const char *, char *, size_t *, int *);
    static demangler *function;
    static bool looked;
    if (!looked) {
        void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
        void *address = library ? dlsym(library, "__cxa_demangle") : NULL;
        memcpy(&function, &address, sizeof(function));
        looked = true;
    }
    int status = 0;
    return function ? function(symbol, NULL, NULL, &status) : NULL;
}

/* The end of the bracketed part that starts at `text`; NULL where it is not closed. An arrow or a
 * shift inside template arguments is no bracket. */
static const char *closing(const char *text)
{
    int depth = 0;
    for (const char *at = text; *at; at++) {
        if (!strncmp(at, "->", 2) || !strncmp(at, ">=", 2) || !strncmp(at, "<=", 2))
            at++;
        else if (strchr("<({[", *at))
            depth++;
        else if (strchr(">)}]", *at) && --depth == 0)
            return at + 1;
    }
    return NULL;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

/* Behind "operator": its symbol, or the type of a conversion, up to its parameters or template
 * arguments. */
static const char *operator_end(const char *at)
{
    static const char *const symbols[] = {"()", "[]", "<=>", "<<=", ">>=", "->*", "->",
                                          "<<", ">>", "<=",  ">=",  "<",   ">"};
    for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
        size_t length = strlen(symbols[i]);
        if (!strncmp(at, symbols[i], length)) /* "operator< <int>" */
            return at + length + (at[length] == ' ' && at[length + 1] == '<');
    }
    if (*at == ' ' || *at == '"') { /* new, delete[], conversions, literals */
        while (*at && *at != '(') {
            const char *end = *at == '<' ? closing(at) : at + 1;
            if (!end)
                break;
            at = end;
        }
        return at;
    }
    while (*at && !is_word(*at) && !strchr("(< ", *at))
        at++;
    return at;
}

/* Behind a parameter list: skips cv and ref qualifiers; true where the name goes on (a lambda or a
 * class local to a function). */
static bool goes_on(const char **at)
{
    static const char *const qualifiers[] = {" const", " volatile", " &&", " &", " noexcept"};
    for (size_t i = 0; i < sizeof(qualifiers) / sizeof(*qualifiers); i++) {
        if (!strncmp(*at, qualifiers[i], strlen(qualifiers[i]))) {
            *at += strlen(qualifiers[i]);
            i = (size_t)-1;
        }
    }
    return !strncmp(*at, "::", 2);
}

struct output {
    char *text;
    size_t length;
};

static void put(struct output *out, const char *from, const char *to)
{
    memmove(out->text + out->length, from, (size_t)(to - from));
    out->length += (size_t)(to - from);
}

/* One step over a bracket at the top level. Returns where to go on, or NULL at the end of the
 * name. */
static const char *take_bracket(struct output *out, const char *start, const char *at)
{
    const char *end = closing(at);
    if (!end)
        return NULL;
    if (*at == '<' && end - at > TEMPLATE_MAX) {
        static const char short_form[] = "<...>";
        put(out, short_form, strchr(short_form, 0));
    } else if (*at != '(' || !strncmp(at, "(anonymous namespace)", 21) ||
               (at - start >= 8 && !strncmp(at - 8, "decltype", 8))) {
        put(out, at, end);
    } else if (!goes_on(&end)) {
        return NULL;
    }
    return end;
}

/* Works in place: what is written never overtakes what is read ("<...>" stands for more). */
static void strip(char *name)
{
    struct output out = {name, 0};
    const char *at = name;
    while (at && *at) {
        if (!strncmp(at, "operator", 8) && (at == name || !is_word(at[-1])) && !is_word(at[8])) {
            const char *end = operator_end(at + 8);
            put(&out, at, end);
            at = end;
        } else if (strchr("<({", *at)) {
            at = take_bracket(&out, name, at);
        } else if (*at == ' ') {
            if (at[1] == '[')
                break; /* " [clone .cold]", " [abi:cxx11]" stays attached and never has a space */
            out.length = 0; /* a return type came before */
            at++;
        } else {
            put(&out, at, at + 1);
            at++;
        }
    }
    if (out.length) /* else no shape that is known here: the whole text */
        name[out.length] = 0;
}

char *vg_symbols_plain_name(const char *symbol)
{
    size_t length = strcspn(symbol, "@"); /* a version */
    char *name = vg_need(strndup(symbol, length));
    if (!strncmp(name, "_Z", 2)) {
        char *text = demangle(name);
        if (!text)
            return name;
        free(name);
        strip(text);
        return text;
    }
    char *suffix = name[0] ? strchr(name + 1, '.') : NULL; /* .constprop.0, .part.1, .cold */
    if (suffix)
        *suffix = 0;
    return name;
}
