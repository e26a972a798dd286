/* SPDX-License-Identifier: BSD-2-Clause */
/* The pin directory in bpffs: it appears whole or not at all. */
#ifndef AGENT_PIN_H
#define AGENT_PIN_H

#include <stdbool.h>

struct bpf_map;
struct bpf_object;

/* The directory's own parent must be a BPF file system; the usual one is mounted where there is
 * none. Prints what fails. */
int pin_prepare(const char *dir);
/* Pins all named maps into dir, which replaces what an agent that was killed has left there.
 * Prints what fails. */
int pin_maps(struct bpf_object *object, const char *dir);
/* The same where some of them are those that are pinned there: the others take their places. */
int pin_maps_again(struct bpf_object *object, const char *dir);
/* Which maps are pinned: those that another process can make use of. */
bool pin_wanted(const struct bpf_map *map);
void pin_remove(const char *dir);

#endif
