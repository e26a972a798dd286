// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/handover.h"
#include "agent/options.h"
#include "agent/privileges.h"
#include "agent/restart.h"
#include "agent/supervisor.h"
#include "common/log.h"

/* After a crash what was in force counts, as long as the maps are there that say of what services.
 */
static struct kv_config *config_of_before(struct keeper *keeper)
{
	struct kv_config *config = handover_config(keeper);

	if (!config || !handover_maps_meta(config))
		return config;
	kv_config_free(config);
	return NULL;
}

static int run_agent(const struct keeper *keeper, struct kv_config *config, const char *file)
{
	struct agent *agent = calloc(1, sizeof(*agent));
	int err;

	if (!agent) {
		kv_err("out of memory");
		return EXIT_FAILURE;
	}
	agent->keeper = *keeper;
	agent->file = file;
	agent->keeper.path_fixed = privileges_user(config);
	err = keeper_start(&agent->keeper, config);
	if (!err)
		err = agent_open(agent, config);
	/* Whom sockets were handed to must not close them: its keeper tries again. */
	if (err && keeper_lives(&agent->keeper) &&
	    (keeper->why == KEEPER_CRASH || keeper->why == KEEPER_RESTART))
		_exit(EXIT_FAILURE);
	if (!err)
		err = agent_run(agent);
	if (err || !restart_anew(agent))
		keeper_ending(&agent->keeper);
	agent_close(agent);
	free(agent);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct keeper keeper = {};
	struct kv_config *config;
	struct options options;
	int exit_code;
	pid_t pid;

	kv_log_libbpf();
	exit_code = options_parse(argc, argv, &options);
	if (exit_code >= 0)
		return exit_code;
	if (options.check) {
		config = options_config(&options);
		if (config)
			restart_print_check(config);
		kv_config_free(config);
		return config ? EXIT_SUCCESS : EXIT_FAILURE;
	}
	signals_block();
	prctl(PR_SET_NAME, "kvsteerd"); /* also when executed by another path */
	if (keeper_open(&keeper, argv)) {
		kv_err("cannot begin: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	/* Sockets of units, and those that an agent before has left there. */
	if (keeper.why == KEEPER_FRESH && sd_listen_fds(true) > 0)
		keeper.why = KEEPER_MANAGER;
	config = config_of_before(&keeper);
	if (!config)
		config = options_config(&options);
	if (!config)
		return EXIT_FAILURE;
	if (privileges_limit(config)) {
		kv_config_free(config);
		return EXIT_FAILURE;
	}
	pid = supervised() ? 0 : supervisor_fork();
	if (!pid)
		return run_agent(&keeper, config, options.file);
	kv_config_free(config);
	if (pid > 0)
		return supervise(pid);
	kv_err("cannot begin: %s", strerror(-pid));
	return EXIT_FAILURE;
}
