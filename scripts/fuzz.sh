#!/usr/bin/env bash
# Runs the fuzz targets of tests/fuzz on stable Rust, each for SECONDS, from its committed corpus.
#
#   scripts/fuzz.sh [--keep] SECONDS [TARGET...]
#
# Without TARGET every file of tests/fuzz/src/bin is run. A finding stops the run with status 1 and
# the command that reproduces it. Inputs that reach new code are dropped at the end; with --keep the
# smallest of them join the committed corpus. Needs a C++ compiler (CXX, else c++), which builds
# libFuzzer, and neither nightly Rust nor cargo-fuzz.
set -euo pipefail

usage() {
    echo "usage: scripts/fuzz.sh [--keep] SECONDS [TARGET...]" >&2
    exit 2
}

keep=false
if [[ ${1-} == --keep ]]; then
    keep=true
    shift
fi
seconds=${1-}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || usage
shift

cd "$(dirname "${BASH_SOURCE[0]}")/../tests/fuzz"
targets=("$@")
if [[ ${#targets[@]} -eq 0 ]]; then
    for file in src/bin/*.rs; do
        targets+=("$(basename "$file" .rs)")
    done
fi
for target in "${targets[@]}"; do
    if [[ ! -f src/bin/$target.rs ]]; then
        echo "fuzz: no target \`$target\`; there are: $(cd src/bin && echo *.rs | sed 's/\.rs//g')" >&2
        exit 2
    fi
done

# The counters that libFuzzer steers by. With --target the flags spare build scripts and macros.
host=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
RUSTFLAGS="--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares" \
    cargo build --locked --release --target "$host" --bins

artifacts=$PWD/artifacts
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$artifacts"
for target in "${targets[@]}"; do
    binary=$CARGO_TARGET_DIR/$host/release/$target
    corpus=$PWD/corpus/$target
    finds=$scratch/$target
    mkdir -p "$corpus" "$finds"
    echo "fuzz: $target for $seconds s from $(find "$corpus" -type f | wc -l) seeds"
    # The first folder takes what is found. Frames are at most 65,507 bytes, but short inputs find
    # more in the same time, and the bounds have tests of their own.
    if ! "$binary" -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=2048 \
        -artifact_prefix="$artifacts/$target-" -print_final_stats=1 \
        "$finds" "$corpus" >"$scratch/log" 2>&1; then
        cat "$scratch/log"
        file=$(sed -n 's/^.*Test unit written to //p' "$scratch/log" | tail -n 1)
        echo "fuzz: $target failed; reproduce it with:" >&2
        echo "  $binary ${file:-(no input was written: see above)}" >&2
        exit 1
    fi
    grep -E 'DONE|stat::number_of_executed_units' "$scratch/log"
    if $keep; then
        "$binary" -merge=1 "$corpus" "$finds" 2>&1 | grep -E '^MERGE-OUTER: [0-9]+ new files'
    fi
done
echo "fuzz: no finding"
