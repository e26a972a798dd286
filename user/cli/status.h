/* SPDX-License-Identifier: BSD-2-Clause */
/* The page of status, which top draws again and again. */
#ifndef KVSTEER_CLI_STATUS_H
#define KVSTEER_CLI_STATUS_H

#include <stdio.h>

#include "view.h"

void status_page(const struct cli *cli, const struct view *view, FILE *f);

#endif
