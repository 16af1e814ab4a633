#!/bin/bash
# Builds the static binary of the sources in the working directory:
#   packaging/build.sh PROFILE TARGET_DIR [TARGET]
# Runs nothing but cargo, which needs rustc, and gcc as linker. The same sources and
# toolchain give the same bytes in any directory: without the remapped prefixes,
# paths of the builder's machine would stand in messages of panics.
set -eu
export RUSTFLAGS="-C target-feature=+crt-static \
--remap-path-prefix=$PWD=/build/gpumap --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/build/cargo"
export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$2
exec cargo build --locked --profile "$1" --target "${3:-x86_64-unknown-linux-gnu}" --bin gpumap
