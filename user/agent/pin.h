/* SPDX-License-Identifier: BSD-2-Clause */
/* The pin directory in bpffs: it appears whole or not at all. */
#ifndef AGENT_PIN_H
#define AGENT_PIN_H

struct bpf_object;

/* The directory's own parent must be a BPF file system; the usual one is mounted where there is
 * none. Prints what fails. */
int pin_prepare(const char *dir);
/* Pins all named maps into dir, which replaces what an agent that was killed has left there.
 * Prints what fails. */
int pin_maps(struct bpf_object *object, const char *dir);
void pin_remove(const char *dir);

#endif
