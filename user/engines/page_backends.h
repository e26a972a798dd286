/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef ENGINES_PAGE_BACKENDS_H
#define ENGINES_PAGE_BACKENDS_H

#include "engines/expose.h"
#include "engines/page.h"

/* Everything that is of a backend. */
void page_backends(struct expose *e, const struct view *v);

#endif
