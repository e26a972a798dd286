/* SPDX-License-Identifier: BSD-2-Clause */
/* One line of the control socket (control.h) on its way through the verb it names. */
#ifndef AGENT_CONTROL_CALL_H
#define AGENT_CONTROL_CALL_H

#include "agent/agent.h"
#include "common/json.h"

struct connection;

struct call {
	struct agent *agent;
	struct connection *conn;
	bool later; /* the answer is not known yet */
	yyjson_val *in;
	yyjson_mut_doc *doc;
	yyjson_mut_val *out;
	char err[KV_CONFIG_ERROR_LEN];
};

/* 0, or -errno and why in err. */
int call_run(struct call *call);
/* err NULL: ok. What else the answer says is in out already. */
void control_answer(struct connection *conn, yyjson_mut_doc *doc, yyjson_mut_val *out,
		    const char *err);
struct agent *control_agent(const struct connection *conn);

#endif
