// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traffic.h"

int main(int argc, char **argv)
{
	struct traffic_result result = {0};
	struct traffic_options options;
	int err;

	if (traffic_parse_options(argc, argv, &options))
		return 2;
	err = traffic_run(&options, &result);
	if (err) {
		fprintf(stderr, "kv-traffic: %s\n", strerror(-err));
		return 2;
	}
	err = traffic_report(&options, &result);
	free(result.latency_us);
	free(result.first_us);
	return err;
}
