// SPDX-License-Identifier: BSD-2-Clause
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/config_values.h"
#include "status.h"

#define CLEAR "\033[2J"
#define HOME "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_BELOW "\033[J"
#define CURSOR_OFF "\033[?25l"
#define CURSOR_ON "\033[?25h"

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

/* The page is made in memory and each line cleared behind its end: nothing flickers. */
static int draw(const struct cli *cli, const struct view *view)
{
	_cleanup_free_ char *page = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&page, &len);

	if (!f)
		return -1;
	status_page(cli, view, f);
	fclose(f);
	fputs(HOME, stdout);
	for (const char *c = page; *c; c++) {
		if (*c == '\n')
			fputs(CLEAR_LINE, stdout);
		putchar(*c);
	}
	fputs(CLEAR_BELOW, stdout);
	return fflush(stdout);
}

/* The maps are opened every time: a new agent pins new ones. */
static int once(struct cli *cli, struct view *view)
{
	_cleanup_pins_ struct kv_pins *pins = NULL;
	int rc = cli_pins(cli, &pins) ?: view_take(cli, pins, true, view);

	if (rc)
		return rc;
	return draw(cli, view) ? CLI_FAILED : CLI_OK;
}

int do_top(struct cli *cli, int argc, char **argv)
{
	_cleanup_free_ struct view *view = malloc(sizeof(*view));
	struct sigaction action = {.sa_handler = stop};
	__u64 period = 2;
	int rc = cli_arguments(cli, &argc, argv, NULL, 0, 1);

	if (rc)
		return rc;
	if (cli->json)
		return cli_usage(cli, "top is for people: see kvsteer -j status");
	if (argc && (kv_parse_count(argv[0], &period) || !period || period > 3600))
		return cli_usage(cli, "\"%s\": expected seconds from 1 to 3600", argv[0]);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	fputs(CLEAR CURSOR_OFF, stdout);
	while (!stopped && !rc) {
		struct timespec pause = {.tv_sec = period};

		rc = once(cli, view);
		if (!rc && !stopped)
			nanosleep(&pause, NULL);
	}
	fputs(CURSOR_ON, stdout);
	return rc;
}
