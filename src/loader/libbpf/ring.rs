//! Reads a ring buffer with libbpf. libbpf hands each record to a function that was
//! named when the reader was made; that function keeps the records for whoever
//! reads next.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libbpf_rs::{MapHandle, Result, RingBuffer, RingBufferBuilder};

use crate::loader::Ring;

/// Records that are kept at most: the others wait in the ring.
const KEPT: usize = 256;

type Records = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// A ring buffer, and records that libbpf has taken from it.
pub(super) struct Queue {
    ring: RingBuffer<'static>,
    map: MapHandle,
    records: Records,
}

impl Queue {
    /// A reader of this map.
    ///
    /// # Errors
    ///
    /// The map is no ring buffer, or there is no memory to map it.
    pub(super) fn new(map: MapHandle) -> Result<Self> {
        let records = Records::default();
        let keep = Arc::clone(&records);
        let mut builder = RingBufferBuilder::new();
        builder.add(&map, move |record| {
            locked(&keep).push_back(record.to_vec());
            0
        })?;
        let ring = builder.build()?;
        Ok(Self { ring, map, records })
    }

    fn next(&self) -> Option<Vec<u8>> {
        let next = locked(&self.records).pop_front();
        if next.is_some() {
            return next;
        }
        self.ring.consume_raw_n(KEPT);
        locked(&self.records).pop_front()
    }
}

impl Ring for Queue {
    fn read(&mut self, take: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        while let Some(record) = self.next() {
            if !take(&record) {
                return false;
            }
        }
        true
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

fn locked(records: &Mutex<VecDeque<Vec<u8>>>) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
    records.lock().unwrap_or_else(PoisonError::into_inner)
}
