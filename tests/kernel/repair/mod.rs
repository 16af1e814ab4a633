//! What `gpumap repair --apply` and `--undo` do on this kernel: programs of every kind
//! of attachment, neighbours, hostile rooms, others at work, and being killed.

mod attachments;
mod failed_proof;
mod hostile;
mod others;
mod scene;
