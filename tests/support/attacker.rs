//! Processes that attack gpumap, and gpumap run against them.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::victim::Scratch;
use super::wait::within;

const SUPPORT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/c");
/// No command may take longer than that, whatever it looks at. With
/// `--timeout 2s` each takes about two seconds.
const LONGEST: u64 = 30;

/// Compiles a program of `tests/support/c`.
pub fn build(scratch: &Scratch, name: &str) -> PathBuf {
    build_with(scratch, name, &[])
}

/// The same with further flags.
pub fn build_with(scratch: &Scratch, name: &str, flags: &[&str]) -> PathBuf {
    let program = scratch.path().join(name);
    let source = format!("{SUPPORT}/{name}.c");
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-w", "-pthread"]).args(flags).args([&source, "-o"]).arg(&program);
    let built = compiler.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

/// A process that ends with its standard input.
pub struct Attacker(Child);

impl Attacker {
    /// Starts it with `CUDA_VISIBLE_DEVICES=0`, and waits until it says that it is
    /// ready.
    pub fn start(command: &mut Command) -> Self {
        command.env_clear().env("FIRST", "x").env("CUDA_VISIBLE_DEVICES", "0");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready"), "{line:?}");
        Self(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        // The FUSE server ends with that, and with it everybody's waiting.
        let begun = Instant::now();
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
        println!("{} ended within {:?}", self.0.id(), begun.elapsed());
    }
}

/// What a command printed. Its output ends when nobody has it open any more,
/// no helper either.
pub fn gpumap(arguments: &[&str]) -> (i32, String) {
    run(Command::new(env!("CARGO_BIN_EXE_gpumap")).args(arguments))
}

/// The same of a command line of the test's own.
pub fn run(command: &mut Command) -> (i32, String) {
    let begun = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = output.read_to_string(&mut text);
        let _ = sender.send(read.map(|_| text));
    });
    let text = receiver.recv_timeout(within(LONGEST));
    let text = text.unwrap_or_else(|_| {
        let _ = child.kill();
        panic!("{command:?} did not end within {LONGEST} s")
    });
    let status = child.wait().unwrap();
    println!("{:?} took {:?}, {status}", command.get_args().collect::<Vec<_>>(), begun.elapsed());
    (status.code().unwrap_or(-1), text.unwrap())
}
