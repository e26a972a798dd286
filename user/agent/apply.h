/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes while running: what the control socket's verbs do. */
#ifndef AGENT_APPLY_H
#define AGENT_APPLY_H

#include <yyjson.h>

#include "agent/agent.h"
#include "common/config_diff.h"

/* Each 0, or -errno with one line in err. out: object to add results to. */
int apply_config(struct agent *agent, const char *name, const char *text, size_t len,
		 yyjson_mut_doc *doc, yyjson_mut_val *out, char *err, size_t errlen);
/* What the file says that the maps, taken over, do not. Takes to over. */
int apply_file(struct agent *agent, struct kv_config *to, char *err, size_t errlen);
int apply_backend_add(struct agent *agent, const char *service, struct kv_config_backend *backend,
		      char *err, size_t errlen);
int apply_backend_drain(struct agent *agent, const char *name, char *err, size_t errlen);
int apply_backend_undrain(struct agent *agent, const char *name, char *err, size_t errlen);
/* Without any question whose it is. */
void apply_backend_take(struct agent *agent, const char *name);
int apply_backend_remove(struct agent *agent, const char *name, char *err, size_t errlen);

/* Whether all of it can be done; changes nothing but, perhaps, attaches to further interfaces. */
int apply_check(struct agent *agent, const struct kv_config *to, const struct kv_diff *diff,
		char *err, size_t errlen);
void apply_say(char *err, size_t errlen, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
