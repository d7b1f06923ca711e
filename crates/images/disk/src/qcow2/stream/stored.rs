//! The state of a stream in a checkpoint.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::super::header::Header;
use super::super::plan::{Parked, Piece};
use super::{Running, Stream};
use crate::canvas::Canvas;
use crate::error::Error;

/// Upper bound of stored items: a checkpoint stays below some megabytes.
const MAX_STORED_ITEMS: usize = 1 << 15;

/// The state of a stream, to resume from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct State {
    header: Header,
    l1: Vec<u64>,
    plan: Vec<Piece>,
    missing: Vec<Piece>,
    postponed: BTreeSet<u32>,
    running: Vec<Running>,
    waiting: Vec<((u64, u64), u64)>,
    reach: u64,
    parked: Parked,
    buffer: Vec<u8>,
    from: u64,
    next: u64,
}

impl Stream {
    /// The state, after all data in flight has reached the target. `None` in a later pass, or if it
    /// would be too large.
    pub(crate) fn state(&mut self, canvas: &mut Canvas<'_>) -> Result<Option<State>, Error> {
        if self.pass > 1 || self.plan.len() + self.missing.len() > MAX_STORED_ITEMS {
            return Ok(None);
        }
        while let Some(answer) = self.inflater.answer()? {
            let (guest, cluster) = answer?;
            canvas.put(guest, &cluster)?;
        }
        Ok(Some(State {
            header: self.header.clone(),
            l1: self.l1.clone(),
            plan: self.plan.pieces().collect(),
            missing: self.missing.pieces().collect(),
            postponed: self.postponed.clone(),
            running: self.running.clone(),
            waiting: self
                .waiting
                .iter()
                .map(|(key, begins)| (*key, *begins))
                .collect(),
            reach: self.reach,
            parked: self.parked.clone(),
            buffer: self.buffer.clone(),
            from: self.from,
            next: self.next,
        }))
    }

    /// Resumes from a state. Clusters kept only in memory are lost; if they are needed, another pass
    /// reads them.
    pub(crate) fn resume(state: State, threads: usize) -> Self {
        let mut stream = Self::new(state.header, threads);
        stream.l1 = state.l1;
        stream.plan = state.plan.into_iter().collect();
        stream.missing = state.missing.into_iter().collect();
        stream.postponed = state.postponed;
        stream.running = state.running;
        stream.waiting = state.waiting.into_iter().collect();
        stream.reach = state.reach;
        stream.parked = state.parked;
        stream.buffer = state.buffer;
        stream.from = state.from;
        stream.next = state.next;
        stream
    }
}
