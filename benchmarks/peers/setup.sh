#!/bin/bash
# The environments of the peers, apart from ours and from one another because their pins conflict.
#
#   setup.sh DIR        makes DIR/diffprivlib and DIR/opacus, or completes them
#
# Needs Python 3.11 or newer with venv (PYTHON=... names another interpreter), a package index, and about 1.5 GB: torch is taken as
# a build for the processor only, from an index that has one if TORCH_INDEX names it; a plain `pip install torch` is a
# build for graphics cards on Linux and several gigabytes larger. Nothing here runs on a graphics card.
set -euo pipefail
dir=${1:?usage: setup.sh DIR}
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "setup.sh: $python is older than 3.11; set PYTHON" >&2; exit 1; }

environment() { # name package...
    local name=$1
    shift
    [ -x "$dir/$name/bin/python" ] || "$python" -m venv "$dir/$name"
    "$dir/$name/bin/python" -m pip install --quiet "$@"
    "$dir/$name/bin/python" -m pip check
}

environment diffprivlib diffprivlib==0.6.6 scikit-learn==1.5.2 numpy==2.4.6 scipy==1.17.1

torch=${TORCH_INDEX:+--index-url $TORCH_INDEX}
# shellcheck disable=SC2086  # empty or two words
environment opacus $torch torch==2.13.0
environment opacus opacus==1.6.0 dp-accounting==0.6.0 numpy==2.4.6 scipy==1.17.1 torch==2.13.0
