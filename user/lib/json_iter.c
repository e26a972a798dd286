// SPDX-License-Identifier: BSD-2-Clause
/* Walks through a checked text. */
#include <errno.h>

#include "lib/json_scan.h"

struct kv_json_iter kv_json_iter(struct kv_json *json, struct kv_value container)
{
	return (struct kv_json_iter){json, container.at + 1, container.end - 1};
}

/* Values are mostly asked for in the order they stand in: the search begins at the last find. */
static const char *noted_end(struct kv_json *json, const char *p)
{
	const struct kv_json_span *spans = json->spans;
	size_t low = json->found, high = json->n_spans, step = 1;
	uint32_t at = p - json->text;

	if (!high || at < spans[0].at)
		return NULL;
	if (at < spans[low].at) {
		high = low;
		low = 0;
	}
	/* spans[low].at <= at: close in on the last such. */
	while (low + step < high && spans[low + step].at <= at) {
		low += step;
		step *= 2;
	}
	if (high > low + step)
		high = low + step;
	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;

		if (spans[mid].at <= at)
			low = mid;
		else
			high = mid;
	}
	json->found = low;
	return spans[low].at == at ? json->text + spans[low].end : NULL;
}

/* p: first byte of a value in a checked text. Returns the place behind it. */
static const char *skip_checked(struct kv_json *json, const char *p, const char *end)
{
	const char *noted;
	unsigned int depth = 0;

	if (*p != '"' && *p != '{' && *p != '[') {
		while (p < end && (unsigned char)*p > ' ' && *p != ',')
			p++;
		return p;
	}
	if (*p == '"') {
		const char *near = end - p > KV_JSON_LONG ? p + KV_JSON_LONG : end;
		const char *plain = skip_plain(p + 1, near);

		if (plain < near && *plain == '"')
			return plain + 1;
	}
	noted = noted_end(json, p);
	if (noted)
		return noted;
	/* A short one, or its note was lost to want of memory. */
	do {
		if (*p == '"') {
			p = skip_string(p + 1, end);
			continue;
		}
		if (*p == '{' || *p == '[')
			depth++;
		else if (*p == '}' || *p == ']')
			depth--;
		p++;
	} while (depth);
	return p;
}

/* Before the next element: p at its first byte, or at the end. */
static bool at_element(struct kv_json_iter *it)
{
	it->p = skip_space(it->p, it->end);
	if (it->p < it->end && *it->p == ',')
		it->p = skip_space(it->p + 1, it->end);
	return it->p < it->end;
}

static void take_value(struct kv_json_iter *it, struct kv_value *ret_item)
{
	ret_item->at = it->p;
	it->p = skip_checked(it->json, it->p, it->end);
	ret_item->end = it->p;
}

bool kv_json_next(struct kv_json_iter *it, struct kv_value *ret_item)
{
	if (!at_element(it))
		return false;
	take_value(it, ret_item);
	return true;
}

bool kv_json_next_member(struct kv_json_iter *it, struct kv_value *ret_key,
			 struct kv_value *ret_item)
{
	if (!at_element(it))
		return false;
	take_value(it, ret_key);
	it->p = skip_space(it->p, it->end);
	it->p = skip_space(it->p + 1, it->end); /* behind the colon */
	take_value(it, ret_item);
	return true;
}

int kv_json_next_u32(struct kv_json_iter *it, uint32_t *ret_item)
{
	uint64_t value = 0;
	const char *start;

	if (!at_element(it))
		return 0;
	start = it->p;
	while (it->p < it->end && *it->p >= '0' && *it->p <= '9' && value <= UINT32_MAX)
		value = value * 10 + (*it->p++ - '0');
	if (it->p == start || value > UINT32_MAX ||
	    (it->p < it->end && (*it->p == '.' || *it->p == 'e' || *it->p == 'E')))
		return -EINVAL;
	*ret_item = value;
	return 1;
}

void kv_json_fields(struct kv_json *json, struct kv_value object, const char *const names[],
		    size_t n, struct kv_value ret_values[])
{
	struct kv_value key, item;
	struct kv_json_iter it;

	memset(ret_values, 0, n * sizeof(*ret_values));
	if (kv_json_type(object) != KV_JSON_OBJECT)
		return;
	it = kv_json_iter(json, object);
	while (kv_json_next_member(&it, &key, &item)) {
		char first = key.at[1];

		/* The first byte tells most names apart. */
		for (size_t i = 0; i < n; i++)
			if ((first == *names[i] || first == '\\') && kv_json_equals(key, names[i]))
				ret_values[i] = item;
	}
}
