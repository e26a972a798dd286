/* SPDX-License-Identifier: BSD-2-Clause */
/* Where an impairment is: a direction of an interface; its filter, its pin, its carrier. */
#ifndef KVSTEER_TESTS_IMPAIR_PLACE_H
#define KVSTEER_TESTS_IMPAIR_PLACE_H

#include "impair.h"

/* Replaces what is there. Prints what is wrong, and the carrier's pid on stdout. */
int place_attach(const char *device, bool ingress, const struct impair_config *config);
int place_state(const char *device, bool ingress, struct impair_state *ret_state);
void place_detach(const char *device, bool ingress);

#endif
