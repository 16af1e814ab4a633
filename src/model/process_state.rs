//! States of processes, and the letters that the kernel has for them.

open_words! {
    /// The state of the main thread of a process.
    pub enum ProcessState {
        /// It is being removed.
        Dead,
        /// A kernel thread that waits for work.
        Idle,
        /// It has ended, while other threads of the process run.
        MainThreadEnded,
        /// It runs or is ready to run.
        #[default]
        Running,
        /// It waits and can be interrupted.
        Sleeping,
        /// A signal stopped it.
        Stopped,
        /// A debugger holds it.
        Traced,
        /// It waits inside the kernel, and cannot be killed until that ends.
        Uninterruptible,
        /// The process has ended, and its parent has not fetched its exit status.
        Zombie,
    }
}

impl ProcessState {
    /// The state that a letter in `/proc/PID/stat` means (proc_pid_stat(5)); `other`
    /// for a letter that gpumap does not know. `threads` is the number of threads
    /// that the process still has.
    pub fn of_letter(letter: char, threads: Option<u32>) -> Self {
        match letter {
            'R' => Self::Running,
            'S' => Self::Sleeping,
            'D' => Self::Uninterruptible,
            'T' => Self::Stopped,
            't' => Self::Traced,
            'Z' if threads.is_some_and(|threads| threads > 1) => Self::MainThreadEnded,
            'Z' => Self::Zombie,
            'X' | 'x' => Self::Dead,
            'I' => Self::Idle,
            _ => Self::Other("other".to_owned()),
        }
    }

    /// The letter that ps(1) and top(1) print; `?` for a state that gpumap does
    /// not know.
    pub fn letter(&self) -> char {
        match self {
            Self::Running => 'R',
            Self::Sleeping => 'S',
            Self::Uninterruptible => 'D',
            Self::Stopped => 'T',
            Self::Traced => 't',
            Self::Zombie | Self::MainThreadEnded => 'Z',
            Self::Dead => 'X',
            Self::Idle => 'I',
            Self::Other(_) => '?',
        }
    }

    /// Whether the process has ended with all its threads.
    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Zombie | Self::Dead)
    }

    /// Whether this is the state of most processes most of the time.
    pub fn is_usual(&self) -> bool {
        matches!(self, Self::Running | Self::Sleeping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that each letter of the kernel comes back, and that a main thread
    /// that has ended is no zombie while other threads run.
    #[test]
    fn letters() {
        for letter in "RSDTtZXI".chars() {
            assert_eq!(ProcessState::of_letter(letter, Some(1)).letter(), letter);
        }
        assert_eq!(ProcessState::of_letter('Z', Some(2)).to_string(), "main-thread-ended");
        assert_eq!(ProcessState::of_letter('Q', None).to_string(), "other");
        assert!(!ProcessState::of_letter('Z', Some(2)).has_ended());
        assert!(ProcessState::of_letter('Z', Some(1)).has_ended());
    }
}
