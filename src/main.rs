//! The `gpumap` command.

fn main() {}
