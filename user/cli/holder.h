/* SPDX-License-Identifier: BSD-2-Clause */
/* Who holds a prefix or a session. */
#ifndef KVSTEER_CLI_HOLDER_H
#define KVSTEER_CLI_HOLDER_H

#include "view.h"

yyjson_mut_val *holder_json(yyjson_mut_doc *doc, const struct view *view, __u64 holder);
/* Empty places are left out. */
void holder_table(const struct view *view, const __u64 *holders, size_t n);
/* "live", "down", "lost" (epoch), "evicted" (clock): what is believed of it. */
const char *holder_state(const struct view *view, __u64 holder);
/* Whether the engine said so, and where it is; or it was learned. */
const char *holder_kind(const struct view *view, __u64 holder);

#endif
