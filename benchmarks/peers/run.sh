#!/bin/bash
# The accuracy benchmark from nothing to the tables of docs/benchmarks.md. Cells that RESULTS holds are not run again.
#
#   benchmarks/peers/run.sh DIR DATA [RESULTS]
#
# DIR: the peers' environments (made if need be); DATA: the folder with adult.csv and a9a; RESULTS: benchmarks/results by default.
# Our side runs in the Python of PYTHON_DPSPEC (.venv/bin/python or python3), which has dpspec. To measure a side again, delete its
# file, e.g. RESULTS/dpspec.jsonl. One core: CORE=1 names it (0 by default). About an hour, nearly all of it for the peers.
set -euo pipefail
dir=$(realpath -m "${1:?usage: run.sh DIR DATA [RESULTS]}")
data=$(realpath "${2:?usage: run.sh DIR DATA [RESULTS]}")
root=$(cd "$(dirname "$0")/../.." && pwd)
results=$(realpath -m "${3:-$root/benchmarks/results}")
cd "$root"
for file in adult.csv a9a; do
    [ -f "$data/$file" ] || { echo "run.sh: $data/$file is missing" >&2; exit 1; }
done
ours=${PYTHON_DPSPEC:-$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
one=$(command -v taskset >/dev/null && echo "taskset -c ${CORE:-0}" || true)

benchmarks/peers/setup.sh "$dir"
$one "$dir/diffprivlib/bin/python" benchmarks/peers/logistic.py "$data" --tool diffprivlib --out "$results/diffprivlib.jsonl"
$one "$dir/opacus/bin/python" benchmarks/peers/logistic.py "$data" --tool dp-gd --out "$results/dp-gd.jsonl"
$one "$dir/opacus/bin/python" benchmarks/peers/logistic.py "$data" --tool opacus --out "$results/opacus.jsonl"
$one "$ours" -m benchmarks.convex_accuracy "$data" --out "$results/dpspec.jsonl"
"$ours" -m benchmarks.convex_table "$results"
