//! The live node: asks the kernel and writes down plain facts.

pub mod gpu;
