# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# The peers of the bench, each as its own manual recommends for this work: keep-alive to the
# engines, no buffering of bodies on disk or whole in memory, no logs.
# Sourced by tools/bench.sh; uses its $dir, $OUT, $ENGINES, $ENGINE_PORT, spawn, ready and skip.
#
#   peer_NAME GATEWAY-NAMESPACE CLIENT-NAMESPACE

peer_nginx() {
	local i servers=
	if ! command -v nginx >/dev/null; then
		skip nginx "not installed"
		return
	fi
	for ((i = 1; i <= ENGINES; i++)); do servers+="server 10.72.$i.2:$ENGINE_PORT; "; done
	# Buffers: one read takes a long prompt, and a large answer goes on in pieces of 64 KiB.
	cat >"$dir/nginx.conf" <<-CONF
		daemon off;
		worker_processes auto;
		pid $dir/nginx.pid;
		error_log stderr warn;
		events { worker_connections 4096; }
		http {
			access_log off;
			client_body_temp_path $dir/nginx-body;
			proxy_temp_path $dir/nginx-proxy;
			fastcgi_temp_path $dir/nginx-fastcgi;
			uwsgi_temp_path $dir/nginx-uwsgi;
			scgi_temp_path $dir/nginx-scgi;
			tcp_nodelay on;
			keepalive_timeout 3600s;
			keepalive_requests 1000000000;
			client_max_body_size 0;
			client_body_buffer_size 256k;
			upstream engines {
				least_conn;
				$servers
				keepalive 128;
				keepalive_requests 1000000000;
				keepalive_timeout 4s;
			}
			server {
				listen 10.71.1.1:8001 reuseport;
				location / {
					proxy_pass http://engines;
					proxy_http_version 1.1;
					proxy_set_header Connection "";
					proxy_buffering off;
					proxy_request_buffering off;
					proxy_buffer_size 64k;
					proxy_buffers 8 64k;
				}
			}
		}
	CONF
	spawn nginx "$1" nginx -c "$dir/nginx.conf" -e stderr
	ready nginx "$2" 10.71.1.1:8001
}

peer_haproxy() {
	local i
	if ! command -v haproxy >/dev/null; then
		skip haproxy "not installed"
		return
	fi
	cat >"$dir/haproxy.cfg" <<-CONF
		global
			maxconn 4096
			tune.bufsize 65536
		defaults
			mode http
			timeout connect 5s
			timeout client 1h
			timeout server 1h
			option splice-auto
		frontend clients
			bind 10.71.1.1:8002
			default_backend engines
		backend engines
			balance leastconn
			http-reuse always
	CONF
	for ((i = 1; i <= ENGINES; i++)); do
		printf '\tserver e%d 10.72.%d.2:%d pool-purge-delay 4s\n' $i $i "$ENGINE_PORT"
	done >>"$dir/haproxy.cfg"
	spawn haproxy "$1" haproxy -db -f "$dir/haproxy.cfg"
	ready haproxy "$2" 10.71.1.1:8002
}

# venv NAME VERSION: the Python package in a virtual environment of its own, installed once.
venv() {
	local v=$OUT/venv-$1
	[ "$("$v/bin/python3" -c "import importlib.metadata as m; print(m.version('$1'))" 2>&1)" = "$2" ] &&
		return 0
	echo "bench: installing $1 $2 from PyPI into $v"
	rm -rf "$v"
	python3 -m venv "$v" && "$v/bin/pip" install -q "$1==$2" >"$dir/pip-$1.log" 2>&1
}

worker_urls() {
	local i
	for ((i = 1; i <= ENGINES; i++)); do echo "http://10.72.$i.2:$ENGINE_PORT"; done
}

peer_sglang_router() {
	if ! venv sglang-router 0.3.2; then
		skip sglang-router "cannot be installed: $(tail -n 1 "$dir/pip-sglang-router.log" 2>&1)"
		return
	fi
	# shellcheck disable=SC2046 # one word a URL
	spawn sglang-router "$1" "$OUT/venv-sglang-router/bin/smg" launch --host 10.71.1.1 --port 8003 \
		--policy cache_aware --log-level error --prometheus-port 29003 --worker-urls $(worker_urls)
	ready sglang-router "$2" 10.71.1.1:8003
}

peer_vllm_router() {
	if ! venv vllm-router 0.1.17; then
		skip vllm-router "cannot be installed: $(tail -n 1 "$dir/pip-vllm-router.log" 2>&1)"
		return
	fi
	# shellcheck disable=SC2046 # one word a URL
	spawn vllm-router "$1" "$OUT/venv-vllm-router/bin/vllm-router" --host 10.71.1.1 --port 8004 \
		--policy cache_aware --log-level error --prometheus-port 29004 --worker-urls $(worker_urls)
	ready vllm-router "$2" 10.71.1.1:8004
}
