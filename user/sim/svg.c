// SPDX-License-Identifier: BSD-2-Clause
#include "sim/svg.h"

void svg_begin(FILE *f, double width, double height)
{
	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" "
		"height=\"%g\" font-family=\"system-ui, sans-serif\">\n"
		"<rect width=\"%g\" height=\"%g\" fill=\"#ffffff\"/>\n",
		width, height, width, height, width, height);
}

void svg_end(FILE *f)
{
	fputs("</svg>\n", f);
}

/* Control characters are no XML at all, and may stand in a file's name. */
static void escaped(FILE *f, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '&':
			fputs("&amp;", f);
			break;
		case '<':
			fputs("&lt;", f);
			break;
		case '>':
			fputs("&gt;", f);
			break;
		default:
			fputc((unsigned char)*text < ' ' ? '?' : *text, f);
		}
	}
}

void svg_text(FILE *f, double x, double y, const char *anchor, const char *colour, double size,
	      const char *weight, const char *text)
{
	fprintf(f,
		"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\" font-size=\"%g\" "
		"font-weight=\"%s\">",
		x, y, anchor, colour, size, weight);
	escaped(f, text);
	fputs("</text>\n", f);
}

void svg_line(FILE *f, double x1, double y1, double x2, double y2, const char *colour, double width,
	      const char *dashes)
{
	fprintf(f,
		"<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
		"stroke-width=\"%g\" stroke-dasharray=\"%s\" stroke-linecap=\"round\"/>\n",
		x1, y1, x2, y2, colour, width, dashes);
}

void svg_rect(FILE *f, double x, double y, double width, double height, const char *colour)
{
	fprintf(f,
		"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" "
		"fill=\"%s\"/>\n",
		x, y, width, height, colour);
}

void svg_mark(FILE *f, double x, double y, unsigned int shape, const char *colour)
{
	static const char *const paths[] = {
		"a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
		"m0 -3.6h7.2v7.2h-7.2z",
		"m-.5 3.4l4.5 -8l4.5 8z",
		"l4.5 -4.5l4.5 4.5l-4.5 4.5z",
	};

	fprintf(f, "<path d=\"M%.1f %.1f%s\" fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"1\"/>\n",
		x - 4, y, paths[shape % 4], colour);
}
