//! Programs to test with: every known writer's shape with random rules, random
//! structured programs, and stacks of both.

pub mod expr;
pub mod heavy;
pub mod lists;
pub mod loops;
pub mod mapped;
pub mod mapstatements;
pub mod mutable;
pub mod random;
pub mod rules;
pub mod stacks;
pub mod state;
pub mod statements;
pub mod writers;
