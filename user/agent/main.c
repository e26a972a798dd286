// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>

#include "agent/agent.h"
#include "agent/options.h"
#include "agent/privileges.h"
#include "common/log.h"

int main(int argc, char **argv)
{
	struct kv_config *config;
	struct agent *agent;
	int exit_code, err;

	kv_log_libbpf();
	config = options_read(argc, argv, &exit_code);
	if (!config)
		return exit_code;
	if (privileges_limit(config)) {
		kv_config_free(config);
		return EXIT_FAILURE;
	}
	agent = calloc(1, sizeof(*agent));
	if (!agent) {
		kv_err("out of memory");
		return EXIT_FAILURE;
	}
	err = agent_open(agent, config);
	if (!err)
		err = agent_run(agent);
	agent_close(agent);
	free(agent);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
