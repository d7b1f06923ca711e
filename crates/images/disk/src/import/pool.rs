//! A pool of buffers.
//!
//! Threads pass data in buffers of one size, which return to the pool when the last reader drops them.
//! So there are only as many as were ever in use at once, regardless of how an allocator handles memory
//! that is allocated by one thread and freed by another.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::unpack::CHUNK;

/// Unused buffers.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool(Arc<Mutex<Vec<Vec<u8>>>>);

impl Pool {
    /// A buffer of [`CHUNK`] bytes with arbitrary contents.
    pub(super) fn take(&self) -> Vec<u8> {
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| vec![0; CHUNK])
    }

    /// The first bytes of a buffer, for other threads.
    pub(super) fn share(&self, buffer: Vec<u8>, length: usize) -> Bytes {
        Bytes::from_owner(PooledBuffer {
            buffer,
            length,
            pool: self.clone(),
        })
    }
}

/// A buffer that returns to the pool.
struct PooledBuffer {
    buffer: Vec<u8>,
    length: usize,
    pool: Pool,
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut free = self.pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(buffer);
    }
}
