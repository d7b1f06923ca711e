//! The two forms of events.

pub(crate) use crate::builtin::core::event::{to_core, to_events_v1};
