/* SPDX-License-Identifier: BSD-2-Clause */
/* The carrier: a process that holds packets and sends them on when they are due. */
#ifndef KVSTEER_TESTS_IMPAIR_CARRY_H
#define KVSTEER_TESTS_IMPAIR_CARRY_H

#include "impair.h"

struct carry {
	int ring;   /* fd of the ring's map */
	int packet; /* packet socket that frames go out by */
	struct impair_state *state;
	const struct impair_config *config;
};

/* Runs until state->stop, or until the interface is gone; 0 or -errno. */
int carry_run(const struct carry *carry);

#endif
