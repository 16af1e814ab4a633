//! Records of every kind, and broken ones.

use super::*;
use crate::model::EventCause;

fn parse(record: &[u8]) -> Option<Record> {
    Header::read(record).and_then(super::parse)
}

fn record(kind: u16, flags: u16, name: &str, value: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    for long in [5u64, 77 * TICK + 1, 9] {
        record.extend(long.to_ne_bytes());
    }
    for word in [31, 32, 1000, 1001] {
        record.extend(u32::to_ne_bytes(word));
    }
    record.extend([kind, flags, 2, 0].map(u16::to_ne_bytes).concat());
    record.extend(b"python3\0\0\0\0\0\0\0\0\0");
    assert_eq!(record.len(), HEADER);
    let index = VARIABLES.binary_search(&name).unwrap();
    for half in [index, value.len()] {
        record.extend(u16::try_from(half).unwrap().to_ne_bytes());
    }
    record.extend(value);
    record
}

/// Make sure that a change is read with all that belongs to it.
#[test]
fn changes() {
    let whole = record(1, 3, "CUDA_VISIBLE_DEVICES", b"0,1");
    let header = Header::read(&whole).unwrap();
    assert_eq!((header.lost, header.account), (32, 1001));
    let Some(Record::Fact(Fact::Set { at, subject, how, name, value, keep })) = parse(&whole) else {
        panic!("no change")
    };
    assert_eq!((at, subject.pid, subject.start_time, subject.uid), (5, 31, 77, 1000));
    assert_eq!(subject.account, Some(1001));
    assert_eq!(
        (subject.comm.lossy().as_ref(), how, name, keep),
        ("python3", EventCause::Setenv, "CUDA_VISIBLE_DEVICES", true)
    );
    assert_eq!(value, NewValue::Value { bytes: b"0,1".to_vec(), cut: true });
    let unread = parse(&record(2, 4, "CUDA_DEVICE_ORDER", b""));
    assert!(matches!(unread, Some(Record::Fact(Fact::Set { value: NewValue::Unread, .. }))), "{unread:?}");
    let unset = parse(&record(3, 0, "ZE_AFFINITY_MASK", b""));
    assert!(matches!(unset, Some(Record::Fact(Fact::Set { value: NewValue::Unset, .. }))), "{unset:?}");
}

/// Make sure that programs and what they are given are read with their
/// numbers.
#[test]
fn programs() {
    let given = parse(&record(11, 3 << 8 | 2, "CUDA_VISIBLE_DEVICES", b"0"));
    let value = Some((b"0".to_vec(), true));
    let expected =
        ProgramVariable { pid: 31, account: 1001, lost: 32, number: 3, name: "CUDA_VISIBLE_DEVICES", value };
    assert_eq!(given, Some(Record::Variable(expected)));
    let reported = |flags| match parse(&record(5, flags, "CUDA_VISIBLE_DEVICES", b"")) {
        Some(Record::Executed { reported, lost: 32, .. }) => reported,
        other => panic!("{other:?}"),
    };
    assert_eq!((reported(4 << 8 | 8), reported(8), reported(4 << 8)), (Some(4), Some(0), None));
    let unread = parse(&record(11, 4, "CUDA_VISIBLE_DEVICES", b""));
    assert!(matches!(unread, Some(Record::Variable(ProgramVariable { value: None, .. }))), "{unread:?}");
}

/// Make sure that a child is reported with its parent, and a call without its name.
#[test]
fn others() {
    let mut forked = record(7, 0, "CUDA_VISIBLE_DEVICES", b"");
    assert_eq!(parse(&forked), None);
    forked.truncate(HEADER);
    forked.extend((55 * TICK).to_ne_bytes());
    let fork = parse(&forked);
    assert!(matches!(fork, Some(Record::Fact(Fact::Fork { parent: 2, parent_start: 55, .. }))), "{fork:?}");
    let unnamed = parse(&record(12, 0, "CUDA_VISIBLE_DEVICES", b""));
    assert!(
        matches!(unnamed, Some(Record::Fact(Fact::Unnamed { how: EventCause::Putenv, .. }))),
        "{unnamed:?}"
    );
}

/// Make sure that no record, however short or strange, does harm.
#[test]
fn broken() {
    let whole = record(1, 0, "CUDA_VISIBLE_DEVICES", b"0,1");
    for length in 0..whole.len() {
        assert_eq!(parse(&whole[..length]), None, "{length}");
    }
    assert_eq!(parse(&record(99, 0, "CUDA_VISIBLE_DEVICES", b"")), None);
    for at in [HEADER, HEADER + 2] {
        let mut huge = whole.clone();
        huge[at..at + 2].fill(0xff);
        assert_eq!(parse(&huge), None);
    }
}
