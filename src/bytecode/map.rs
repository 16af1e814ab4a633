//! Map contents as `bpftool -j map show` and `bpftool -j map dump` print them.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::ReadError;
use super::error::{MAX_BYTES, shown};
use super::line::HexByte;
use crate::model::MapType;
use crate::observation::{Answer, HexBytes, HiddenBytes, Map, MapEntry};

/// Reads maps: a JSON array of `{"show": …, "dump": …}`, or an object that
/// holds such an array as `maps`.
///
/// A map that changed while bpftool read it keeps its description, and its
/// entries are missing with the reason.
pub fn maps(json: &str) -> Result<Vec<Map>, ReadError> {
    if json.len() > MAX_BYTES {
        return Err(ReadError::TooLarge(json.len()));
    }
    let maps: Vec<Map> = parse(json)?.into_iter().map(Saved::into_map).collect::<Result<_, _>>()?;
    let mut seen = BTreeSet::new();
    match maps.iter().find(|map| !seen.insert(map.id)) {
        Some(twice) => Err(fault(twice.id, "it is in the file twice")),
        None => Ok(maps),
    }
}

fn parse(json: &str) -> Result<Vec<Saved>, ReadError> {
    let parsed = if json.trim_start().starts_with('[') {
        serde_json::from_str(json)
    } else {
        serde_json::from_str::<Holder>(json).map(|holder| holder.maps)
    };
    parsed.map_err(|error| ReadError::Json(shown(&error.to_string())))
}

#[derive(Deserialize)]
struct Holder {
    maps: Vec<Saved>,
}

#[derive(Deserialize)]
struct Saved {
    show: Show,
    dump: Dump,
}

#[derive(Deserialize)]
struct Show {
    id: u32,
    #[serde(rename = "type")]
    kind: MapType,
    #[serde(default)]
    name: String,
    #[serde(default)]
    flags: u32,
    bytes_key: u32,
    bytes_value: u32,
    max_entries: u32,
    /// bpftool prints a number, and nothing before Linux 5.2.
    #[serde(default)]
    frozen: u32,
    /// The types of keys and values; bpftool does not say which they are.
    #[serde(default)]
    btf_id: u32,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Dump {
    Entries(Vec<Entry>),
    Error { error: String },
}

#[derive(Deserialize)]
struct Entry {
    key: Vec<HexByte>,
    value: Option<Value>,
    values: Option<Vec<CpuValue>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Bytes(Vec<HexByte>),
    Error { error: String },
}

#[derive(Deserialize)]
struct CpuValue {
    cpu: usize,
    value: Vec<HexByte>,
}

/// Why an entry cannot be used.
enum Fault {
    /// The map changed while bpftool read it, and bpftool says so.
    Changed(String),
    /// The file contradicts itself.
    Wrong(String),
}

impl Saved {
    fn into_map(self) -> Result<Map, ReadError> {
        let Self { show, dump } = self;
        let entries = match dump {
            Dump::Error { error } => Answer::Missing(format!("bpftool could not read it: {}", shown(&error))),
            Dump::Entries(entries) => match show.entries(entries) {
                Ok(entries) => Answer::Known(entries),
                Err(Fault::Changed(why)) => Answer::Missing(why),
                Err(Fault::Wrong(why)) => return Err(fault(show.id, &why)),
            },
        };
        Ok(Map {
            hidden: show.perhaps_hidden(&entries),
            id: show.id,
            kind: show.kind,
            name: show.name.into(),
            key_size: show.bytes_key,
            value_size: show.bytes_value,
            max_entries: show.max_entries,
            flags: show.flags,
            frozen: show.frozen != 0,
            entries,
            programs: Vec::new(),
        })
    }
}

/// `BPF_F_RDONLY_PROG` and `BPF_F_WRONLY_PROG`: such a map has no locks, timers
/// or kernel pointers in it (`map_check_btf`, `kernel/bpf/syscall.c`).
const ONE_WAY: u32 = 1 << 7 | 1 << 8;

impl Show {
    /// The bytes of a value that a program may see differently than bpftool did.
    ///
    /// Where a value holds a pointer of the kernel (8 bytes at a multiple of 8), the
    /// kernel shows zeros to bpftool, and a program sees whether there is one. The
    /// file does not have the types of the map. So in a map that has types, each such
    /// word that is zero in all entries may be a pointer.
    fn perhaps_hidden(&self, entries: &Answer<Vec<MapEntry>>) -> Vec<HiddenBytes> {
        let Some(entries) = entries.known().filter(|_| self.btf_id != 0 && self.flags & ONE_WAY == 0) else {
            return Vec::new();
        };
        let is_zero = |first: &u32| {
            let place = *first as usize..*first as usize + 8;
            entries.iter().all(|entry| {
                entry.value.0.get(place.clone()).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
            })
        };
        let words = (0..self.bytes_value / 8).map(|word| word * 8);
        words.filter(is_zero).map(|first| HiddenBytes { first, size: 8 }).collect()
    }

    fn entries(&self, entries: Vec<Entry>) -> Result<Vec<MapEntry>, Fault> {
        // Lengths first: a file that contradicts itself is never merely "changed".
        let read: Vec<_> = entries.into_iter().map(|entry| self.entry(entry)).collect();
        let (wrong, read): (Vec<_>, Vec<_>) =
            read.into_iter().partition(|entry| matches!(entry, Err(Fault::Wrong(_))));
        let entries: Vec<MapEntry> = wrong.into_iter().chain(read).collect::<Result<_, _>>()?;
        let keys: BTreeSet<&HexBytes> = entries.iter().map(|entry| &entry.key).collect();
        if keys.len() == entries.len() {
            return Ok(entries);
        }
        Err(Fault::Changed(
            "a key comes twice: the map changed while bpftool read it; dump it again".to_owned(),
        ))
    }

    fn entry(&self, entry: Entry) -> Result<MapEntry, Fault> {
        let key = sized("key", entry.key, self.bytes_key)?;
        let value = match (entry.value, entry.values) {
            (Some(Value::Bytes(bytes)), None) => sized("value", bytes, self.bytes_value)?,
            (Some(Value::Error { error }), None) => return Err(vanished(&error)),
            (None, Some(values)) => self.per_cpu(values)?,
            _ => return Err(Fault::Wrong("an entry needs either `value` or `values`".to_owned())),
        };
        Ok(MapEntry { key, value })
    }

    /// The values of all CPUs in a row, each rounded up to 8 bytes.
    fn per_cpu(&self, values: Vec<CpuValue>) -> Result<HexBytes, Fault> {
        let mut row = Vec::new();
        for (expected, CpuValue { cpu, value }) in values.into_iter().enumerate() {
            if cpu != expected {
                return Err(Fault::Wrong(format!(
                    "a value of CPU {cpu} stands where that of CPU {expected} belongs"
                )));
            }
            row.extend(sized("value", value, self.bytes_value)?.0);
            row.resize(row.len().next_multiple_of(8), 0);
        }
        Ok(HexBytes(row))
    }
}

fn sized(what: &str, bytes: Vec<HexByte>, size: u32) -> Result<HexBytes, Fault> {
    if u32::try_from(bytes.len()) != Ok(size) {
        return Err(Fault::Wrong(format!("a {what} of {} bytes, but `show` says {size}", bytes.len())));
    }
    Ok(HexBytes(bytes.into_iter().map(|byte| byte.0).collect()))
}

fn vanished(error: &str) -> Fault {
    Fault::Changed(format!("an entry vanished while bpftool read the map ({}); dump it again", shown(error)))
}

fn fault(id: u32, why: &str) -> ReadError {
    ReadError::Map { id, why: why.to_owned() }
}
