//! One user fills up each of the kernel's tables: what another one does is counted exactly,
//! and what is missing is told with the user's name and table.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::{Child, Command, Stdio};

use gpumap::model::CountTable;
use gpumap::observation::{Activity, LostRoom, ProcessActivity};

use super::bench::{self, Bench, Counting, compare};

/// Who floods, and who works beside.
const MALLORY: u32 = 61_234;
const VICTIM: u32 = 61_235;
/// The tables hold 64 times less: a user may have 128 processes, 512 threads, 128 contexts,
/// 512 streams, 8192 blocks, 1024 events, 256 graphs, 128 codes of errors, devices, captures.
const SMALLER: u8 = 6;

/// Everything that the victim does in the small tables.
const WORK: [&str; 11] = [
    "device:1",
    "uuid:1",
    "stream",
    "launch:100",
    "copies:3",
    "fills:3",
    "memory:1000",
    "graph:2",
    "waits:2",
    "bad:3",
    "brief:9",
];

/// What a flood is made of: who, the words of a client, and how many of them at a time.
struct Flood {
    words: &'static [&'static str],
    clients: usize,
    /// Where it finds no room.
    table: CountTable,
}

fn start(bench: &Bench, uid: u32, truth: Option<&str>, words: &[&str]) -> Child {
    let uid = uid.to_string();
    let mut command = bench.command(&bench.client, &[&["-u", &uid], words].concat());
    command.env_remove("TRUTH");
    if let Some(truth) = truth {
        command.env("TRUTH", truth);
    }
    if words.iter().any(|word| word.starts_with("sync")) {
        command.env("STANDIN_CODES", "1");
    }
    command.spawn().unwrap()
}

/// The victim's numbers are the driver's, and nothing of it found no room.
fn victim_is_exact(bench: &Bench, session: &mut Counting, what: &str) {
    let truth = bench.client.with_file_name("truth.victim");
    fs::write(&truth, "").unwrap();
    fs::set_permissions(&truth, Permissions::from_mode(0o666)).unwrap();
    let child = start(bench, VICTIM, Some(truth.to_str().unwrap()), &WORK);
    let (process, told) = bench.finish_with(session, child, &truth);
    compare(&process, &told, what);
    assert_eq!((process.uid, process.account), (VICTIM, Some(VICTIM)), "{what}");
    assert!(process.lost.is_empty() && !process.partial, "{what}: {process:?}");
    let reading = session.read().unwrap();
    let of_victim: Vec<_> = reading.lost.iter().filter(|lost| lost.uid == Some(VICTIM)).collect();
    assert!(of_victim.is_empty(), "{what}: {of_victim:?}");
}

fn lost_by(reading: &Activity, table: &CountTable) -> Option<(Option<u32>, u64)> {
    reading.lost.iter().find(|lost| lost.map == *table).map(|lost| (lost.uid, lost.count))
}

/// Each table, and how one user fills it.
const FLOODS: [Flood; 11] = [
    Flood { words: &["device:0", "streams:600"], clients: 3, table: CountTable::Streams },
    Flood { words: &["pile:90"], clients: 3, table: CountTable::Contexts },
    Flood { words: &["device:0", "keep:9000"], clients: 2, table: CountTable::Blocks },
    Flood { words: &["device:0", "stream", "many-events:2000"], clients: 1, table: CountTable::Events },
    Flood { words: &["device:0", "stream", "many-graphs:400"], clients: 1, table: CountTable::Graphs },
    Flood { words: &["device:0", "sync:500"], clients: 4, table: CountTable::Errors },
    Flood { words: &["names:300"], clients: 4, table: CountTable::Devices },
    Flood { words: &["device:0", "many-threads:400"], clients: 2, table: CountTable::Threads },
    Flood { words: &["device:0", "many-captures:300"], clients: 1, table: CountTable::Graphs },
    Flood { words: &["device:0", "crowd:300"], clients: 1, table: CountTable::Processes },
    Flood { words: &["device:0", "herd:140"], clients: 1, table: CountTable::Processes },
];

/// Make sure that whichever table one user fills up, another one's numbers are exact, before
/// and after what the first one left is cleared away; and that what found no room is told of
/// that user and of no other, and marks his processes.
#[test]
fn one_user_floods() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let _held = bench.hold();
    for flood in FLOODS {
        let what = format!("{:?} {:?}", flood.table, flood.words);
        let mut session = bench.small_session(SMALLER);
        let words = [flood.words, &["stop"]].concat();
        let mut clients: Vec<Child> =
            (0..flood.clients).map(|_| start(&bench, MALLORY, None, &words)).collect();
        clients.iter_mut().for_each(|client| bench::read_line(client, "stopped"));
        let reading = session.read().unwrap();
        let (uid, count) = lost_by(&reading, &flood.table).unwrap_or_else(|| {
            let counted: Vec<_> = reading.processes.iter().map(|it| (it.pid, it.streams.len())).collect();
            panic!("{what}: {:?} {counted:?} {:?}", reading.lost, reading.uncovered)
        });
        assert!(uid == Some(MALLORY) && count > 0, "{what}: {:?}", reading.lost);
        let marked = |process: &&ProcessActivity| process.lost.contains(&flood.table) && process.partial;
        let whole = flood.table == CountTable::Processes;
        assert!(whole || reading.processes.iter().any(|process| marked(&process)), "{what}");
        victim_is_exact(&bench, &mut session, &what);
        end(clients);
        victim_is_exact(&bench, &mut session, &format!("after {what}"));
        // Its room was given back. What of the node was lost is not its doing.
        let of_users =
            |lost: Vec<LostRoom>| lost.into_iter().filter(|one| one.uid.is_some()).collect::<Vec<_>>();
        let before = of_users(session.read().unwrap().lost);
        let again = start(&bench, MALLORY, None, &WORK);
        let truth = bench.client.with_file_name("truth.victim");
        let (process, _) = bench.finish_with(&mut session, again, &truth);
        assert!(process.lost.is_empty(), "{what}: {process:?}");
        assert_eq!(of_users(session.read().unwrap().lost), before, "{what}");
    }
}

/// Ends programs.
fn end(clients: Vec<Child>) {
    for mut client in clients {
        client.kill().unwrap();
        client.wait().unwrap();
    }
}

/// Make sure that all users of a user namespace are one with who made it, however many uids
/// they have.
#[test]
fn from_a_namespace() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let _held = bench.hold();
    let subuid = bench.build("c/subuid.c", "subuid", "gcc");
    let mut session = bench.small_session(SMALLER);
    let flood = |inside: u32| {
        let [user, inside] = [MALLORY, inside].map(|uid| uid.to_string());
        let client = bench.client.to_str().unwrap();
        let words = [&user, &inside, client, "device:0", "streams:600", "stop"];
        bench.command(&subuid, &words).env_remove("TRUTH").spawn().unwrap()
    };
    let mut clients: Vec<Child> = [1, 500, 60_000].map(flood).into();
    clients.iter_mut().for_each(|client| bench::read_line(client, "stopped"));
    let lost = lost_by(&session.read().unwrap(), &CountTable::Streams);
    assert!(lost.is_some_and(|(uid, count)| uid == Some(MALLORY) && count > 0), "{lost:?}");
    victim_is_exact(&bench, &mut session, "a user namespace");
    // What runs inside ends with who began it.
    end(clients);
}

/// Make sure that a library of a user's own, which may return whatever it likes, takes no room
/// of others: of one process so many codes of errors are kept, and no more.
#[test]
fn with_a_library_of_his_own() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let _held = bench.hold();
    let flags = "gcc -O2 -shared -fPIC -Wl,-soname,libcuda.so.1";
    fs::create_dir(bench.client.with_file_name("his")).unwrap();
    let own = bench.build("c/cuda/driver.c", "his/libcuda.so.1", flags);
    chown(&own, Some(MALLORY), Some(MALLORY)).unwrap();
    let mut session = bench.session(bench::best_mode(), 1);
    let uid = MALLORY.to_string();
    let words = ["-u", &uid, "device:0", "stop", "sync:20000", "stop"];
    let mut command = bench.command(&bench.client, &words);
    let mut client =
        command.env_remove("TRUTH").env("LD_PRELOAD", &own).env("STANDIN_CODES", "1").spawn().unwrap();
    bench::read_line(&mut client, "stopped");
    bench::libraries_until(&mut session, 2);
    bench::go_on(&mut client);
    bench::read_line(&mut client, "stopped");
    let reading = session.read().unwrap();
    let lost = lost_by(&reading, &CountTable::Errors);
    assert_eq!(lost, Some((Some(MALLORY), 20_000 - 64)), "{:?}", reading.uncovered);
    let his = reading.processes.iter().find(|process| process.pid == client.id()).unwrap();
    assert_eq!((his.errors.len(), his.lost.as_slice()), (64, [CountTable::Errors].as_slice()));
    victim_is_exact(&bench, &mut session, "a library of his own");
    end(vec![client]);
}

/// Make sure that processes that nobody counts make no others partial: the table of those that
/// called something before they came into scope has shares, too.
#[test]
fn out_of_scope() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let _held = bench.hold();
    let mut session = bench.small_session(SMALLER);
    let mut command = Command::new(&bench.client);
    command.args(["-u", &MALLORY.to_string(), "device:0", "herd:140", "many-threads:600", "stop"]);
    let mut client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    bench::read_line(&mut client, "stopped");
    victim_is_exact(&bench, &mut session, "out of scope");
    assert_eq!(bench::lost(&session.read().unwrap()), []);
    end(vec![client]);
}

/// Make sure that many users together leave each other what is within a share.
#[test]
fn many_users_flood() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let _held = bench.hold();
    let mut session = bench.small_session(SMALLER - 2);
    let words = ["device:0", "streams:3000", "keep:20000", "many-captures:200", "stop"];
    let mut clients: Vec<Child> =
        (0..6).map(|number| start(&bench, MALLORY + 10 + number, None, &words)).collect();
    clients.iter_mut().for_each(|client| bench::read_line(client, "stopped"));
    victim_is_exact(&bench, &mut session, "many users");
    end(clients);
}
