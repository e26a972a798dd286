/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COMMON_VERSION_H
#define COMMON_VERSION_H

/* What git describes the built tree as; the pins carry it. */
extern const char kv_version[32];

#endif
