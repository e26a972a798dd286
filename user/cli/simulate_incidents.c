// SPDX-License-Identifier: BSD-2-Clause
/* kvsteer simulate --slow 3:4@600 --restart 2@300,5@900 --agent-restart 600 --no-cache 3@600-1200
 */
#include "simulate_incidents.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "kvsteer/shared.h"

#define TIME_MAX 1e9

static bool read_engine(char **at, uint32_t *ret)
{
	unsigned long n = strtoul(*at, at, 10);

	*ret = n - 1;
	return n >= 1 && n <= KV_MAX_BACKENDS;
}

static bool read_real(char **at, double min, double max, double *ret)
{
	char *from = *at;

	*ret = strtod(from, at);
	return *at != from && *ret >= min && *ret <= max;
}

static bool follows(char **at, char c)
{
	return **at == c && (*at)++;
}

static bool read_slow(char *at, struct sim_incident *ret)
{
	return read_engine(&at, &ret->engine) && follows(&at, ':') &&
	       read_real(&at, 1e-3, 1e3, &ret->factor) &&
	       (!*at || (follows(&at, '@') && read_real(&at, 0, TIME_MAX, &ret->at_s))) && !*at;
}

static bool read_restart(char *at, struct sim_incident *ret)
{
	return read_engine(&at, &ret->engine) && follows(&at, '@') &&
	       read_real(&at, 0, TIME_MAX, &ret->at_s) && !*at;
}

static bool read_agent(char *at, struct sim_incident *ret)
{
	return read_real(&at, 0, TIME_MAX, &ret->at_s) && !*at;
}

static bool read_no_cache(char *at, struct sim_incident *ret)
{
	if (!strncmp(at, "all", 3)) {
		ret->engine = SIM_EVERY;
		at += 3;
	} else if (!read_engine(&at, &ret->engine)) {
		return false;
	}
	if (!*at)
		return true;
	return follows(&at, '@') && read_real(&at, 0, TIME_MAX, &ret->at_s) &&
	       (!*at ||
		(follows(&at, '-') && read_real(&at, ret->at_s, TIME_MAX, &ret->until_s))) &&
	       !*at;
}

struct form {
	const char *option;
	enum sim_incident_kind kind;
	bool (*read)(char *at, struct sim_incident *ret);
	const char *expected;
};

static int read_list(struct cli *cli, const struct form *form, const char *text,
		     struct sim_incidents *ret)
{
	_cleanup_free_ char *list = text ? strdup(text) : NULL;
	char *rest = list, *word;

	if (text && !list)
		return cli_error(cli, "out of memory");
	while ((word = strsep(&rest, ","))) {
		struct sim_incident incident = {.kind = form->kind};

		if (!form->read(word, &incident))
			return cli_usage(cli, "%s: found \"%s\": expected %s", form->option, word,
					 form->expected);
		if (sim_incident_add(ret, &incident))
			return cli_usage(cli, "%s: more than %d incidents", form->option,
					 SIM_INCIDENTS_MAX);
	}
	return CLI_OK;
}

int simulate_incidents(struct cli *cli, const struct incident_options *o, struct sim_incidents *ret)
{
	static const struct form forms[] = {
		{"--slow", SIM_SLOW, read_slow,
		 "ENGINE:FACTOR or ENGINE:FACTOR@SECONDS, as 3:4@600, separated by commas"},
		{"--restart", SIM_RESTART, read_restart,
		 "ENGINE@SECONDS, as 3@600, separated by commas"},
		{"--agent-restart", SIM_AGENT_RESTART, read_agent, "seconds, separated by commas"},
		{"--no-cache", SIM_CACHE_OFF, read_no_cache,
		 "ENGINE, ENGINE@SECONDS or ENGINE@FROM-TO, as 3@600 or all@600-1200, separated "
		 "by commas"},
	};

	return read_list(cli, &forms[0], o->slow, ret)
		?: read_list(cli, &forms[1], o->restart, ret)
		?: read_list(cli, &forms[2], o->agent_restart, ret)
		?: read_list(cli, &forms[3], o->no_cache, ret);
}

int simulate_incidents_check(struct cli *cli, const struct sim_incidents *incidents,
			     uint32_t backends)
{
	for (uint32_t i = 0; i < incidents->n; i++)
		if (incidents->all[i].engine >= backends && incidents->all[i].engine != SIM_EVERY)
			return cli_usage(cli,
					 "--slow, --restart, --no-cache: engine %u: there are %u",
					 incidents->all[i].engine + 1, backends);
	return CLI_OK;
}
