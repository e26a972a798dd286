// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <string.h>

#include "load.h"

int main(int argc, char **argv)
{
	struct load_requests requests = {0};
	struct load_result result = {0};
	struct load_options options;
	int err;

	if (load_parse_options(argc, argv, &options))
		return 2;
	err = load_make_requests(&options, &requests);
	if (!err)
		err = load_run(&options, &requests, &result);
	if (!err)
		err = load_report(&options, &requests, &result);
	if (err) {
		fprintf(stderr, "kv-load: %s\n", strerror(-err));
		return 1;
	}
	return 0;
}
