/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading and edits of text that has been parsed and found well-formed. */
#ifndef AGENT_HEAD_H
#define AGENT_HEAD_H

#include <stddef.h>

/* Takes all fields of this name out of the head at text; returns its new length. What follows
 * the head is not moved. */
size_t head_remove(char *text, size_t head_len, const char *name);
/* The value of the first field of this name, as far as text has it; NULL: there is none. */
const char *head_value(const char *text, size_t len, const char *name, size_t *ret_len);
/* The data of a whole, well-formed chunked body, without its framing. Returns its length; out has
 * room for len bytes. */
size_t chunked_data(const char *body, size_t len, char *out);

#endif
