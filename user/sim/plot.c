// SPDX-License-Identifier: BSD-2-Clause
#include "sim/plot.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "sim/svg.h"

#define LINES_MAX 64 /* policies */
#define WIDTH 1000.0
#define PANEL_WIDTH 330.0
#define PANEL_HEIGHT 300.0
#define PANEL_TOP 96.0
#define LEFT 62.0
#define GAP 76.0 /* between the panels: the second one's numbers */
#define LEGEND_ROW 21.0
#define BAR_ROW 26.0
#define BAR_ROOM 60.0 /* for a bar's number */

/* Okabe and Ito's colours: told apart by everybody. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
				      "#e69f00", "#56b4e9", "#000000", "#999999"};

#define N_COLOURS (sizeof(colours) / sizeof(*colours))

struct picture {
	const struct sim_result *results;
	unsigned int n;
	const struct sim_policy *policies[LINES_MAX]; /* in order of appearance */
	unsigned int n_policies;
	double slowest, fastest; /* speeds */
};

struct panel {
	const char *title;
	double left;
	double low, high; /* of the values; logarithms if so */
	bool logarithmic;
	double (*value)(const struct sim_result *r);
	const char *(*label)(double v, char *text, size_t len);
};

static double p90_of(const struct sim_result *r)
{
	return r->ttft_p90;
}

static double hits_of(const struct sim_result *r)
{
	return r->hit_rate;
}

static const char *seconds(double v, char *text, size_t len)
{
	snprintf(text, len, "%.3g s", v);
	return text;
}

static const char *percents(double v, char *text, size_t len)
{
	snprintf(text, len, "%.3g %%", 100 * v);
	return text;
}

static unsigned int line_of(const struct picture *p, const struct sim_result *r)
{
	unsigned int i = 0;

	while (i < p->n_policies && p->policies[i] != r->policy)
		i++;
	return i;
}

static const char *colour_of(unsigned int line)
{
	return colours[line % N_COLOURS];
}

/* Peers' lines are dashed, and so are a second round of the colours. */
static const char *dashes_of(const struct picture *p, unsigned int line)
{
	return p->policies[line]->peer ? "5 4" : line >= N_COLOURS ? "1 4" : "none";
}

/* ---- scales --------------------------------------------------------------------------- */

static double x_of(const struct picture *p, const struct panel *a, double speed)
{
	return a->left + PANEL_WIDTH * (speed - p->slowest) / (p->fastest - p->slowest);
}

static double share_of(const struct panel *a, double v)
{
	if (a->logarithmic)
		v = log10(v > 0 ? v : 1e-9);
	v = (v - a->low) / (a->high - a->low);
	return v < 0 ? 0 : v > 1 ? 1 : v;
}

static double y_of(const struct panel *a, double v)
{
	return PANEL_TOP + PANEL_HEIGHT * (1 - share_of(a, v));
}

/* The next of 1, 2, 5, 10 … that is no less. */
static double round_up(double v)
{
	double power = pow(10, floor(log10(v)));

	return v <= power	? power
	       : v <= 2 * power ? 2 * power
	       : v <= 5 * power ? 5 * power
				: 10 * power;
}

static void scale(const struct picture *p, struct panel *a, double ceiling)
{
	double least = 1e300, most = 0;

	for (unsigned int i = 0; i < p->n; i++) {
		double v = a->value(&p->results[i]);

		least = fmin(least, v);
		most = fmax(most, v);
	}
	if (a->logarithmic) {
		least = fmax(least, 1e-3);
		a->low = log10(least * 0.9);
		a->high = log10(fmax(most, least * 2) * 1.1);
	} else {
		a->low = 0;
		a->high = fmax(most, ceiling) * 1.08;
		if (a->high <= 0)
			a->high = 1;
	}
}

static void grid_line(FILE *f, const struct panel *a, double v)
{
	char text[32];

	svg_line(f, a->left, y_of(a, v), a->left + PANEL_WIDTH, y_of(a, v), SVG_GRID, 1, "none");
	svg_text(f, a->left - 8, y_of(a, v) + 4, "end", SVG_PALE, 12, "normal",
		 a->label(v, text, sizeof(text)));
}

static void grid(FILE *f, const struct panel *a)
{
	static const double steps[] = {1, 2, 5};
	bool dense = a->high - a->low < 2.3;

	if (a->logarithmic) {
		for (double power = pow(10, floor(a->low)); power <= pow(10, a->high); power *= 10)
			for (unsigned int i = 0; i < 3; i += dense ? 1 : 3)
				if (log10(power * steps[i]) >= a->low &&
				    log10(power * steps[i]) <= a->high)
					grid_line(f, a, power * steps[i]);
	} else {
		double step = round_up((a->high - a->low) / 6);

		for (int i = 0; i * step <= a->high * 1.0001; i++)
			grid_line(f, a, i * step);
	}
}

/* ---- against speed -------------------------------------------------------------------- */

static void speeds_axis(FILE *f, const struct picture *p, const struct panel *a)
{
	double y = PANEL_TOP + PANEL_HEIGHT, last = -1e9;
	char text[32];

	svg_line(f, a->left, y, a->left + PANEL_WIDTH, y, SVG_INK, 1.2, "none");
	for (unsigned int i = 0; i < p->n; i++) {
		double x = x_of(p, a, p->results[i].speed);

		if (x < last + 24) /* of the same speed, or too near to be read */
			continue;
		last = x;
		svg_line(f, x, y, x, y + 4, SVG_INK, 1.2, "none");
		snprintf(text, sizeof(text), "\303\227%g", p->results[i].speed);
		svg_text(f, x, y + 18, "middle", SVG_PALE, 12, "normal", text);
	}
	svg_text(f, a->left + PANEL_WIDTH / 2, y + 38, "middle", SVG_INK, 13, "normal",
		 "speed of the trace");
}

/* Lines first, marks over them; the first policies over the later ones. */
static void lines(FILE *f, const struct picture *p, const struct panel *a)
{
	for (unsigned int line = p->n_policies; line-- > 0;) {
		const struct sim_result *before = NULL;

		for (unsigned int i = 0; i < p->n; i++) {
			const struct sim_result *r = &p->results[i];

			if (line_of(p, r) != line)
				continue;
			if (before)
				svg_line(f, x_of(p, a, before->speed), y_of(a, a->value(before)),
					 x_of(p, a, r->speed), y_of(a, a->value(r)),
					 colour_of(line), line ? 2 : 3, dashes_of(p, line));
			before = r;
		}
		for (unsigned int i = 0; i < p->n; i++)
			if (line_of(p, &p->results[i]) == line)
				svg_mark(f, x_of(p, a, p->results[i].speed),
					 y_of(a, a->value(&p->results[i])), line, colour_of(line));
	}
}

static void ceiling_line(FILE *f, const struct picture *p, const struct panel *a)
{
	double y = y_of(a, p->results->hit_ceiling);

	svg_line(f, a->left, y, a->left + PANEL_WIDTH, y, SVG_PALE, 1.2, "2 4");
	svg_text(f, a->left + PANEL_WIDTH, y - 6, "end", SVG_PALE, 12, "normal",
		 "one endless cache");
}

static void legend(FILE *f, const struct picture *p, double x)
{
	for (unsigned int i = 0; i < p->n_policies; i++) {
		double y = PANEL_TOP + 8 + i * LEGEND_ROW;

		svg_line(f, x, y, x + 30, y, colour_of(i), i ? 2 : 3, dashes_of(p, i));
		svg_mark(f, x + 15, y, i, colour_of(i));
		svg_text(f, x + 38, y + 4, "start", SVG_INK, 13, i ? "normal" : "600",
			 p->policies[i]->name);
	}
}

/* ---- one speed: bars ------------------------------------------------------------------ */

static void bars(FILE *f, const struct picture *p, const struct panel *a, bool names)
{
	double bottom = PANEL_TOP + 6 + p->n * BAR_ROW, x;
	char text[32];

	for (unsigned int i = 0; i < p->n; i++) {
		const struct sim_result *r = &p->results[i];
		double y = PANEL_TOP + 6 + i * BAR_ROW;
		double width = fmax(1.5, (PANEL_WIDTH - BAR_ROOM) * share_of(a, a->value(r)));

		if (names)
			svg_text(f, a->left - 8, y + 14, "end", SVG_INK, 13, i ? "normal" : "600",
				 r->policy->name);
		svg_rect(f, a->left, y, width, 19, colour_of(i));
		svg_text(f, a->left + width + 6, y + 14, "start", SVG_INK, 12, "normal",
			 a->label(a->value(r), text, sizeof(text)));
	}
	if (names)
		return;
	x = a->left + (PANEL_WIDTH - BAR_ROOM) * share_of(a, p->results->hit_ceiling);
	svg_line(f, x, PANEL_TOP, x, bottom, SVG_PALE, 1.2, "2 4");
	svg_text(f, x, bottom + 16, "middle", SVG_PALE, 12, "normal", "one endless cache");
}

/* ---- the whole ------------------------------------------------------------------------ */

static void survey(struct picture *p)
{
	p->slowest = 1e300;
	for (unsigned int i = 0; i < p->n; i++) {
		p->slowest = fmin(p->slowest, p->results[i].speed);
		p->fastest = fmax(p->fastest, p->results[i].speed);
		if (line_of(p, &p->results[i]) == p->n_policies && p->n_policies < LINES_MAX)
			p->policies[p->n_policies++] = p->results[i].policy;
	}
}

static void head(FILE *f, const char *title, const struct sim_result *r)
{
	char text[256];

	svg_text(f, 24, 34, "start", SVG_INK, 18, "600", title);
	snprintf(text, sizeof(text), "%llu requests; %.1f %% of their blocks seen before",
		 (unsigned long long)r->requests, 100 * r->hit_ceiling);
	svg_text(f, 24, 56, "start", SVG_PALE, 13, "normal", text);
}

int sim_plot(FILE *f, const char *title, const struct sim_result *results, unsigned int n)
{
	struct picture p = {.results = results, .n = n};
	struct panel ttft = {.title = "Time to the first token, P90",
			     .left = LEFT,
			     .value = p90_of,
			     .label = seconds};
	struct panel hits = {.title = "Hit rate, of all blocks",
			     .left = LEFT + PANEL_WIDTH + GAP,
			     .value = hits_of,
			     .label = percents};
	bool over_speeds;
	double height;

	survey(&p);
	over_speeds = p.fastest > p.slowest;
	ttft.logarithmic = over_speeds; /* a queue differs from none by orders */
	scale(&p, &ttft, 0);
	scale(&p, &hits, results->hit_ceiling);
	if (over_speeds) {
		height = PANEL_TOP + fmax(PANEL_HEIGHT + 60, p.n_policies * LEGEND_ROW + 24);
	} else {
		height = PANEL_TOP + n * BAR_ROW + 44;
		ttft.left += 90; /* the policies' names */
		hits.left += 60;
	}
	svg_begin(f, WIDTH, height);
	head(f, title, results);
	svg_text(f, ttft.left, PANEL_TOP - 14, "start", SVG_INK, 14, "600", ttft.title);
	svg_text(f, hits.left, PANEL_TOP - 14, "start", SVG_INK, 14, "600", hits.title);
	if (over_speeds) {
		for (int i = 0; i < 2; i++) {
			const struct panel *a = i ? &hits : &ttft;

			grid(f, a);
			if (i)
				ceiling_line(f, &p, a);
			speeds_axis(f, &p, a);
			lines(f, &p, a);
		}
		legend(f, &p, hits.left + PANEL_WIDTH + 22);
	} else {
		bars(f, &p, &ttft, true);
		bars(f, &p, &hits, false);
	}
	svg_end(f);
	return fflush(f) || ferror(f) ? -EIO : 0;
}
