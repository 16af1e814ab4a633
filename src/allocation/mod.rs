//! Finds the GPUs that a scheduler allocated: the meaning of Slurm's numbers.
//!
//! Slurm counts GPUs by their position in slurmd's list (`SLURM_JOB_GPUS`, `IDX`),
//! which is neither the device minor nor the NVML index. Only `gres.conf` tells
//! which GPU a number means, and not always: what is not certain is unknown, with
//! the line of the file that makes it so. gpumap assumes Slurm 21.08 or later;
//! before, a number was the end of a file's name.

mod caller_list;
mod gres;
mod hook;
mod managed;
mod order;
mod resolve;

pub use caller_list::caller_list;
pub use hook::{Of, of_claim, of_hook};
pub use managed::{Managed, managed};
pub use resolve::Numbering;
