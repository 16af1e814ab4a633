//! What `gpumap watch` prints.

use super::Failure;
use super::watch::Watch;
use crate::report::Event;
use crate::{render, watch};

impl Watch<'_, '_> {
    /// Events are written as they come, and given away once for all of these
    /// facts: a system call for each costs more than the rest.
    pub(super) fn take(&mut self, facts: Vec<watch::Fact>) -> Result<(), Failure> {
        let any = !facts.is_empty();
        for fact in facts {
            let events = self.tracker.take(fact);
            self.write(&events)?;
        }
        if any {
            self.session.out.flush()?;
        }
        Ok(())
    }

    pub(super) fn print(&mut self, events: &[Event]) -> Result<(), Failure> {
        self.write(events)?;
        if !events.is_empty() {
            self.session.out.flush()?;
        }
        Ok(())
    }

    fn write(&mut self, events: &[Event]) -> Result<(), Failure> {
        for event in events {
            self.changed |= matches!(event.event.as_str(), "visible" | "policy") && !is_replacement(event);
            self.dirty |= matches!(event.event.as_str(), "visible" | "exit" | "process");
            if self.session.global.json {
                render::json::write(self.session.out, event)?;
            } else if self.session.style.all || !is_replacement(event) {
                let gpus = Some(self.tracker.gpus()).filter(|gpus| !gpus.is_empty());
                render::event(self.session.out, event, gpus.unwrap_or(&self.gpus))?;
            }
        }
        Ok(())
    }
}

/// Whether programs were replaced by others that decide the same, as Slurm does
/// at every step: nothing that people watch for.
fn is_replacement(event: &Event) -> bool {
    event.policy.as_ref().is_some_and(|policy| policy.equal)
}
