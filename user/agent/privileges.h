/* SPDX-License-Identifier: BSD-2-Clause */
/* What kvsteerd may do: less and less. */
#ifndef AGENT_PRIVILEGES_H
#define AGENT_PRIVILEGES_H

#include "common/config.h"

/*
 * At the very beginning of the process, for it and all that it will fork or exec: what kvsteerd
 * never needs goes, from all sets; no new privileges. Prints what fails.
 */
int privileges_limit(const struct kv_config *config);

/*
 * The agent, once all is open: keeps what serving needs, becomes config->user if there is one. What
 * must be able to start a new agent is to be forked before. Prints what fails.
 */
int privileges_drop(const struct kv_config *config);

/* Whom the agent becomes: the configuration's user, else KVSTEER_USER; NULL: it stays who it is. */
const char *privileges_user(const struct kv_config *config);

/* For what needs none. */
int privileges_none(void);

#endif
