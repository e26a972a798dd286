/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs side by side, as a picture (SVG). */
#ifndef KVSTEER_SIM_PLOT_H
#define KVSTEER_SIM_PLOT_H

#include <stdio.h>

#include "sim/sim.h"

/* TTFT's P90 and the hit rate: against speed, or as bars if there is only one. -EIO. */
int sim_plot(FILE *f, const char *title, const struct sim_result *results, unsigned int n);

#endif
