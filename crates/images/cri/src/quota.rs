//! How much the store may take, and how much it does.

use parking_lot::Mutex;

/// There is no room for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{needed} more bytes would make the store larger than its limit of {limit}: {used} are in use; remove images, or raise the limit"
)]
pub struct NoRoom {
    /// Bytes that were to come.
    pub needed: u64,
    /// Bytes that are there, or on their way.
    pub used: u64,
    /// Bytes that may be.
    pub limit: u64,
}

/// Bytes that are there, that are coming, and that may be.
#[derive(Debug)]
pub(crate) struct Quota {
    limit: Option<u64>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What is there, as of the last time that somebody looked.
    there: u64,
    /// What is on its way. Some of it may be there already: so it is never too little.
    coming: u64,
}

impl Quota {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self {
            limit,
            state: Mutex::default(),
        }
    }

    /// Makes room for what is to come.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), NoRoom> {
        let mut state = self.state.lock();
        let used = state.there.saturating_add(state.coming);
        if let Some(limit) = self.limit
            && used.saturating_add(bytes) > limit
        {
            return Err(NoRoom {
                needed: bytes,
                used,
                limit,
            });
        }
        state.coming = state.coming.saturating_add(bytes);
        Ok(())
    }

    /// It has come, or does not any more.
    pub(crate) fn give_back(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.coming = state.coming.saturating_sub(bytes);
    }

    /// Somebody has looked.
    pub(crate) fn found(&self, bytes: u64) {
        self.state.lock().there = bytes;
    }

    /// What is there.
    pub(crate) fn there(&self) -> u64 {
        self.state.lock().there
    }
}
