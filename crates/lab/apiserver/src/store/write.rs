//! Requests to the writer.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::{Entry, Event, StoreError};

/// Creates the content of a write when its revision is known, so that the content can contain it.
/// It runs on the writer: it should only serialise.
pub type Content = Box<dyn FnOnce(u64) -> Bytes + Send>;

/// The precondition of a write on its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key exists and this revision was the last to write it.
    Revision(u64),
    /// None. (A delete always requires the key to exist.)
    Any,
}

impl Expect {
    pub(super) fn holds(self, current: Option<&Entry>) -> bool {
        match self {
            Self::Absent => current.is_none(),
            Self::Revision(revision) => current.is_some_and(|entry| entry.mod_revision == revision),
            Self::Any => true,
        }
    }
}

/// The operation of a write.
pub enum Op {
    /// Writes a version.
    Put(Content),
    /// Removes the key; the content is the object in the delete event, with the revision of the
    /// delete.
    Delete(Content),
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Put(_) => "Put",
            Self::Delete(_) => "Delete",
        })
    }
}

/// One write with its precondition.
#[derive(Debug)]
pub struct Write {
    /// The key.
    pub key: Arc<str>,
    /// The precondition.
    pub expect: Expect,
    /// The operation.
    pub op: Op,
    /// A mark of the content's form for readers, valid as long as the process.
    pub form: Option<u64>,
    /// Whether the content was created by the server's encoder: the JSON of the object that the key
    /// names. Other content is checked before it is served.
    pub encoded: bool,
}

impl Write {
    /// Writes a version of `key`.
    pub fn put(
        key: impl Into<Arc<str>>,
        expect: Expect,
        content: impl FnOnce(u64) -> Bytes + Send + 'static,
    ) -> Self {
        Self::new(key.into(), expect, Op::Put(Box::new(content)))
    }

    fn new(key: Arc<str>, expect: Expect, op: Op) -> Self {
        Self {
            key,
            expect,
            op,
            form: None,
            encoded: false,
        }
    }

    /// Removes `key`.
    pub fn delete(
        key: impl Into<Arc<str>>,
        expect: Expect,
        content: impl FnOnce(u64) -> Bytes + Send + 'static,
    ) -> Self {
        Self::new(key.into(), expect, Op::Delete(Box::new(content)))
    }

    /// Whether the precondition holds for the current version.
    pub(super) fn allowed(&self, current: Option<&Entry>) -> bool {
        let possible = matches!(self.op, Op::Put(_)) || current.is_some();
        possible && self.expect.holds(current)
    }
}

/// The outcome of a transaction: one event per write.
pub(super) type Written = Result<Vec<Arc<Event>>, StoreError>;

/// A message to the writer.
pub(super) enum Request {
    /// Writes that happen all or none.
    Write {
        writes: Vec<Write>,
        answer: oneshot::Sender<Written>,
    },
    /// Compact the history up to a revision.
    Compact {
        revision: u64,
        answer: oneshot::Sender<Result<(), StoreError>>,
    },
}

impl Request {
    /// Responds with an error.
    pub(super) fn refuse(self, error: StoreError) {
        // The receiver is gone when the caller has been cancelled.
        match self {
            Self::Write { answer, .. } => drop(answer.send(Err(error))),
            Self::Compact { answer, .. } => drop(answer.send(Err(error))),
        }
    }
}
