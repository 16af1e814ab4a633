//! `gpumap export` that runs on: hostile clients, rights that it gives up, changes of
//! programs, files that cannot be written for a while.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::cgroup::Cgroup;
use crate::support::wait::{patience, within};
use crate::support::{host, node};

/// A running `gpumap export --listen` of a scratch cgroup.
struct Exporter {
    child: Child,
    address: SocketAddr,
}

impl Exporter {
    fn start(top: &Cgroup, args: &[&str]) -> Self {
        // A port that was free a moment ago.
        let address = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        let port = address.port().to_string();
        let mut command = node::command(&["export", "--listen", &port, "--every", "1s", "--cpu", "100"]);
        command.args(args).arg("--cgroup-root").arg(top.path()).arg("--gpu-root").arg(node::four_gpus());
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the built program");
        let exporter = Self { child, address };
        let began = Instant::now();
        while exporter.get("/metrics", "").is_none_or(|answer| !answer.contains("\ngpumap_gpus 4\n")) {
            assert!(began.elapsed() < patience(), "no metrics come");
            std::thread::sleep(Duration::from_millis(50));
        }
        exporter
    }

    /// The whole answer of a request; `None` where none comes.
    fn get(&self, path: &str, headers: &str) -> Option<String> {
        self.say(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n"))
    }

    fn say(&self, request: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(within(20))).ok()?;
        let _refused = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _cut = stream.read_to_end(&mut answer);
        Some(String::from_utf8_lossy(&answer).into_owned()).filter(|answer| !answer.is_empty())
    }

    /// The value of a sample.
    fn value(&self, sample: &str) -> Option<f64> {
        let text = self.get("/metrics", "")?;
        text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse().ok())
    }

    /// Waits until a sample has a value.
    fn wait_for(&self, sample: &str, is_it: impl Fn(f64) -> bool) {
        let began = Instant::now();
        while !self.value(sample).is_some_and(&is_it) {
            assert!(began.elapsed() < patience(), "{sample} is {:?}", self.value(sample));
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// Make sure that requests get what they ask for, and that all else is refused.
#[test]
fn requests() {
    let Some(_host) = host::shared() else { return };
    let top = Cgroup::new().expect("a cgroup");
    let exporter = Exporter::start(&top, &[]);
    let classic = exporter.get("/metrics", "Accept: text/plain\r\n").expect("an answer");
    assert!(classic.contains("content-type: text/plain; version=0.0.4") && !classic.contains("# EOF"));
    let open = exporter.get("/metrics", "Accept: application/openmetrics-text;version=1.0.0\r\n");
    let open = open.expect("an answer");
    assert!(open.contains("content-type: application/openmetrics-text; version=1.0.0"), "{open}");
    assert!(open.ends_with("# EOF\n") && open.contains("\ngpumap_looks_total "));
    let head = exporter.say("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("an answer");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    for (request, status) in [
        ("GET /other HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "405"),
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let answer = exporter.say(request).unwrap_or_default();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request:?}: {answer}");
    }
    let huge = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(1 << 20));
    let answer = exporter.say(&huge).unwrap_or_default();
    assert!(!answer.contains("gpumap_gpus"), "{answer}");
}

/// Make sure that clients that send nothing, send slowly, or do not read, be they many,
/// neither keep others waiting nor their connections.
#[test]
fn hostile_clients() {
    let Some(_host) = host::shared() else { return };
    let top = Cgroup::new().expect("a cgroup");
    let exporter = Exporter::start(&top, &[]);
    let mut clients = Vec::new();
    for number in 0..300 {
        let mut stream = TcpStream::connect(exporter.address).expect("a connection");
        stream.set_nonblocking(true).expect("a socket");
        let text: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /metrics HTTP/1.1\r\nX-Slow: ",
            _ => b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        };
        let _refused = stream.write(text);
        clients.push(stream);
        if number % 50 == 49 {
            let began = Instant::now();
            assert!(exporter.value("gpumap_gpus") == Some(4.0), "after {number} clients");
            assert!(began.elapsed() < within(5), "{:?}", began.elapsed());
        }
    }
    // One byte at a time keeps no connection: the whole request has a moment.
    let began = Instant::now();
    while !clients.is_empty() {
        clients.retain_mut(|stream| {
            let _refused = stream.write(b"a");
            let mut rest = [0; 1 << 16];
            loop {
                match stream.read(&mut rest) {
                    Ok(0) => return false,
                    Ok(_) => {}
                    Err(error) => return error.kind() == ErrorKind::WouldBlock,
                }
            }
        });
        assert!(began.elapsed() < patience(), "{} connections stay", clients.len());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(exporter.value("gpumap_gpus"), Some(4.0));
}

/// Make sure that a request that has come is answered, however many connections came
/// after it before gpumap had a moment for any of them.
#[test]
fn first_of_many() {
    let Some(_host) = host::shared() else { return };
    let top = Cgroup::new().expect("a cgroup");
    let exporter = Exporter::start(&top, &[]);
    let pid = nix::unistd::Pid::from_raw(exporter.child.id().cast_signed());
    let send = |signal| nix::sys::signal::kill(pid, signal).expect("a child");
    send(nix::sys::signal::Signal::SIGSTOP);
    let mut first = TcpStream::connect(exporter.address).expect("a connection");
    first.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("a request");
    // Fewer than the kernel keeps for a listener by default.
    let others: Vec<TcpStream> =
        (0..120).map(|_| TcpStream::connect(exporter.address).expect("a connection")).collect();
    send(nix::sys::signal::Signal::SIGCONT);
    first.set_read_timeout(Some(patience())).expect("a socket");
    let mut answer = String::new();
    let read = first.read_to_string(&mut answer);
    assert!(read.is_ok() && answer.contains("\ngpumap_gpus 4\n"), "{read:?} {answer:?}");
    drop(others);
}

/// Make sure that odd requests get an answer of HTTP or an end, never the metrics of
/// somebody else's protocol, and that the listener goes on.
#[test]
fn odd_requests() {
    let Some(_host) = host::shared() else { return };
    let top = Cgroup::new().expect("a cgroup");
    let exporter = Exporter::start(&top, &[]);
    let line = "GET /metrics HTTP/1.1\r\nHost: x\r\n";
    for (request, status) in [
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), ""),
        ("TRACE /metrics HTTP/1.1\r\nHost: x\r\nX-Secret: 1\r\n\r\n".to_owned(), "405"),
        ("CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), "405"),
        ("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), "405"),
        ("GET http://elsewhere.example/metrics HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), "200"),
        (format!("{line}Connection: upgrade\r\nUpgrade: h2c\r\n\r\n"), "200"),
        (format!("{line}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), "200"),
        (format!("{line}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"), "200"),
        (format!("{line}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"), "200"),
        (format!("{line}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"), "400"),
        (format!("{line}{}\r\n", "X: y\r\n".repeat(500)), "431"),
    ] {
        let answer = exporter.say(&request).unwrap_or_default();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")) || status.is_empty(),
            "{request}: {answer}"
        );
        assert!(!answer.contains("X-Secret"), "{answer}");
        assert_eq!(answer.contains("\ngpumap_gpus 4\n"), status == "200", "{request}: {answer}");
    }
    // One answer for a connection: what follows a request is not looked at.
    let twice = exporter.say(&format!("{line}\r\n{line}\r\n")).unwrap_or_default();
    assert!(twice.matches("HTTP/1.1 200").count() <= 1, "{twice}");
    assert_eq!(exporter.value("gpumap_gpus"), Some(4.0));
}

/// A tmpfs with this place for files, until it is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(name: &std::ffi::OsStr, options: &str) -> Self {
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a directory");
        let options = ["-t", "tmpfs", "-o", options, "gpumap-export"];
        let mounted = Command::new("mount").args(options).arg(&path).status().expect("mount");
        assert!(mounted.success(), "no tmpfs at {}", path.display());
        Self(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("--lazy").arg(&self.0).status();
        let _gone = fs::remove_dir(&self.0);
    }
}

/// Make sure that a full disk leaves the old file whole, is told each time that it
/// begins, leaves nothing else behind, and that writing goes on afterwards.
#[test]
fn full_disk() {
    let Some(_host) = host::shared() else { return };
    let top = Cgroup::new().expect("a cgroup");
    let disk = SmallDisk::new(top.path().file_name().expect("a name"), "size=256k");
    let file = disk.0.join("gpumap.prom");
    let mut exporter = Exporter::start(&top, &["--textfile", file.to_str().expect("a name")]);
    let errors = BufReader::new(exporter.child.stderr.take().expect("a pipe"));
    let (line, said) = std::sync::mpsc::channel();
    // It ends with the exporter.
    std::thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|text| line.send(text)));
    wait_until("the first file", || file.exists());
    for _ in 0..2 {
        let ballast = disk.0.join("ballast");
        assert!(fs::write(&ballast, vec![1; 1 << 20]).is_err(), "the disk is larger than it was made");
        let is_told = || {
            said.try_iter()
                .any(|text| text.contains("gpumap.prom") && text.to_lowercase().contains("no space"))
        };
        wait_until("a message", is_told);
        let kept = fs::read_to_string(&file).expect("the old file");
        assert!(kept.ends_with('\n') && kept.contains("\ngpumap_gpus 4\n"), "{kept}");
        let names = fs::read_dir(&disk.0).expect("a directory").count();
        assert_eq!(names, 2, "the file and the ballast");
        let before = fs::metadata(&file).expect("a file").modified().expect("a time");
        fs::remove_file(&ballast).expect("ballast");
        let is_newer = || fs::metadata(&file).is_ok_and(|it| it.modified().is_ok_and(|time| time > before));
        wait_until("a newer file", is_newer);
    }
}

/// Waits for a condition.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < patience(), "{what} does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Make sure that the thread that talks to clients has no right, and that no other
/// thread has more than a watch keeps.
#[test]
fn rights() {
    let Some(_host) = host::shared() else { return };
    let top = Cgroup::new().expect("a cgroup");
    let exporter = Exporter::start(&top, &[]);
    let kept: u64 = [2, 12, 19, 21, 34, 38, 39].iter().map(|bit| 1u64 << bit).sum();
    let mut served = false;
    for thread in fs::read_dir(format!("/proc/{}/task", exporter.child.id())).expect("threads").flatten() {
        let Ok(status) = fs::read_to_string(thread.path().join("status")) else { continue };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field");
            line.trim().to_owned()
        };
        let set = |name: &str| u64::from_str_radix(&field(name), 16).expect("a number");
        let limit = if field("Name:") == "listen" { 0 } else { kept };
        served |= limit == 0;
        for name in ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:"] {
            assert_eq!(set(name) & !limit, 0, "{name} {status}");
        }
        assert_eq!(set("CapBnd:") & !kept, 0, "{status}");
        assert_eq!((field("NoNewPrivs:").as_str(), field("Seccomp:").as_str()), ("1", "2"));
    }
    assert!(served);
}

/// A job's cgroups, the innermost first.
fn job(top: &Cgroup) -> Vec<Cgroup> {
    let mut made: Vec<Cgroup> = Vec::new();
    for name in ["system.slice", "slurmstepd.scope", "job_77", "step_0", "user", "task_0"] {
        let cgroup = made.first().unwrap_or(top).child(name).expect("a cgroup");
        made.insert(0, cgroup);
    }
    made
}

/// Make sure that changes of programs and processes are counted and shown.
#[test]
fn changes() {
    let Some(_host) = host::shared() else { return };
    let top = Cgroup::new().expect("a cgroup");
    let job = job(&top);
    let exporter = Exporter::start(&top, &[]);
    let (different, processes) = (
        "gpumap_policy_changes_total{effect=\"different\"}",
        "gpumap_owner_processes{kind=\"slurm\",jobid=\"77\"}",
    );
    let lost = "gpumap_gpus_lost_total{UUID=\"GPU-11111111-2222-3333-4444-555555555555\"}";
    assert_eq!((exporter.value(different), exporter.value(lost)), (Some(0.0), Some(0.0)));
    let process = node::Sleeper::in_cgroup(&job[0]);
    exporter.wait_for(processes, |value| value == 1.0);
    // The minor of that GPU.
    node::attach_deny(&job[0], 195, 0, 0);
    exporter.wait_for(different, |value| value == 1.0);
    exporter.wait_for(lost, |value| value == 1.0);
    drop(process);
    exporter.wait_for(processes, |value| value == 0.0);
}

/// Make sure that a directory that is not there yet is told once, and that the file is
/// written as soon as it is; and that SIGTERM is a good end.
#[test]
fn no_directory_yet() {
    let Some(_host) = host::shared() else { return };
    let top = Cgroup::new().expect("a cgroup");
    let directory: PathBuf = std::env::temp_dir().join(top.path().file_name().expect("a name"));
    let file = directory.join("gpumap.prom");
    let mut exporter = Exporter::start(&top, &["--textfile", file.to_str().expect("a name")]);
    let mut errors = BufReader::new(exporter.child.stderr.take().expect("a pipe"));
    let told = loop {
        let mut line = String::new();
        errors.read_line(&mut line).expect("a line");
        if line.contains("gpumap.prom") {
            break line;
        }
    };
    assert!(told.contains("does not exist; make it first"), "{told}");
    fs::create_dir(&directory).expect("a directory");
    let began = Instant::now();
    while !file.exists() {
        assert!(began.elapsed() < patience());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(fs::read_to_string(&file).expect("a file").contains("\ngpumap_looks_total "));
    let pid = nix::unistd::Pid::from_raw(exporter.child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("a child");
    assert_eq!(exporter.child.wait().expect("an end").code(), Some(0));
    let mut rest = String::new();
    errors.read_to_string(&mut rest).expect("text");
    assert!(!rest.contains("gpumap.prom"), "{rest}");
    fs::remove_dir_all(&directory).expect("a directory");
}

/// Make sure that systemd hears when metrics are there, and often enough that gpumap still
/// works, however seldom it looks; and that what gpumap itself takes is in no text file,
/// where node_exporter has the same for itself.
#[test]
fn service_manager() {
    let Some(_host) = host::shared() else { return };
    let top = Cgroup::new().expect("a cgroup");
    let directory: PathBuf = std::env::temp_dir().join(top.path().file_name().expect("a name"));
    fs::create_dir(&directory).expect("a directory");
    let (socket, file) = (directory.join("notify"), directory.join("gpumap.prom"));
    let manager = UnixDatagram::bind(&socket).expect("a socket");
    manager.set_read_timeout(Some(patience())).expect("a time limit");
    let mut command =
        node::command(&["export", "--every", "1h", "--textfile", file.to_str().expect("a name")]);
    command.arg("--cgroup-root").arg(top.path()).arg("--gpu-root").arg(node::four_gpus());
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "1000000");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the built program");
    let heard = || {
        let mut text = [0; 256];
        let length = manager.recv(&mut text).expect("a message");
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    assert_eq!(heard(), "READY=1\nWATCHDOG=1");
    let text = fs::read_to_string(&file).expect("metrics are there before that");
    assert!(text.contains("\ngpumap_gpus 4\n") && !text.contains("process_cpu"), "{text}");
    assert_eq!((heard().as_str(), heard().as_str()), ("WATCHDOG=1", "WATCHDOG=1"));
    child.kill().expect("a child");
    child.wait().expect("an end");
    fs::remove_dir_all(&directory).expect("a directory");
}

/// Make sure that a listener tells what gpumap itself takes, as other exporters do.
#[test]
fn own_process() {
    let Some(_host) = host::shared() else { return };
    let top = Cgroup::new().expect("a cgroup");
    let exporter = Exporter::start(&top, &[]);
    let value = |name: &str| exporter.value(name).unwrap_or_default();
    assert!(value("process_resident_memory_bytes") > 1e6 && value("process_cpu_seconds_total") > 0.0);
    assert!(value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"));
    assert!(value("process_open_fds") > 3.0 && value("process_max_fds") >= value("process_open_fds"));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let age = now.as_secs_f64() - value("process_start_time_seconds");
    assert!((0.0..600.0).contains(&age), "{age}");
}
