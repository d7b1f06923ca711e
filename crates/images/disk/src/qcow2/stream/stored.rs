//! A stream that is stored to go on later.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::super::header::Header;
use super::super::plan::{Parked, Piece};
use super::{Running, Stream};
use crate::canvas::Canvas;
use crate::error::Error;

/// Items of a plan that are stored: a checkpoint stays below some megabytes.
const MOST_STORED: usize = 1 << 15;

/// What a stream needs to go on later.
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
    /// The state, after all that is under way has reached the target. None in another pass, or if
    /// it would be too much to be stored.
    pub(crate) fn state(&mut self, canvas: &mut Canvas<'_>) -> Result<Option<State>, Error> {
        if self.pass > 1 || self.plan.len() + self.missing.len() > MOST_STORED {
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

    /// Goes on from a state. What was only in memory of what could not be parked is gone; if it is
    /// needed, another pass brings it.
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
