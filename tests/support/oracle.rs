//! The kernel's own verdict, for many questions at once.
//!
//! A forked child sits in the cgroup under test and answers batches over a
//! socket: `faccessat` on device nodes asks the device programs for `f`, `r`,
//! `w` and `rw` without touching a driver, `mknod` asks for `m`. The nodes live
//! on a detached tmpfs that is mounted nowhere; the parent, which is not in the
//! cgroup, makes them.
//!
//! The child is forked from a process with threads, so it does nothing but
//! system calls on memory it already has.

#![allow(unsafe_code, reason = "fork and the mount calls have no safe wrapper")]

use std::collections::HashSet;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpumap::model::{Device, DeviceType, Request, RequestSet};

use super::cgroup::Cgroup;

/// Devices in one message.
const BATCH: usize = 4096;
/// Nodes kept before the tmpfs is emptied.
const MAX_NODES: usize = 50_000;

/// A process whose device accesses are judged by the cgroup it is in.
#[derive(Debug)]
pub struct Oracle {
    child: libc::pid_t,
    socket: UnixStream,
    nodes: OwnedFd,
    made: HashSet<Device>,
    /// Time spent asking.
    pub spent: Duration,
}

impl Oracle {
    /// Starts the child and moves it into `cgroup`.
    pub fn start(cgroup: &Cgroup) -> io::Result<Self> {
        let nodes = detached(c"tmpfs")?;
        let (socket, theirs) = UnixStream::pair()?;
        // SAFETY: the child makes only async-signal-safe calls and never returns.
        let child = unsafe { libc::fork() };
        if child < 0 {
            return Err(io::Error::last_os_error());
        }
        if child == 0 {
            serve(theirs.as_raw_fd(), nodes.as_raw_fd());
        }
        let oracle = Self { child, socket, nodes, made: HashSet::new(), spent: Duration::ZERO };
        oracle.join(cgroup)?;
        Ok(oracle)
    }

    /// The child.
    pub fn pid(&self) -> i32 {
        self.child
    }

    /// Moves the child to another cgroup.
    pub fn join(&self, cgroup: &Cgroup) -> io::Result<()> {
        cgroup.adopt(self.child)
    }

    /// For each device, the requests that the kernel allows. `c 0:0` and
    /// `b 0:0` cannot be asked about.
    pub fn ask(&mut self, devices: &[Device]) -> io::Result<Vec<RequestSet>> {
        let began = Instant::now();
        let mut answers = Vec::with_capacity(devices.len());
        for batch in devices.chunks(BATCH) {
            self.make_nodes(batch)?;
            let message: Vec<u8> = batch.iter().flat_map(|device| packed(*device).to_le_bytes()).collect();
            self.socket.write_all(&u64::try_from(message.len()).unwrap().to_le_bytes())?;
            self.socket.write_all(&message)?;
            let mut reply = vec![0; batch.len()];
            self.socket.read_exact(&mut reply)?;
            answers.extend(reply.into_iter().map(unpack));
        }
        self.spent += began.elapsed();
        Ok(answers)
    }

    fn make_nodes(&mut self, devices: &[Device]) -> io::Result<()> {
        if self.made.len() + devices.len() > MAX_NODES {
            for device in self.made.drain() {
                let name = Name::of(packed(device));
                // SAFETY: a NUL-terminated name below an open directory.
                check(unsafe { libc::unlinkat(self.nodes.as_raw_fd(), name.as_ptr(), 0) })?;
            }
        }
        for device in devices {
            assert!((device.major, device.minor) != (0, 0), "0:0 is never asked");
            if self.made.insert(*device) {
                check(make_node(self.nodes.as_raw_fd(), &Name::of(packed(*device)), packed(*device)))?;
            }
        }
        Ok(())
    }
}

/// Ends the child: it exits when its socket closes.
impl Drop for Oracle {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        // SAFETY: waits for our own child.
        unsafe { libc::waitpid(self.child, std::ptr::null_mut(), 0) };
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// type << 32 | major << 20 | minor, type as the kernel numbers it.
fn packed(device: Device) -> u64 {
    (device.kind as u64) << 32 | u64::from(device.major) << 20 | u64::from(device.minor)
}

fn unpack(bits: u8) -> RequestSet {
    Request::ALL.into_iter().filter(|request| bits & (1 << *request as u8) != 0).collect()
}

/// A file system of this kind that is mounted nowhere; gone with its last
/// descriptor.
pub fn detached(kind: &std::ffi::CStr) -> io::Result<OwnedFd> {
    match never_mounted(kind) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => mounted_for_a_moment(kind),
        detached => detached,
    }
}

/// Before Linux 5.2.
fn mounted_for_a_moment(kind: &std::ffi::CStr) -> io::Result<OwnedFd> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let place = std::env::temp_dir().join(format!("gpumap-oracle-{}", std::process::id()));
    std::fs::create_dir_all(&place)?;
    let name = std::ffi::CString::new(place.as_os_str().as_bytes())?;
    // SAFETY: NUL-terminated strings.
    check(unsafe { libc::mount(kind.as_ptr(), name.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) })?;
    let opened = std::fs::File::open(&place);
    // SAFETY: the same.
    check(unsafe { libc::umount2(name.as_ptr(), libc::MNT_DETACH) })?;
    std::fs::remove_dir(&place)?;
    opened.map(OwnedFd::from)
}

fn never_mounted(kind: &std::ffi::CStr) -> io::Result<OwnedFd> {
    const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
    let null = std::ptr::null::<libc::c_char>();
    // SAFETY: plain numbers and NUL-terminated strings; each descriptor is new
    // and owned here.
    unsafe {
        let context = new_fd(libc::syscall(libc::SYS_fsopen, kind.as_ptr(), 1))?;
        let done = libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, null, null, 0);
        check(i32::try_from(done).unwrap())?;
        new_fd(libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1, 0))
    }
}

fn new_fd(result: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(result) {
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The file name of a node: its packed number in hex.
struct Name([u8; 17]);

impl Name {
    fn of(packed: u64) -> Self {
        let mut name = [0; 17];
        for (at, byte) in name.iter_mut().take(16).enumerate() {
            let nibble = (packed >> (60 - 4 * at)) as u8 & 15;
            *byte = if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
        }
        Self(name)
    }

    fn as_ptr(&self) -> *const libc::c_char {
        self.0.as_ptr().cast()
    }
}

fn make_node(dir: RawFd, name: &Name, packed: u64) -> libc::c_int {
    let kind = if packed >> 32 == DeviceType::Char as u64 { libc::S_IFCHR } else { libc::S_IFBLK };
    let number = libc::makedev((packed >> 20) as u32 & 0xfff, packed as u32 & 0xf_ffff);
    // SAFETY: a NUL-terminated name below an open directory.
    unsafe { libc::mknodat(dir, name.as_ptr(), kind | 0o600, number) }
}

/// The child: reads batches, answers one byte a device, ends with the socket.
fn serve(socket: RawFd, nodes: RawFd) -> ! {
    let mut message = [0_u8; BATCH * 8];
    let mut reply = [0_u8; BATCH];
    // SAFETY: descriptors 0 and 1 become the socket and the directory, all
    // others close, so that no other test's pipes stay open here.
    unsafe {
        let (socket, nodes) =
            (libc::fcntl(socket, libc::F_DUPFD, 100), libc::fcntl(nodes, libc::F_DUPFD, 100));
        libc::dup2(socket, 0);
        libc::dup2(nodes, 1);
        libc::syscall(libc::SYS_close_range, 2, libc::c_uint::MAX, 0);
    }
    loop {
        let mut length = [0; 8];
        if !read_all(&mut length) {
            break;
        }
        let length = u64::from_le_bytes(length) as usize;
        let Some(batch) = message.get_mut(..length) else { break };
        if !read_all(batch) {
            break;
        }
        for (device, answer) in batch.chunks_exact(8).zip(&mut reply) {
            let mut packed = [0; 8];
            packed.copy_from_slice(device);
            *answer = judge(u64::from_le_bytes(packed));
        }
        if !write_all(&reply[..length / 8]) {
            break;
        }
    }
    // SAFETY: ends this process at once, without the parent's exit handlers.
    unsafe { libc::_exit(0) }
}

fn judge(packed: u64) -> u8 {
    let name = Name::of(packed);
    let mut allowed = 0;
    for request in Request::ALL {
        let mode = match request {
            Request::Exists => libc::F_OK,
            Request::Read => libc::R_OK,
            Request::Write => libc::W_OK,
            Request::ReadWrite => libc::R_OK | libc::W_OK,
            Request::Mknod => {
                allowed |= u8::from(may_mknod(packed)) << request as u8;
                continue;
            }
        };
        // SAFETY: a NUL-terminated name below an open directory.
        let result = unsafe { libc::faccessat(1, name.as_ptr(), mode, 0) };
        allowed |= u8::from(result == 0) << request as u8;
    }
    allowed
}

fn may_mknod(packed: u64) -> bool {
    let name = Name::of(u64::MAX);
    let allowed = make_node(1, &name, packed) == 0;
    if allowed {
        // SAFETY: a NUL-terminated name below an open directory.
        unsafe { libc::unlinkat(1, name.as_ptr(), 0) };
    }
    allowed
}

fn read_all(buffer: &mut [u8]) -> bool {
    let mut done = 0;
    while done < buffer.len() {
        // SAFETY: the rest of `buffer` is writable.
        let got = unsafe { libc::read(0, buffer[done..].as_mut_ptr().cast(), buffer.len() - done) };
        match usize::try_from(got) {
            Ok(got) if got > 0 => done += got,
            _ => return false,
        }
    }
    true
}

fn write_all(buffer: &[u8]) -> bool {
    let mut done = 0;
    while done < buffer.len() {
        // SAFETY: the rest of `buffer` is readable.
        let put = unsafe { libc::write(0, buffer[done..].as_ptr().cast(), buffer.len() - done) };
        match usize::try_from(put) {
            Ok(put) if put > 0 => done += put,
            _ => return false,
        }
    }
    true
}
