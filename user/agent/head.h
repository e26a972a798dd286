/* SPDX-License-Identifier: BSD-2-Clause */
/* Edits of a request's text that has been parsed and found well-formed. */
#ifndef AGENT_HEAD_H
#define AGENT_HEAD_H

#include <stddef.h>

/* Takes all fields of this name out of the head at text; returns its new length. What follows
 * the head is not moved. */
size_t head_remove(char *text, size_t head_len, const char *name);
/* The data of a whole, well-formed chunked body, without its framing. Returns its length; out has
 * room for len bytes. */
size_t chunked_data(const char *body, size_t len, char *out);

#endif
