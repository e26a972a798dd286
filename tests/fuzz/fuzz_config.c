// SPDX-License-Identifier: BSD-2-Clause
/*
 * Any text as a configuration: it is refused with a message of one line, or it is taken, keeps
 * its promises, and differs from itself in nothing.
 */
#include <stdint.h>
#include <stdlib.h>

#include "common/addr.c"
#include "common/config.c"
#include "common/config_check.c"
#include "common/config_diff.c"
#include "common/config_discover.c"
#include "common/config_events.c"
#include "common/config_follow.c"
#include "common/config_read.c"
#include "common/config_rules.c"
#include "common/config_schema.c"
#include "common/config_tree.c"
#include "common/config_values.c"
#include "common/config_verify.c"

static void require(int condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char err[KV_CONFIG_ERROR_LEN] = "";
	struct kv_config *config = NULL;
	struct kv_diff diff;
	int rc = kv_config_load_text("fuzz", (const char *)data, size, &config, err, sizeof(err));

	if (rc) {
		require(!config && !strncmp(err, "fuzz:", 5) && !strchr(err, '\n'));
		return 0;
	}
	require(config->n_services >= 1 && config->n_services <= KV_MAX_SERVICES);
	require(config->max_backends <= KV_MAX_BACKENDS);
	require(config->upstreams_per_backend % 64 == 0);
	require(!kv_config_diff(config, config, &diff) && !diff.n);
	kv_diff_free(&diff);
	kv_config_free(config);
	return 0;
}
