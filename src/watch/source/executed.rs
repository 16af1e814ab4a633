//! Environments of programs as they are executed: the kernel side tells each
//! variable, and then the program. Put together here, exactly or not at all.

use std::collections::HashMap;

use super::record::{Given, Record};
use crate::observation::{Environment, Variable};
use crate::watch::Fact;

/// Processes whose variables wait for their program at most: a few more than
/// there are processors, but for what lost records leave.
const WAITING: usize = 1024;

/// Environments that are being told.
#[derive(Debug, Default)]
pub(super) struct Executed(HashMap<u32, Begun>);

/// Of one process.
#[derive(Debug)]
struct Begun {
    /// How many records were lost before these: all of one program are told at
    /// once, and where one of them is lost those that follow say another number.
    lost: u32,
    environment: Environment,
}

impl Executed {
    /// The fact of a record; none yet if it is a variable of one that comes.
    pub(super) fn fact(&mut self, record: Record) -> Option<Fact> {
        match record {
            Record::Fact(fact) => Some(fact),
            Record::Variable(given) => {
                self.add(given);
                None
            }
            Record::Executed { at, subject, env_end, lost, told } => {
                let begun = self.0.remove(&subject.pid);
                let environment = told.and_then(|told| whole(begun, lost, told));
                Some(Fact::Exec { at, subject, env_end, environment })
            }
        }
    }

    /// Records were lost: what waits may wait for one of them.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn add(&mut self, given: Given) {
        let Given { pid, lost, number, name, value } = given;
        if number == 0 {
            if self.0.len() >= WAITING {
                self.0.clear();
            }
            self.0.insert(pid, Begun { lost, environment: Environment::default() });
        }
        let Some(begun) = self.0.get_mut(&pid) else { return };
        let variables = &mut begun.environment.variables;
        match value.filter(|_| begun.lost == lost && variables.len() == number) {
            Some((bytes, cut)) => {
                variables.push(Variable { name: name.to_owned(), value: bytes.into(), cut });
            }
            None => drop(self.0.remove(&pid)),
        }
    }
}

/// The environment, if all that was told of it came.
fn whole(begun: Option<Begun>, lost: u32, told: usize) -> Option<Environment> {
    if told == 0 {
        return Some(Environment::default());
    }
    let begun = begun.filter(|begun| begun.lost == lost && begun.environment.variables.len() == told);
    begun.map(|begun| begun.environment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Subject;

    const A: &str = "CUDA_VISIBLE_DEVICES";

    fn variable(lost: u32, number: usize, value: Option<&str>) -> Record {
        let value = value.map(|value| (value.as_bytes().to_vec(), false));
        Record::Variable(Given { pid: 7, lost, number, name: A, value })
    }

    fn program(lost: u32, told: Option<usize>) -> Record {
        let subject = Subject { pid: 7, ..Subject::default() };
        Record::Executed { at: 1, subject, env_end: 0, lost, told }
    }

    /// The values that records tell of the last program among them.
    fn told(records: impl IntoIterator<Item = Record>) -> Option<Vec<String>> {
        let mut executed = Executed::default();
        let fact = records.into_iter().fold(None, |_, record| executed.fact(record));
        assert!(executed.0.is_empty());
        let Some(Fact::Exec { environment, .. }) = fact else { panic!("{fact:?}") };
        let values = |all: Environment| {
            all.variables.iter().map(|variable| variable.value.lossy().into_owned()).collect()
        };
        environment.map(values)
    }

    /// Make sure that what comes whole is told, in its order and with what is
    /// there twice.
    #[test]
    fn complete() {
        assert_eq!(told([program(5, Some(0))]), Some(Vec::new()));
        let both = [variable(5, 0, Some("1")), variable(5, 1, Some("")), program(5, Some(2))];
        assert_eq!(told(both).unwrap(), ["1", ""]);
    }

    /// Make sure that nothing is told where a record is missing, could not be
    /// read, or belongs to another program.
    #[test]
    fn incomplete() {
        let one = || variable(5, 0, Some("1"));
        assert_eq!(told([one(), program(5, None)]), None);
        assert_eq!(told([program(5, Some(1))]), None);
        assert_eq!(told([one(), program(5, Some(2))]), None);
        assert_eq!(told([variable(5, 1, Some("2")), program(5, Some(2))]), None);
        assert_eq!(told([one(), variable(5, 2, Some("2")), program(5, Some(2))]), None);
        assert_eq!(told([variable(5, 0, None), program(5, Some(1))]), None);
        // The program of the first and the variable of the second are lost.
        assert_eq!(told([one(), program(7, Some(1))]), None);
        assert_eq!(told([one(), variable(7, 1, Some("2")), program(7, Some(2))]), None);
        assert_eq!(told([one(), variable(6, 0, Some("2")), program(6, Some(1))]).unwrap(), ["2"]);
    }
}
