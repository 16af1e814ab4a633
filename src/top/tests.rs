//! Tests of what keys do, on matrices that are made up here.

use crate::model::{CellState, MatrixOrder, Membership, Owner, OwnerKind, Severity};
use crate::report::{Finding, Gpu, GpuNode, Matrix, MatrixCell, MatrixProcess, MatrixRow, Proof};

use super::*;

fn cell(state: CellState) -> MatrixCell {
    let held = if state == CellState::Held { Membership::Yes } else { Membership::No };
    MatrixCell { state, held, ..MatrixCell::default() }
}

fn job(id: u64, user: &str, states: [CellState; 2]) -> MatrixRow {
    let owner = Owner { kind: OwnerKind::Slurm, job_id: Some(id), ..Owner::default() };
    MatrixRow {
        owner: Some(owner),
        users: vec![user.to_owned()],
        processes: 1,
        cells: states.map(cell).to_vec(),
        cgroup: format!("/job_{id}"),
        ..MatrixRow::default()
    }
}

fn step(id: u64, name: &str, user: &str) -> MatrixRow {
    let mut row = job(id, user, [CellState::Allowed, CellState::Nothing]);
    row.depth = 1;
    if let Some(owner) = &mut row.owner {
        owner.step = Some(name.to_owned());
    }
    row
}

fn process(pid: u32, comm: &str) -> MatrixRow {
    let process = MatrixProcess { pid, comm: comm.to_owned(), ..MatrixProcess::default() };
    MatrixRow {
        depth: 2,
        process: Some(process),
        users: vec!["alice".to_owned()],
        processes: 1,
        cells: [CellState::Held, CellState::Nothing].map(cell).to_vec(),
        ..MatrixRow::default()
    }
}

fn gpu(key: &str, minor: u32) -> Gpu {
    let node = GpuNode { path: format!("/dev/nvidia{minor}"), gate: true, ..GpuNode::default() };
    Gpu { key: key.into(), nodes: vec![node], ..Gpu::default() }
}

/// Two jobs: the first with a step that has a process, the second alone.
fn moment() -> Moment {
    let rows = vec![
        job(1, "alice", [CellState::Held, CellState::Nothing]),
        step(1, "0", "alice"),
        process(77, "train"),
        job(2, "bob", [CellState::Nothing, CellState::Held]),
    ];
    let matrix = Matrix { columns: vec!["GPU-a".into(), "GPU-b".into()], rows, ..Matrix::default() };
    let finding = Finding { id: "x".into(), severity: Severity::Warning, ..Finding::default() };
    Moment {
        matrix,
        gpus: vec![gpu("GPU-a", 0), gpu("GPU-b", 5)],
        findings: vec![finding],
        ..Moment::default()
    }
}

fn state() -> State {
    let mut state = State::new(moment(), String::new(), MatrixOrder::Owner);
    state.drawn(Extent { rows: 10, lines: 10, text: 0 });
    state
}

fn press(state: &mut State, keys: &str) -> Vec<Effect> {
    keys.chars().map(|c| state.key(if c == '\n' { Key::Enter } else { Key::Char(c) })).collect()
}

/// Make sure that rows open and close, and that the cursor stays where it was or goes
/// to what was closed.
#[test]
fn opening() {
    let mut state = state();
    assert_eq!(state.rows(), [0, 3]);
    press(&mut state, "\n");
    assert_eq!(state.rows(), [0, 1, 3]);
    press(&mut state, "j+");
    assert_eq!((state.rows(), state.cursor().0), (&[0, 1, 2, 3][..], 1));
    // A process has nothing inside: its owner is closed.
    press(&mut state, "j-");
    assert_eq!((state.rows(), state.cursor().0), (&[0, 1, 3][..], 1));
    press(&mut state, "G*");
    assert_eq!((state.rows(), state.cursor().0), (&[0, 1, 2, 3][..], 3));
    press(&mut state, "*");
    assert_eq!((state.rows(), state.cursor().0), (&[0, 3][..], 1));
}

/// Make sure that Enter on a GPU asks about that row and GPU, and that every key that
/// ends it does.
#[test]
fn effects() {
    let mut state = state();
    let asked = press(&mut state, "jll\n").pop();
    assert_eq!(asked, Some(Effect::Explain(CellPosition { row: 3, column: 1 })));
    let cell = CellPosition { row: 3, column: 1 };
    state.explained(cell, Content::Proofs(vec![Proof::default()]));
    assert!(
        matches!(state.view(), View::Detail(detail, 0) if detail.cell.as_ref().is_some_and(|(row, _)| row.cgroup == "/job_2"))
    );
    // In a text, q goes back; in the matrix it ends.
    assert_eq!(press(&mut state, "q"), [Effect::None]);
    assert_eq!(press(&mut state, "q"), [Effect::Quit]);
    assert_eq!([Key::F(10), Key::Ctrl('c')].map(|key| state.key(key)), [Effect::Quit, Effect::Quit]);
    assert_eq!(press(&mut state, ">"), [Effect::Step { forward: true }]);
    // Typed into a filter, it is a letter.
    assert_eq!(press(&mut state, "/q"), [Effect::None, Effect::None]);
    assert_eq!(state.key(Key::Ctrl('c')), Effect::Quit);
}

/// Make sure that each kind of word finds what it says, that what is found stands with
/// its owners, and that Esc brings everything back.
#[test]
fn filters() {
    let of = |text: &str| State::new(moment(), text.to_owned(), MatrixOrder::Owner).rows().to_vec();
    assert_eq!(of("user:bob"), [3]);
    assert_eq!(of("USER:bob"), Vec::<usize>::new());
    assert_eq!(of("user:ALICE"), [0]);
    assert_eq!(of("job:2"), [3]);
    assert_eq!(of("gpu:5"), [3]);
    assert_eq!(of("gpu:nvidia0"), [0]);
    assert_eq!(of("gpu:GPU-b"), [3]);
    assert_eq!(of("gpu:7"), Vec::<usize>::new());
    assert_eq!(of("Train"), [0, 1, 2]);
    assert_eq!(of("train user:bob"), Vec::<usize>::new());
    assert_eq!(of("slurm"), [0, 3]);
    let mut state = state();
    press(&mut state, "/train\n");
    assert_eq!((state.rows(), state.view()), (&[0, 1, 2][..], &View::Matrix));
    state.key(Key::Esc);
    assert_eq!((state.rows(), state.filter()), (&[0, 3][..], ""));
    press(&mut state, "/zz");
    assert!(state.rows().is_empty() && state.row().is_none());
    assert_eq!(state.key(Key::Esc), Effect::None);
    assert_eq!(state.rows(), [0, 3]);
}

/// Make sure that owners are sorted as wholes.
#[test]
fn orders() {
    let mut state = state();
    press(&mut state, "*s");
    assert_eq!(state.view(), &View::Order(MatrixOrder::Owner));
    press(&mut state, "j\n");
    assert_eq!((state.order(), state.rows()), (MatrixOrder::User, &[0, 1, 2, 3][..]));
    let mut other = moment();
    other.matrix.rows[3].processes = 9;
    let sorted = State::new(other, String::new(), MatrixOrder::Processes);
    assert_eq!(sorted.rows(), [3, 0]);
}

/// Make sure that a new moment leaves the cursor at its owner and open what was open,
/// and that nothing is kept of what is gone.
#[test]
fn new_moments() {
    let mut state = state();
    press(&mut state, "\nj");
    assert_eq!(state.row().map(|(index, _)| index), Some(1));
    let mut next = moment();
    next.matrix.rows.insert(0, job(0, "carol", [CellState::Nothing; 2]));
    state.take(next);
    assert_eq!((state.rows(), state.row().map(|(index, _)| index)), (&[0, 1, 2, 4][..], Some(2)));
    state.take(Moment::default());
    assert_eq!((state.rows().len(), state.cursor(), state.row()), (0, (0, 0), None));
    assert!(press(&mut state, "\n+-*jkhlgG").iter().all(|effect| *effect == Effect::None));
    state.take(moment());
    assert_eq!(state.rows(), [0, 3]);
}

/// Make sure that the cursor is always on the screen, however many rows there are and
/// however few of them it has room for.
#[test]
fn scrolling() {
    let rows = (0..10_000).map(|id| job(id, "alice", [CellState::Nothing; 2])).collect();
    let matrix = Matrix { columns: vec!["a".into(), "b".into()], rows, ..Matrix::default() };
    let mut state = State::new(Moment { matrix, ..Moment::default() }, String::new(), MatrixOrder::Owner);
    for rows in [20, 1, 0, 300] {
        state.drawn(Extent { rows, ..Extent::default() });
        for key in [Key::End, Key::Up, Key::PageUp, Key::Home, Key::Down, Key::PageDown, Key::PageDown] {
            state.key(key);
            let (at, first) = (state.cursor().0, state.first());
            assert!(first <= at && at < first + rows.max(1) && at < 10_000, "{rows} {key:?} {first} {at}");
        }
    }
    state.key(Key::End);
    assert_eq!(state.cursor().0, 9_999);
}

/// Make sure that the strip is left when it has nothing any more, and that a text is
/// not scrolled beyond its end.
#[test]
fn other_views() {
    let mut state = state();
    state.key(Key::Tab);
    assert_eq!(state.view(), &View::Strip(0));
    press(&mut state, "jjj");
    assert_eq!(state.view(), &View::Strip(0));
    press(&mut state, "\n");
    assert!(matches!(state.view(), View::Detail(detail, 0) if matches!(detail.content, Content::Finding(_))));
    state.drawn(Extent { rows: 10, lines: 10, text: 14 });
    press(&mut state, "G");
    assert!(matches!(state.view(), View::Detail(_, 4)), "{:?}", state.view());
    state.key(Key::Esc);
    press(&mut state, " ");
    assert!(state.is_frozen());
    press(&mut state, " ");
    assert!(!state.is_frozen());
    state.key(Key::Tab);
    state.take(Moment::default());
    assert_eq!(state.view(), &View::Matrix);
    assert_eq!(state.key(Key::Tab), Effect::None);
    assert_eq!(state.view(), &View::Matrix);
    for key in [Key::Char('?'), Key::F(1)] {
        state.key(key);
        assert!(matches!(state.view(), View::Help(0)));
        state.key(Key::Esc);
    }
}

/// Make sure that the sequences of xterm, rxvt, tmux, screen and Linux's console mean
/// their keys, in one piece and byte by byte.
#[test]
fn sequences() {
    let cases: [(&[u8], &[Key]); 20] = [
        (b"a", &[Key::Char('a')]),
        ("é名".as_bytes(), &[Key::Char('é'), Key::Char('名')]),
        (b"\x1b[A\x1bOB", &[Key::Up, Key::Down]),
        (b"\x1b[1;5C", &[Key::Right]),
        (b"\x1b[D", &[Key::Left]),
        (b"\x1b[H\x1b[1~\x1b[7~\x1bOH", &[Key::Home; 4]),
        (b"\x1b[F\x1b[4~\x1b[8~", &[Key::End; 3]),
        (b"\x1b[5~\x1b[6~", &[Key::PageUp, Key::PageDown]),
        (b"\x1bOP\x1b[11~\x1b[[A", &[Key::F(1); 3]),
        (b"\x1bOS\x1b[14~", &[Key::F(4); 2]),
        (b"\x1b[17~\x1b[21~\x1b[23~", &[Key::F(6), Key::F(10), Key::F(11)]),
        (b"\r\n", &[Key::Enter; 2]),
        (b"\t\x7f\x08", &[Key::Tab, Key::Backspace, Key::Backspace]),
        (b"\x03\x15\x1a", &[Key::Ctrl('c'), Key::Ctrl('u'), Key::Ctrl('z')]),
        (b"\x1b\x1b[A", &[Key::Esc, Key::Up]),
        (b"\x1bq", &[Key::Esc, Key::Char('q')]),
        (b"\xffq\xc3(", &[Key::Char('q'), Key::Char('(')]),
        (b"\x1b[999~\x1b[?1;2c", &[]),
        (b"\x00\x1c", &[]),
        (b"", &[]),
    ];
    for (bytes, keys) in cases {
        assert_eq!(Keys::default().read(bytes), keys, "{bytes:?}");
        let mut reader = Keys::default();
        let one_by_one: Vec<Key> = bytes.iter().flat_map(|byte| reader.read(&[*byte])).collect();
        assert_eq!(one_by_one, keys, "{bytes:?} byte by byte");
        assert!(!reader.is_pending(), "{bytes:?}");
    }
    let mut alone = Keys::default();
    assert!(alone.read(b"\x1b").is_empty() && alone.is_pending());
    assert_eq!((alone.settle(), alone.is_pending()), (Some(Key::Esc), false));
    // A sequence without end is dropped and holds nothing.
    let mut endless = Keys::default();
    for _ in 0..10_000 {
        endless.read(b"\x1b[;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;");
    }
    endless.settle();
    assert_eq!(endless.read(b"q"), [Key::Char('q')]);
}
