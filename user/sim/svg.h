/* SPDX-License-Identifier: BSD-2-Clause */
/* The few shapes that a plot is made of. */
#ifndef KVSTEER_SIM_SVG_H
#define KVSTEER_SIM_SVG_H

#include <stdio.h>

#define SVG_INK "#333333"
#define SVG_PALE "#777777"
#define SVG_GRID "#e4e4e4"

void svg_begin(FILE *f, double width, double height);
void svg_end(FILE *f);
/* anchor: start, middle, end */
void svg_text(FILE *f, double x, double y, const char *anchor, const char *colour, double size,
	      const char *weight, const char *text);
/* dashes: "none", or as in stroke-dasharray */
void svg_line(FILE *f, double x1, double y1, double x2, double y2, const char *colour, double width,
	      const char *dashes);
void svg_rect(FILE *f, double x, double y, double width, double height, const char *colour);
/* shape 0 … 3: disc, square, triangle, diamond */
void svg_mark(FILE *f, double x, double y, unsigned int shape, const char *colour);

#endif
