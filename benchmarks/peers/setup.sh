#!/bin/bash
# The peers of benchmarks/peers/logistic.py in an environment of their own (their pins conflict with ours). Usage: setup.sh VENV_DIR
set -e
[ -x "$1/bin/python" ] || python3 -m venv "$1"
"$1/bin/pip" install -q diffprivlib==0.6.6 "scikit-learn<1.6" pandas scipy
