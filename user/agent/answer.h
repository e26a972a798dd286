/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers of the agent's own: errors, as one line of JSON in OpenAI's form. */
#ifndef AGENT_ANSWER_H
#define AGENT_ANSWER_H

#include "agent/client.h"

/* Sends the error and closes gently. code: a word for programs; message: a sentence. */
void answer_error(struct client *c, int status, const char *code, const char *message);
/* The head or body cannot be accepted; counts requests_refused. */
void answer_refuse(struct client *c, int status, const char *code, const char *message);
void answer_unavailable(struct client *c, const char *message);
void answer_bad_gateway(struct client *c);
/* No backend serves this model: 404 in OpenAI's form. */
void answer_no_model(struct client *c, const char *model, size_t len);
/* 408 */
void answer_too_slow(struct client *c);
void answer_timeout(struct client *c);

#endif
