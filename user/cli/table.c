// SPDX-License-Identifier: BSD-2-Clause
#include "table.h"

#include <langinfo.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 16

void table_add(struct table *t, const char *format, ...)
{
	va_list args;

	if (t->n == t->room) {
		size_t room = t->room ? 2 * t->room : 64;
		char **cells = realloc(t->cells, room * sizeof(*cells));

		if (!cells)
			return;
		t->cells = cells;
		t->room = room;
	}
	va_start(args, format);
	if (vasprintf(&t->cells[t->n], format, args) >= 0)
		t->n++;
	va_end(args);
}

/* Characters, not bytes: UTF-8's continuation bytes take no room. */
static int width_of(const char *text)
{
	int n = 0;

	for (; *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

static void print_cell(FILE *f, const char *text, int width, bool right, bool last)
{
	int gap = width - width_of(text);

	if (right)
		fprintf(f, "%*s%s", gap, "", text);
	else
		fprintf(f, "%s%*s", text, last ? 0 : gap, "");
	if (!last)
		fputs("  ", f);
}

void table_print(struct table *t, FILE *f, const char *indent)
{
	char header[256], *names[COLUMNS_MAX], *rest = NULL;
	int width[COLUMNS_MAX];
	bool right[COLUMNS_MAX];
	size_t columns = 0;

	snprintf(header, sizeof(header), "%s", t->columns);
	for (char *word = strtok_r(header, " ", &rest); word && columns < COLUMNS_MAX;
	     word = strtok_r(NULL, " ", &rest), columns++) {
		right[columns] = *word == '>';
		names[columns] = word + right[columns];
		width[columns] = width_of(names[columns]);
	}
	for (size_t i = 0; i < t->n; i++)
		if (width_of(t->cells[i]) > width[i % columns])
			width[i % columns] = width_of(t->cells[i]);
	fputs(indent, f);
	for (size_t c = 0; c < columns; c++)
		print_cell(f, names[c], width[c], right[c], c + 1 == columns);
	fputc('\n', f);
	for (size_t i = 0; i < t->n; i++) {
		size_t c = i % columns;

		if (!c)
			fputs(indent, f);
		print_cell(f, t->cells[i], width[c], right[c], c + 1 == columns);
		if (c + 1 == columns)
			fputc('\n', f);
		free(t->cells[i]);
	}
	free(t->cells);
	*t = (struct table){.columns = t->columns};
}

char *bar(double part, double whole, char buf[TABLE_TEXT])
{
	static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
	bool blocks = !strcmp(nl_langinfo(CODESET), "UTF-8");
	double share = whole > 0 ? part / whole : 0;
	int units, n;
	char *p = buf;

	share = share < 0 ? 0 : share > 1 ? 1 : share;
	units = share * TABLE_BAR * 8 + 0.5;
	for (n = 0; n < units / 8; n++)
		p = stpcpy(p, blocks ? "█" : "#");
	if (blocks && units % 8) {
		p = stpcpy(p, eighths[units % 8]);
		n++;
	}
	for (; n < TABLE_BAR; n++)
		p = stpcpy(p, blocks ? " " : ".");
	return buf;
}

char *short_number(__u64 n, char buf[TABLE_TEXT])
{
	static const char units[] = "kMGTPE";
	double value = n;
	int unit = -1;

	if (n < 10000) {
		snprintf(buf, TABLE_TEXT, "%llu", (unsigned long long)n);
		return buf;
	}
	while (value >= 999.5 && unit + 2 < (int)sizeof(units)) {
		value /= 1000;
		unit++;
	}
	snprintf(buf, TABLE_TEXT, "%.*f%c",
		 value < 9.995	 ? 2
		 : value < 99.95 ? 1
				 : 0,
		 value, units[unit]);
	return buf;
}

char *percent(double part, double whole, char buf[TABLE_TEXT])
{
	if (whole <= 0)
		snprintf(buf, TABLE_TEXT, "-");
	else
		snprintf(buf, TABLE_TEXT, "%.1f%%", 100 * part / whole);
	return buf;
}

char *short_time(double seconds, char buf[TABLE_TEXT])
{
	unsigned long long s = seconds;

	if (seconds < 10)
		snprintf(buf, TABLE_TEXT, "%.1fs", seconds);
	else if (s < 60)
		snprintf(buf, TABLE_TEXT, "%llus", s);
	else if (s < 3600)
		snprintf(buf, TABLE_TEXT, "%llumin %llus", s / 60, s % 60);
	else if (s < 86400)
		snprintf(buf, TABLE_TEXT, "%lluh %llumin", s / 3600, s / 60 % 60);
	else
		snprintf(buf, TABLE_TEXT, "%llud %lluh", s / 86400, s / 3600 % 24);
	return buf;
}
