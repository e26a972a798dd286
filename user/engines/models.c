// SPDX-License-Identifier: BSD-2-Clause
#include "engines/models.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "common/cleanup.h"

struct model {
	struct model_set engines;
	char name[]; /* ended by NUL; may hold NULs before, which then end it */
};

struct list {
	bool known;
	uint32_t n;
	char **names;
};

struct models {
	void *tree; /* tsearch(3), by name */
	struct list lists[MODELS_ENGINES];
	struct model_set known, asked, unsure;
};

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct model *)a)->name, ((const struct model *)b)->name);
}

struct models *models_new(void)
{
	return calloc(1, sizeof(struct models));
}

static void free_names(char **names, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

void models_free(struct models *m)
{
	if (!m)
		return;
	for (uint32_t id = 0; id < MODELS_ENGINES; id++)
		free_names(m->lists[id].names, m->lists[id].n);
	tdestroy(m->tree, free);
	free(m);
}

static struct model *new_model(const char *name, size_t len)
{
	struct model *model = calloc(1, sizeof(*model) + len + 1);

	if (model)
		memcpy(model->name, name, len);
	return model;
}

static struct model *find(const struct models *m, const char *name, size_t len)
{
	_cleanup_free_ struct model *key = NULL;
	struct model **found;

	if (len > MODELS_NAME_MAX || memchr(name, 0, len))
		return NULL;
	key = new_model(name, len);
	if (!key)
		return NULL;
	found = tfind(key, &m->tree, compare);
	return found ? *found : NULL;
}

static int enter(struct models *m, uint32_t id, const char *name)
{
	struct model *model = new_model(name, strlen(name)), **found;

	found = model ? tsearch(model, &m->tree, compare) : NULL;
	if (!found) {
		free(model);
		return -ENOMEM;
	}
	if (*found != model)
		free(model);
	model_set_add(&(*found)->engines, id);
	return 0;
}

static void leave(struct models *m, uint32_t id, const char *name)
{
	struct model *model = find(m, name, strlen(name));

	if (!model)
		return;
	model_set_remove(&model->engines, id);
	if (!model_set_empty(&model->engines))
		return;
	tdelete(model, &m->tree, compare);
	free(model);
}

static bool usable(const char *name, size_t len)
{
	return len && len <= MODELS_NAME_MAX && strlen(name) == len;
}

/* {"object": "list", "data": [{"id": …}]} → names, those that are none passed over. */
static int read_list(yyjson_val *root, char ***ret_names, uint32_t *ret_n)
{
	yyjson_val *data = yyjson_obj_get(root, "data"), *item, *id;
	char **names;
	uint32_t n = 0;
	size_t i, max;

	if (!yyjson_is_arr(data))
		return -EBADMSG;
	names = calloc(yyjson_arr_size(data) + 1, sizeof(*names));
	if (!names)
		return -ENOMEM;
	yyjson_arr_foreach (data, i, max, item) {
		id = yyjson_obj_get(item, "id");
		if (!yyjson_is_str(id) || !usable(yyjson_get_str(id), yyjson_get_len(id)))
			continue;
		if (n == MODELS_PER_ENGINE)
			break;
		names[n] = strdup(yyjson_get_str(id));
		if (!names[n]) {
			free_names(names, n);
			return -ENOMEM;
		}
		n++;
	}
	*ret_names = names;
	*ret_n = n;
	return 0;
}

static bool same(const struct list *l, char **names, uint32_t n)
{
	if (!l->known || l->n != n)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(l->names[i], names[i]))
			return false;
	return true;
}

int models_told(struct models *m, uint32_t id, const char *json, size_t len, bool *ret_changed)
{
	_cleanup_json_ yyjson_doc *doc = NULL;
	struct list new = {.known = true};
	int err;

	if (id >= MODELS_ENGINES)
		return -EINVAL;
	doc = len <= MODELS_LIST_MAX ? yyjson_read(json, len, 0) : NULL;
	if (!doc)
		return -EBADMSG;
	err = read_list(yyjson_doc_get_root(doc), &new.names, &new.n);
	if (err)
		return err;
	*ret_changed = !same(&m->lists[id], new.names, new.n);
	if (!*ret_changed) {
		free_names(new.names, new.n);
		models_asked(m, id);
		return 0;
	}
	models_forget(m, id);
	models_asked(m, id);
	for (uint32_t i = 0; i < new.n && !err; i++)
		err = enter(m, id, new.names[i]);
	m->lists[id] = new;
	model_set_add(&m->known, id);
	/* half a list would turn requests away */
	if (err)
		models_forget(m, id);
	return err;
}

void models_asked(struct models *m, uint32_t id)
{
	model_set_add(&m->asked, id);
	model_set_remove(&m->unsure, id);
}

void models_unsure(struct models *m, uint32_t id)
{
	model_set_add(&m->unsure, id);
}

void models_forget(struct models *m, uint32_t id)
{
	struct list *l;

	if (id >= MODELS_ENGINES)
		return;
	l = &m->lists[id];
	for (uint32_t i = 0; i < l->n; i++)
		leave(m, id, l->names[i]);
	free_names(l->names, l->n);
	*l = (struct list){};
	model_set_remove(&m->known, id);
	model_set_remove(&m->asked, id);
	model_set_remove(&m->unsure, id);
}

bool models_known(const struct models *m, uint32_t id)
{
	return id < MODELS_ENGINES && m->lists[id].known;
}

const char *models_name(const struct models *m, uint32_t id, uint32_t i)
{
	return models_known(m, id) && i < m->lists[id].n ? m->lists[id].names[i] : NULL;
}

struct model_set models_serving(const struct models *m, const struct model_set *pool,
				const char *name, size_t len)
{
	const struct model *model = find(m, name, len);
	struct model_set sure = {}, unsure = {}, any = {};

	for (unsigned int i = 0; i < MODELS_ENGINES / 64; i++) {
		uint64_t may = ~m->known.words[i] | (model ? model->engines.words[i] : 0);

		any.words[i] = pool->words[i] & m->unsure.words[i];
		unsure.words[i] = any.words[i] & may;
		sure.words[i] = pool->words[i] & ~m->unsure.words[i] & may;
	}
	if (!model_set_empty(&sure))
		return sure;
	return model_set_empty(&unsure) ? any : unsure;
}

/* Its list names the same as the first one. */
static bool list_is(const struct models *m, uint32_t id, const struct list *first)
{
	const struct model *model;

	if (m->lists[id].n != first->n)
		return false;
	for (uint32_t i = 0; i < first->n; i++) {
		model = find(m, first->names[i], strlen(first->names[i]));
		if (!model || !model_set_has(&model->engines, id))
			return false;
	}
	return true;
}

enum models_alike models_alike(const struct models *m, const struct model_set *pool,
			       const struct model_set *taking)
{
	enum models_alike alike = MODELS_ALIKE;
	const struct list *first = NULL;

	for (uint32_t id = 0; id < MODELS_ENGINES; id++) {
		bool takes = model_set_has(taking, id);

		if (!model_set_has(pool, id))
			continue;
		if (takes && model_set_has(&m->unsure, id))
			return MODELS_DIFFER;
		if (takes && !model_set_has(&m->asked, id))
			alike = MODELS_OPEN;
		if (!m->lists[id].known)
			continue;
		if (!first)
			first = &m->lists[id];
		if (!list_is(m, id, first))
			return MODELS_DIFFER;
	}
	return alike;
}

/* A name of any bytes, as one can be shown: what is not ASCII text becomes "?". */
static void printable(char *out, const char *name, size_t len)
{
	size_t n = len < MODELS_NAME_MAX ? len : MODELS_NAME_MAX;

	for (size_t i = 0; i < n; i++)
		out[i] = name[i] >= ' ' && name[i] < 0x7f ? name[i] : '?';
	out[n] = 0;
}

char *models_not_found(const char *name, size_t len, size_t *ret_len)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root, *error;
	char shown[MODELS_NAME_MAX + 1], message[MODELS_NAME_MAX + 64];

	if (!doc)
		return NULL;
	printable(shown, name, len);
	snprintf(message, sizeof(message), "The model `%s` does not exist.", shown);
	root = yyjson_mut_obj(doc);
	yyjson_mut_doc_set_root(doc, root);
	error = yyjson_mut_obj(doc);
	yyjson_mut_obj_add_val(doc, root, "error", error);
	yyjson_mut_obj_add_strcpy(doc, error, "message", message);
	yyjson_mut_obj_add_str(doc, error, "type", "invalid_request_error");
	yyjson_mut_obj_add_str(doc, error, "param", "model");
	yyjson_mut_obj_add_str(doc, error, "code", "model_not_found");
	return yyjson_mut_write(doc, 0, ret_len);
}
