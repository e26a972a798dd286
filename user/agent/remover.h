/* SPDX-License-Identifier: BSD-2-Clause */
/* At an orderly end: takes away what is root's, for an agent that is not root any more. */
#ifndef AGENT_REMOVER_H
#define AGENT_REMOVER_H

#include <stdbool.h>

#include "common/config.h"

/* While we are root. Prints what fails. */
int remover_start(const struct kv_config *config);
/* True when they are gone; false if there is no remover: the caller removes them itself. */
bool remover_pins(void);
bool remover_control(void);

#endif
