//! Buffers that go round.
//!
//! What one thread hands to the next is in buffers of one size, which come back when nobody reads them
//! any more. So there are as many as were ever under way at once, whatever an allocator makes of
//! memory that one thread takes and another gives back.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::unpack::CHUNK;

/// Buffers that nobody uses now.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool(Arc<Mutex<Vec<Vec<u8>>>>);

impl Pool {
    /// A buffer of [`CHUNK`] bytes; what is in it is of no use.
    pub(super) fn take(&self) -> Vec<u8> {
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| vec![0; CHUNK])
    }

    /// The first bytes of a buffer, to be handed on.
    pub(super) fn lend(&self, buffer: Vec<u8>, length: usize) -> Bytes {
        Bytes::from_owner(Lent {
            buffer,
            length,
            pool: self.clone(),
        })
    }
}

/// A buffer that comes back.
struct Lent {
    buffer: Vec<u8>,
    length: usize,
    pool: Pool,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut free = self.pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_nobody_reads_it_any_more() {
        let pool = Pool::default();
        let mut buffer = pool.take();
        buffer[..3].copy_from_slice(b"abc");
        let place = buffer.as_ptr();
        let lent = pool.lend(buffer, 3);
        let other = lent.clone();
        drop(lent);
        assert_eq!(&other[..], b"abc");
        let another = pool.take();
        assert_ne!(another.as_ptr(), place);
        drop(other);
        let again = pool.take();
        assert_eq!(again.as_ptr(), place);
    }
}
