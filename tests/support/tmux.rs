//! A real terminal: gpumap in a tmux of its own.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::host;
use super::wait::patience;

/// A tmux server with one window. It ends with the test.
#[derive(Debug)]
pub struct Tmux {
    name: String,
}

impl Tmux {
    /// Runs a shell line in a terminal of this size; `None` if tmux is not installed.
    /// When the line has ended, the terminal shows `ended CODE`.
    pub fn start(line: &str, (width, height): (u16, u16)) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if !host::is_installed("tmux") {
            host::skip("tmux is not installed");
            return None;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let tmux = Self { name: format!("gpumap-{}-{number}", std::process::id()) };
        // At the end, whether what is typed is shown again.
        let echo = "stty -a | tr ' ;' '\\n\\n' | grep -x -e echo -e -echo";
        let line = format!("echo before; {line}; echo ended $?; {echo}; sleep 1000");
        let (width, height) = (width.to_string(), height.to_string());
        tmux.run(&[
            "-f",
            "/dev/null",
            "-u",
            "new-session",
            "-d",
            "-x",
            &width,
            "-y",
            &height,
            "sh",
            "-c",
            &line,
        ]);
        Some(tmux)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.name]).args(args);
        command.env("LC_ALL", "C.UTF-8").env("SHELL", "/bin/sh").env_remove("TMUX").env_remove("NO_COLOR");
        command.output().expect("tmux")
    }

    /// Presses keys, as tmux names them.
    pub fn press(&self, keys: &[&str]) {
        let done = self.run(&[&["send-keys"], keys].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// Types a line into a shell.
    pub fn type_line(&self, line: &str) {
        self.press(&["-l", line]);
        self.press(&["Enter"]);
    }

    /// Makes the terminal of another size.
    pub fn resize(&self, width: u16, height: u16) {
        let (width, height) = (width.to_string(), height.to_string());
        self.run(&["resize-window", "-x", &width, "-y", &height]);
    }

    /// What the terminal shows.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.run(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// One of tmux's own variables.
    pub fn variable(&self, name: &str) -> String {
        let shown = self.run(&["display", "-p", &format!("#{{{name}}}")]).stdout;
        String::from_utf8_lossy(&shown).trim().to_owned()
    }

    /// The screen as soon as it shows something.
    pub fn wait(&self, what: &str) -> String {
        self.wait_until(what, |screen| screen.contains(what))
    }

    /// The screen as soon as this holds of it.
    pub fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + patience();
        loop {
            let screen = self.screen();
            if holds(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "never: {what}\n{screen}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The pid of the process of this name below the terminal's shell.
    pub fn pid_of(&self, name: &str) -> u32 {
        self.pid_below(self.variable("pane_pid").parse().expect("a pid"), name)
    }

    /// The same below another process.
    pub fn pid_below(&self, parent: u32, name: &str) -> u32 {
        let end = Instant::now() + patience();
        loop {
            if let Some(pid) = child(parent, name) {
                return pid;
            }
            assert!(Instant::now() < end, "no {name} below {parent}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the terminal, as somebody who closes its window.
    pub fn close(&self) {
        self.run(&["kill-server"]);
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.close();
    }
}

fn child(parent: u32, name: &str) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(|pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
    })
}
