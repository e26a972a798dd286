// SPDX-License-Identifier: BSD-2-Clause
/* kv-replay: a Mooncake-form trace as real HTTP requests, and what came of them. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "report.h"

static const char usage_text[] =
	"usage: kv-replay --to ADDRESS:PORT [OPTION…] TRACE\n"
	"\n"
	"Sends the requests of TRACE (JSON lines of timestamp, input_length, output_length,\n"
	"hash_ids; plain or gzip) at the trace's times, each on a connection of its own or a kept\n"
	"one, and prints a summary in JSON. Equal block ids give equal text.\n"
	"\n"
	"  --to ADDRESS:PORT  where to send; [ADDRESS]:PORT for IPv6\n"
	"  --speed X          run time X times faster (default 1)\n"
	"  --scale X          X times the prompt's tokens, of 4 bytes each (default 1)\n"
	"  --answers X        X times the answer's tokens (default: as --scale)\n"
	"  --limit N          only the first N requests\n"
	"  --hint             send KV-Prefix, made by libkvsteer\n"
	"  --api NAME         chat (default) or completions\n"
	"  --model NAME       model to ask for (default emulated)\n"
	"  --netns NAME       connect from this network namespace; may be given several times\n"
	"  --source ADDRESS   connect from this address; may be given several times\n"
	"  --timeout S        give a silent answer up after S seconds (default 60)\n"
	"  --merged           engines may send several tokens in one event\n"
	"  --engines N        how many engines there are, for busiest_over_mean\n"
	"  --name NAME        name of the run in the summary\n"
	"  --json FILE        summary to FILE, not to stdout\n"
	"  --tsv FILE         one line per request to FILE\n"
	"\n"
	"Exit code: 0 all answers complete, 1 some were not, 2 nothing could be run.\n";

struct arguments {
	struct replay_options replay;
	const char *trace, *name, *json, *tsv;
	size_t limit;
	unsigned int engines;
};

static double positive(const char *option, const char *value)
{
	char *end;
	double x = strtod(value, &end);

	if (*end || !(x > 0)) {
		fprintf(stderr, "kv-replay: --%s %s: want a number over 0\n", option, value);
		exit(2);
	}
	return x;
}

static void add_source(struct replay_options *o, struct source source)
{
	if (o->n_sources == MAX_SOURCES) {
		fprintf(stderr, "kv-replay: more than %d of --netns and --source\n", MAX_SOURCES);
		exit(2);
	}
	o->sources[o->n_sources++] = source;
}

static void read_option(struct arguments *a, const char *option, char *value)
{
	struct replay_options *o = &a->replay;

	if (!strcmp(option, "to"))
		o->to = value;
	else if (!strcmp(option, "speed"))
		o->speed = positive(option, value);
	else if (!strcmp(option, "scale"))
		o->shape.scale = positive(option, value);
	else if (!strcmp(option, "answers"))
		o->shape.answer_scale = positive(option, value);
	else if (!strcmp(option, "limit"))
		a->limit = positive(option, value);
	else if (!strcmp(option, "hint"))
		o->hint = true;
	else if (!strcmp(option, "api") &&
		 (!strcmp(value, "chat") || !strcmp(value, "completions")))
		o->shape.chat = !strcmp(value, "chat");
	else if (!strcmp(option, "model"))
		o->shape.model = value;
	else if (!strcmp(option, "netns"))
		add_source(o, (struct source){.netns = value});
	else if (!strcmp(option, "source"))
		add_source(o, (struct source){.address = value});
	else if (!strcmp(option, "timeout"))
		o->timeout_s = positive(option, value) + 0.5;
	else if (!strcmp(option, "merged"))
		o->merged = true;
	else if (!strcmp(option, "engines"))
		a->engines = positive(option, value);
	else if (!strcmp(option, "name"))
		a->name = value;
	else if (!strcmp(option, "json"))
		a->json = value;
	else if (!strcmp(option, "tsv"))
		a->tsv = value;
	else {
		fprintf(stderr, "kv-replay: --%s %s: want chat or completions\n", option, value);
		exit(2);
	}
}

static void read_arguments(int argc, char **argv, struct arguments *a)
{
	static const struct option options[] = {
		{"to", required_argument, NULL, 0},	 {"speed", required_argument, NULL, 0},
		{"scale", required_argument, NULL, 0},	 {"answers", required_argument, NULL, 0},
		{"limit", required_argument, NULL, 0},	 {"hint", no_argument, NULL, 0},
		{"api", required_argument, NULL, 0},	 {"model", required_argument, NULL, 0},
		{"netns", required_argument, NULL, 0},	 {"source", required_argument, NULL, 0},
		{"timeout", required_argument, NULL, 0}, {"merged", no_argument, NULL, 0},
		{"engines", required_argument, NULL, 0}, {"name", required_argument, NULL, 0},
		{"json", required_argument, NULL, 0},	 {"tsv", required_argument, NULL, 0},
		{"help", no_argument, NULL, 'h'},	 {},
	};
	int which, got;

	while ((got = getopt_long(argc, argv, "h", options, &which)) != -1) {
		if (got == 'h') {
			fputs(usage_text, stdout);
			exit(0);
		}
		if (got)
			exit(2); /* getopt has said why */
		read_option(a, options[which].name, optarg);
	}
	if (optind + 1 != argc || !a->replay.to) {
		fputs(usage_text, stderr);
		exit(2);
	}
	a->trace = argv[optind];
	if (a->replay.shape.answer_scale == 0)
		a->replay.shape.answer_scale = a->replay.shape.scale;
	if (!a->replay.n_sources)
		a->replay.n_sources = 1;
}

static FILE *open_output(const char *file)
{
	FILE *out = fopen(file, "w");

	if (!out)
		fprintf(stderr, "kv-replay: cannot write %s: %s\n", file, strerror(errno));
	return out;
}

static int write_reports(const struct arguments *a, const struct report *r)
{
	FILE *out = a->json ? open_output(a->json) : stdout;
	int err = out ? report_json(r, out) : -EIO;

	if (out && out != stdout)
		err = fclose(out) ? -EIO : err;
	if (!a->tsv)
		return err;
	out = open_output(a->tsv);
	if (!out)
		return -EIO;
	report_tsv(r, out);
	return fclose(out) ? -EIO : err;
}

int main(int argc, char **argv)
{
	struct arguments a = {
		.name = "replay",
		.replay = {.speed = 1,
			   .timeout_s = 60,
			   .shape = {.model = "emulated", .chat = true, .scale = 1}},
	};
	struct report report;
	struct trace trace;
	struct outcome *outcomes;
	unsigned int connections = 0;
	int err = 2;

	signal(SIGPIPE, SIG_IGN);
	read_arguments(argc, argv, &a);
	if (trace_load(a.trace, a.limit, &trace))
		return 2;
	outcomes = calloc(trace.n, sizeof(*outcomes));
	if (outcomes && !replay_run(&a.replay, &trace, outcomes, &connections)) {
		report = (struct report){a.name, outcomes, trace.n, a.engines, connections};
		err = write_reports(&a, &report) ? 2 : 0;
		for (size_t i = 0; !err && i < trace.n; i++)
			err = outcomes[i].error != NULL;
	}
	free(outcomes);
	trace_free(&trace);
	return err;
}
