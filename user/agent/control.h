/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control socket: one JSON object per line in, one per line out.
 *
 *	{"verb": "status"}
 *	{"verb": "backend-add", "service": S, "address": A [, "name", "capacity", "rate"]}
 *	{"verb": "backend-drain", "name": N}      {"verb": "backend-undrain", "name": N}
 *	{"verb": "backend-remove", "name": N}     {"verb": "backend-show", "name": N}
 *	{"verb": "serving", "service": S, "model": M}, answered with "backends", their ids
 *	{"verb": "restart" [, "program": path]}, answered when that program has been asked
 *	{"verb": "apply", "config": TEXT [, "file": what messages call it]}
 *
 * Answer: {"ok": true, …} or {"ok": false, "error": "one line"}.
 */
#ifndef AGENT_CONTROL_H
#define AGENT_CONTROL_H

#include "agent/agent.h"

int control_open(struct agent *agent, const char *path);
void control_close(struct agent *agent);

#endif
