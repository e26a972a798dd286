/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef KVSTEER_REASON_H
#define KVSTEER_REASON_H

/* The reason phrase of a status that kvsteer or its emulated engine answers with (RFC 9110, section
 * 15). */
const char *kv_reason_phrase(int status);

#endif
