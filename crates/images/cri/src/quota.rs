//! The quota of the store.

use parking_lot::Mutex;

/// The store would exceed its limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{needed} more bytes would make the store larger than its limit of {limit}: {used} are in use; remove images, or raise the limit"
)]
pub struct QuotaExceeded {
    /// Bytes requested.
    pub needed: u64,
    /// Bytes used or reserved.
    pub used: u64,
    /// The limit in bytes.
    pub limit: u64,
}

/// Used, reserved and allowed bytes of the store.
#[derive(Debug)]
pub(crate) struct Quota {
    limit: Option<u64>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes used, as of the last measurement.
    used: u64,
    /// Bytes reserved. Some may have been written and measured already, so the sum is an upper bound.
    reserved: u64,
}

impl Quota {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self {
            limit,
            state: Mutex::default(),
        }
    }

    /// Reserves space.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), QuotaExceeded> {
        let mut state = self.state.lock();
        let used = state.used.saturating_add(state.reserved);
        if let Some(limit) = self.limit
            // Reserved bytes that are written and measured count twice for a moment. Too strict is the safe side: an
            // image that was refused is retried by kubelet, a full file system evicts pods.
            && used.saturating_add(bytes) > limit
        {
            return Err(QuotaExceeded {
                needed: bytes,
                used,
                limit,
            });
        }
        state.reserved = state.reserved.saturating_add(bytes);
        Ok(())
    }

    /// Releases a reservation: the content is written, or will not come.
    pub(crate) fn release(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.reserved = state.reserved.saturating_sub(bytes);
    }

    /// Records a measurement of the bytes used.
    pub(crate) fn record_usage(&self, bytes: u64) {
        self.state.lock().used = bytes;
    }

    /// Bytes used, as of the last measurement.
    pub(crate) fn used(&self) -> u64 {
        self.state.lock().used
    }
}
