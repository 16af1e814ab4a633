//! Assembles environments at execve: the kernel side reports each variable, and then the
//! program. Put together here, exactly or not at all.

use std::collections::HashMap;

use super::record::{ProgramVariable, Record};
use crate::observation::{Environment, Variable};
use crate::watch::Fact;

/// Processes of one account whose variables wait for their program at most. At
/// one moment there are no more than processors; what lost records leave goes
/// with the gap that they make.
const WAITING: usize = 64;

/// Environments that are being reported, by account and process.
#[derive(Debug, Default)]
pub(super) struct Executed(HashMap<u32, HashMap<u32, Begun>>);

/// Of one process.
#[derive(Debug)]
struct Begun {
    /// How many records were lost before these: all of one program are reported at
    /// once, and where one of them is lost those that follow say another number.
    lost: u32,
    environment: Environment,
}

impl Executed {
    /// The fact of a record; none yet if it is a variable of one that comes.
    pub(super) fn fact(&mut self, record: Record) -> Option<Fact> {
        match record {
            Record::Fact(fact) => Some(fact),
            Record::Variable(variable) => {
                self.add(variable);
                None
            }
            Record::Executed { at, subject, env_end, lost, reported } => {
                let begun = subject.account.and_then(|account| self.remove(account, subject.pid));
                let environment = reported.and_then(|reported| whole(begun, lost, reported));
                Some(Fact::Exec { at, subject, env_end, environment })
            }
        }
    }

    /// Records of an account were lost: what waits may wait for one of them.
    pub(super) fn clear(&mut self, account: u32) {
        self.0.remove(&account);
    }

    fn add(&mut self, variable: ProgramVariable) {
        let ProgramVariable { pid, account, lost, number, name, value } = variable;
        if number == 0 {
            let waiting = self.0.entry(account).or_default();
            if waiting.len() >= WAITING {
                waiting.clear();
            }
            waiting.insert(pid, Begun { lost, environment: Environment::default() });
        }
        let Some(begun) = self.0.get_mut(&account).and_then(|waiting| waiting.get_mut(&pid)) else { return };
        let variables = &mut begun.environment.variables;
        match value.filter(|_| begun.lost == lost && variables.len() == number) {
            Some((bytes, cut)) => {
                variables.push(Variable { name: name.to_owned(), value: bytes.into(), cut });
            }
            None => drop(self.remove(account, pid)),
        }
    }

    fn remove(&mut self, account: u32, pid: u32) -> Option<Begun> {
        let waiting = self.0.get_mut(&account)?;
        let begun = waiting.remove(&pid);
        if waiting.is_empty() {
            self.0.remove(&account);
        }
        begun
    }
}

/// The environment, if every record of it came.
fn whole(begun: Option<Begun>, lost: u32, reported: usize) -> Option<Environment> {
    if reported == 0 {
        return Some(Environment::default());
    }
    let begun = begun.filter(|begun| begun.lost == lost && begun.environment.variables.len() == reported);
    begun.map(|begun| begun.environment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::EventSubject;

    const A: &str = "CUDA_VISIBLE_DEVICES";

    fn variable(lost: u32, number: usize, value: Option<&str>) -> Record {
        of(7, 1, lost, number, value)
    }

    fn of(pid: u32, account: u32, lost: u32, number: usize, value: Option<&str>) -> Record {
        let value = value.map(|value| (value.as_bytes().to_vec(), false));
        Record::Variable(ProgramVariable { pid, account, lost, number, name: A, value })
    }

    fn program(lost: u32, reported: Option<usize>) -> Record {
        let subject = EventSubject { pid: 7, account: Some(1), ..EventSubject::default() };
        Record::Executed { at: 1, subject, env_end: 0, lost, reported }
    }

    /// The values that records tell of the last program among them.
    fn reported(records: impl IntoIterator<Item = Record>) -> Option<Vec<String>> {
        let mut executed = Executed::default();
        let fact = records.into_iter().fold(None, |_, record| executed.fact(record));
        assert!(executed.0.is_empty());
        let Some(Fact::Exec { environment, .. }) = fact else { panic!("{fact:?}") };
        let values = |all: Environment| {
            all.variables.iter().map(|variable| variable.value.lossy().into_owned()).collect()
        };
        environment.map(values)
    }

    /// Make sure that what comes whole is reported, in its order and with what is
    /// there twice.
    #[test]
    fn complete() {
        assert_eq!(reported([program(5, Some(0))]), Some(Vec::new()));
        let both = [variable(5, 0, Some("1")), variable(5, 1, Some("")), program(5, Some(2))];
        assert_eq!(reported(both).unwrap(), ["1", ""]);
    }

    /// Make sure that nothing is reported where a record is missing, could not be
    /// read, or belongs to another program.
    #[test]
    fn incomplete() {
        let one = || variable(5, 0, Some("1"));
        assert_eq!(reported([one(), program(5, None)]), None);
        assert_eq!(reported([program(5, Some(1))]), None);
        assert_eq!(reported([one(), program(5, Some(2))]), None);
        assert_eq!(reported([variable(5, 1, Some("2")), program(5, Some(2))]), None);
        assert_eq!(reported([one(), variable(5, 2, Some("2")), program(5, Some(2))]), None);
        assert_eq!(reported([variable(5, 0, None), program(5, Some(1))]), None);
        // The program of the first and the variable of the second are lost.
        assert_eq!(reported([one(), program(7, Some(1))]), None);
        assert_eq!(reported([one(), variable(7, 1, Some("2")), program(7, Some(2))]), None);
        assert_eq!(reported([one(), variable(6, 0, Some("2")), program(6, Some(1))]).unwrap(), ["2"]);
    }

    /// Make sure that what one user's processes leave behind, or lose, is no harm
    /// to the environments of another's.
    #[test]
    fn apart() {
        let mut executed = Executed::default();
        executed.fact(variable(0, 0, Some("1")));
        for pid in 100..1000 {
            executed.fact(of(pid, 2, 0, 0, Some("2")));
        }
        assert!(executed.0.values().map(HashMap::len).sum::<usize>() <= 1 + WAITING);
        executed.clear(2);
        let Some(Fact::Exec { environment: Some(environment), .. }) = executed.fact(program(0, Some(1)))
        else {
            panic!("it was forgotten")
        };
        assert_eq!(environment.variables.len(), 1);
    }
}
