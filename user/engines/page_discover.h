/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef ENGINES_PAGE_DISCOVER_H
#define ENGINES_PAGE_DISCOVER_H

#include "engines/expose.h"
#include "engines/page.h"

void page_discover(struct expose *e, const struct view *v);

#endif
