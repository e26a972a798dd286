// SPDX-License-Identifier: BSD-2-Clause
#include "common/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/config_read.h"

#define FILE_MAX (1 << 20)

static const char *const policy_names[] = {
	[KV_POLICY_PRICE] = "price",
	[KV_POLICY_STICKY] = "sticky",
	[KV_POLICY_TTFT] = "ttft",
	[KV_POLICY_P2C] = "p2c",
	[KV_POLICY_LEAST] = "least",
	[KV_POLICY_HASH] = "hash",
	[KV_POLICY_ROUND_ROBIN] = "round-robin",
};
_Static_assert(sizeof(policy_names) / sizeof(*policy_names) == KV_POLICY_MAX, "all have names");

const char *kv_policy_name(enum kv_policy policy)
{
	return policy < KV_POLICY_MAX ? policy_names[policy] : "unknown";
}

/* Its place in a list of n names, or -EINVAL. */
static int place_of(const char *name, const char *const *names, int n)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(name, names[i]))
			return i;
	return -EINVAL;
}

int kv_policy_parse(const char *name, enum kv_policy *ret)
{
	int policy = place_of(name, policy_names, KV_POLICY_MAX);

	if (policy < 0)
		return policy;
	*ret = policy;
	return 0;
}

const char *kv_policy_names(void)
{
	return "one of price, sticky, ttft, p2c, least, hash, round-robin";
}

static const char *const affinity_names[] = {
	[KV_AFFINITY_AUTO] = "auto",
	[KV_AFFINITY_FULL] = "full",
	[KV_AFFINITY_OFF] = "off",
};
_Static_assert(sizeof(affinity_names) / sizeof(*affinity_names) == KV_AFFINITY_MAX,
	       "all have names");

const char *kv_affinity_name(enum kv_affinity affinity)
{
	return affinity < KV_AFFINITY_MAX ? affinity_names[affinity] : "unknown";
}

int kv_affinity_parse(const char *name, enum kv_affinity *ret)
{
	int affinity = place_of(name, affinity_names, KV_AFFINITY_MAX);

	if (affinity < 0)
		return affinity;
	*ret = affinity;
	return 0;
}

void kv_config_free(struct kv_config *config)
{
	if (!config)
		return;
	for (__u32 i = 0; i < config->n_services; i++)
		free(config->services[i].backends);
	free(config->services);
	free(config);
}

const struct kv_config_service *kv_config_service(const struct kv_config *config, const char *name)
{
	for (__u32 i = 0; i < config->n_services; i++)
		if (!strcmp(config->services[i].name, name))
			return &config->services[i];
	return NULL;
}

static int no_memory(struct kv_tree *tree)
{
	snprintf(tree->err, tree->errlen, "out of memory");
	return -ENOMEM;
}

static int from_raw(const struct kv_raw_config *raw, struct kv_tree *tree, struct kv_config **ret)
{
	_cleanup_config_ struct kv_config *config = calloc(1, sizeof(*config));
	int err = config ? kv_config_read(config, raw, tree) : -ENOMEM;

	if (err == -ENOMEM)
		return no_memory(tree);
	if (err)
		return err;
	*ret = kv_take(config);
	return 0;
}

static int from_tree(struct kv_tree *tree, const char *text, size_t len, struct kv_config **ret)
{
	struct kv_raw_config *raw = NULL;
	cyaml_err_t yaml;
	int err = kv_tree_check(tree, &kv_raw_schema, kv_config_expected);

	if (err)
		return err;
	yaml = cyaml_load_data((const uint8_t *)text, len, &kv_raw_cyaml, &kv_raw_schema,
			       (cyaml_data_t **)&raw, NULL);
	if (yaml == CYAML_ERR_OOM)
		return no_memory(tree);
	if (yaml != CYAML_OK) {
		snprintf(tree->err, tree->errlen, "%s: %s", tree->name, cyaml_strerror(yaml));
		return -EINVAL;
	}
	err = from_raw(raw, tree, ret);
	cyaml_free(&kv_raw_cyaml, &kv_raw_schema, raw, 0);
	return err;
}

int kv_config_load_text(const char *name, const char *text, size_t len, struct kv_config **ret,
			char *err, size_t errlen)
{
	struct kv_tree tree;
	int rc = kv_tree_load(&tree, name, text, len, err, errlen);

	if (rc == -ENOMEM)
		no_memory(&tree);
	if (!rc)
		rc = from_tree(&tree, text, len, ret);
	kv_tree_free(&tree);
	return rc;
}

int kv_config_load(const char *path, struct kv_config **ret, char *err, size_t errlen)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	_cleanup_free_ char *text = NULL;
	size_t len;
	int rc;

	if (!f || !(text = malloc(FILE_MAX + 1))) {
		rc = -errno;
		snprintf(err, errlen, "%s: cannot read: %s", path, strerror(-rc));
		return rc;
	}
	errno = 0;
	len = fread(text, 1, FILE_MAX + 1, f);
	if (ferror(f)) {
		rc = errno ? -errno : -EIO;
		snprintf(err, errlen, "%s: cannot read: %s", path, strerror(-rc));
		return rc;
	}
	if (len > FILE_MAX) {
		snprintf(err, errlen, "%s: more than 1MiB: expected a configuration", path);
		return -EINVAL;
	}
	return kv_config_load_text(path, text, len, ret, err, errlen);
}

int kv_config_from_options(const struct kv_config_options *o, struct kv_config **ret, char *err,
			   size_t errlen)
{
	struct kv_tree tree = {.name = "command line", .err = err, .errlen = errlen};
	_cleanup_free_ struct kv_raw_backend *backends =
		calloc(o->n_backends + 1, sizeof(*backends));
	struct kv_raw_service service = {
		.name = "default",
		.listen = (char **)o->listens,
		.listen_count = o->n_listens,
		.policy = (char *)o->policy,
		.backends = backends,
		.backends_count = o->n_backends,
	};
	struct kv_raw_config raw = {
		.pin = (char *)o->pin,
		.control = (char *)o->control,
		.interfaces = (char **)o->interfaces,
		.interfaces_count = o->n_interfaces,
		.services = &service,
		.services_count = 1,
	};

	if (!backends)
		return no_memory(&tree);
	if (!o->n_listens || o->n_listens > KV_CONFIG_LISTENS)
		return kv_config_refuse(&tree, "listen", "given %zu times: expected 1 to %d",
					o->n_listens, KV_CONFIG_LISTENS);
	if (o->n_interfaces > KV_CONFIG_INTERFACES)
		return kv_config_refuse(&tree, "interfaces", "given %zu times: expected up to %d",
					o->n_interfaces, KV_CONFIG_INTERFACES);
	if (o->n_backends > KV_MAX_BACKENDS)
		return kv_config_refuse(&tree, "address", "given %zu times: expected up to %d",
					o->n_backends, KV_MAX_BACKENDS);
	for (size_t i = 0; i < o->n_backends; i++)
		backends[i].address = (char *)o->backends[i];
	return from_raw(&raw, &tree, ret);
}
