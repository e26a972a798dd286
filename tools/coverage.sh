#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Which lines of the parsers are run by the repository's own inputs: the fuzzers' seeds and the unit
# tests (clang's source-based coverage; no fuzzing, so the same figures each time).
set -euo pipefail

usage() {
	cat <<'TEXT'
usage: tools/coverage.sh [-v]
A table of the parsers; exits 1 if one of them is below 95 % of its lines. -v: the lines that were
not run. Environment: KV_CORPUS=1 adds what earlier fuzzing has left in .output/fuzz/NAME/corpus.
TEXT
}

cd "$(dirname "$0")/.."
verbose=
case ${1:-} in
-v) verbose=1 ;;
-h | --help) usage && exit 0 ;;
'') ;;
*) usage >&2 && exit 2 ;;
esac

least=95
out=.output/coverage
clang=${CLANG:-clang}
version=$($clang -dumpversion | cut -d. -f1)
tool() { command -v "$1-$version" || command -v "$1" || { echo "coverage: $1 is missing: tools/setup.sh test" >&2 && exit 2; }; }
profdata=$(tool llvm-profdata)
cov=$(tool llvm-cov)

# Whom their input comes from, and the files that read it. Files are header code of include/kvsteer
# where they have no directory.
parsers=(
	"clients:request heads:request.h request_line.h request_field.h request_state.h scan.h source.h fields.h"
	"clients:KV-Prefix:hint.h"
	"clients:sessions, tenants:session.h tenant.h"
	"clients:chunked bodies, fields taken out:user/agent/head.c"
	"clients:JSON bodies:user/lib/json_check.c user/lib/json_iter.c user/lib/json_string.c user/lib/json_scan.h user/lib/json.h"
	"clients:prompts:user/lib/prompt.c user/lib/messages.c user/lib/text.c user/lib/canon.c user/lib/hash.c user/lib/rungs.c"
	"clients, engines:TCP options, sequence numbers:seq.h"
	"engines:responses, chunks:framing.h framing_machine.h framing_state.h user/agent/answer_header.c"
	"engines:metrics pages:user/engines/prom.c user/engines/metrics.c"
	"engines:KV events:user/events/decode*.c user/events/unpack.h user/events/names.c user/events/sequence.c user/events/cut.c"
	"DNS servers:answers:user/engines/dns_answer.c"
	"administrator:configuration:user/common/config*.c user/common/addr.c"
)
units="events_decode events_sequence request hint tenant framing seq prompt prompt_input hash ladder config config_full config_diff metrics"

flags=(-Iinclude -Iuser -I.output -D_GNU_SOURCE -std=gnu11 -g -O0
	-Wno-string-plus-int -fprofile-instr-generate -fcoverage-mapping)
pkgs=(libcyaml yaml-0.1 yyjson libxxhash libzmq)
read -ra cflags < <(pkg-config --cflags "${pkgs[@]}")
read -ra libs < <(pkg-config --libs "${pkgs[@]}")
libs+=(-lm -lresolv)
rm -rf "$out"
mkdir -p "$out/bin" "$out/obj"

# As many at a time as there are CPUs; the first that fails ends it all.
spread() {
	[ "$(jobs -rp | wc -l)" -lt "$(nproc)" ] || wait -n
	"$@" &
}

all_done() {
	while [ -n "$(jobs -p)" ]; do wait -n; done
}

compile() { # SOURCE
	$clang "${flags[@]}" "${cflags[@]}" -c "$1" -o "$out/obj/${1//\//-}.o"
}

# run NAME SOURCE FLAG… -- ARGUMENT…: builds and runs a program
run() {
	local name=$1 build=("$2")
	shift 2
	while [ "$1" != -- ]; do build+=("$1") && shift; done
	shift
	$clang "${flags[@]}" "${cflags[@]}" "${build[@]}" "$out"/obj/user-lib-* "${libs[@]}" -o "$out/bin/$name"
	LLVM_PROFILE_FILE="$out/$name.profraw" "$out/bin/$name" "$@" >"$out/$name.log" 2>&1 ||
		{ echo "coverage: $name failed" && tail -n 20 "$out/$name.log" && return 1; } >&2
}

for f in user/lib/*.c user/common/{config*,addr}.c user/engines/{prom,metric*}.c user/events/*.c; do
	spread compile "$f"
done
all_done
for f in tests/fuzz/fuzz_*.c; do
	name=$(basename "$f" .c)
	inputs=("tests/fuzz/seeds/${name#fuzz_}")
	corpus=.output/fuzz/${name#fuzz_}/corpus
	[ -z "${KV_CORPUS:-}" ] || [ ! -d "$corpus" ] || inputs+=("$corpus")
	spread run "$name" "$f" "$out"/obj/user-events-* -fsanitize=fuzzer -- -runs=0 "${inputs[@]}"
done
for u in $units; do
	spread run "test_$u" "tests/unit/test_$u.c" "$out"/obj/user-{common,engines,events}-* --
done
all_done
$profdata merge -o "$out/all.profdata" "$out"/*.profraw
objects=()
for b in "$out"/bin/*; do objects+=(${objects:+-object} "$b"); done

# The lines of a file that hold code, and those that were run: a line runs if it does in any program.
lines() { # FILE…
	$cov show "${objects[@]}" -instr-profile "$out/all.profdata" -show-instantiations=false "$@" |
		awk -F'|' '/^ +[0-9]+\|/ && $2 ~ /[0-9]/ { all++; if ($2 + 0 > 0) run++ } END { print run + 0, all + 0 }'
}

bad=0
printf '| input of | parser | files | lines | run |\n|---|---|---|---|---|\n'
for p in "${parsers[@]}"; do
	IFS=: read -r from what files <<<"$p"
	paths=()
	for f in $files; do
		case $f in */*) ;; *) f=include/kvsteer/$f ;; esac
		mapfile -t -O ${#paths[@]} paths < <(compgen -G "$f")
	done
	read -r run all < <(lines "${paths[@]}")
	names=$(printf ', %s' "${paths[@]##*/}")
	printf '| %s | %s | %s | %d | %s %% |\n' "$from" "$what" "${names#, }" "$all" \
		"$(awk -v r="$run" -v a="$all" 'BEGIN { printf "%.1f", a ? 100 * r / a : 0 }')"
	if [ -n "$verbose" ]; then
		$cov show "${objects[@]}" -instr-profile "$out/all.profdata" -show-instantiations=false "${paths[@]}" |
			awk -F'|' -v file="${paths[0]}:" '/^\// { file = $0 } /^ +[0-9]+\|/ && $2 ~ /^ +0$/ { print "    " file $0 }' >&2
	fi
	[ $((run * 100)) -ge $((all * least)) ] && [ "$all" -gt 0 ] || bad=1
done
[ $bad = 0 ] || { echo "coverage: a parser is below $least % of its lines: tools/coverage.sh -v shows which" >&2 && exit 1; }
