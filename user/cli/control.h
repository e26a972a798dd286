/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to the running agent: one line of JSON there, one back. */
#ifndef KVSTEER_CLI_CONTROL_H
#define KVSTEER_CLI_CONTROL_H

#include "cli.h"

/* Makes {"verb": verb} the document's root and returns it. */
yyjson_mut_val *control_request(yyjson_mut_doc *doc, const char *verb);

/* Sends the document and reads the answer; 0, or an exit code after the error was told, the agent's
 * own errors too. */
int control_call(struct cli *cli, const yyjson_mut_doc *request, yyjson_doc **ret);

/* control_call, then tells done, or passes the answer on with -j. Returns an exit code. */
int control_do(struct cli *cli, const yyjson_mut_doc *request, const char *done);

#endif
