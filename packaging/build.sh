#!/bin/bash
# Builds the static binary of the sources in the working directory:
#   packaging/build.sh PROFILE TARGET_DIR [TARGET]
# Runs nothing but cargo, which needs rustc, and gcc as linker. The same sources and
# toolchain give the same bytes in any directory: without the remapped prefixes,
# paths of the builder's machine would stand in messages of panics.
set -eu
target=${3:-x86_64-unknown-linux-gnu}
# The program can stand at any address. Packed, the list of places that the start has to
# adapt takes 4 KB instead of 315.
link=-Wl,-z,pack-relative-relocs
# rustc for x86-64 brings a linker, which keeps one copy of functions with the same code.
# That of a distribution may have none.
lld=$(rustc --print sysroot)/lib/rustlib/$target/bin/gcc-ld/ld.lld
[ ! -x "$lld" ] || link=$link,--icf=all
# Fewer functions are inlined than cargo's optimisation would: a tenth less to load and keep.
export RUSTFLAGS="-C target-feature=+crt-static -C link-arg=$link -C llvm-args=-inline-threshold=75 \
--remap-path-prefix=$PWD=/build/gpumap --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/build/cargo"
export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$2
exec cargo build --locked --profile "$1" --target "$target" --bin gpumap
