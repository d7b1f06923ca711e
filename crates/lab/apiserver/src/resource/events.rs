//! Events are served in two groups from one store, in the older form.

use std::sync::Arc;

use machinery::apply::{Schema, TypeRef};
use serde_json::Value;

use super::Conversion;
use crate::builtin::events::{to_core, to_events_v1};
use crate::types;

const CORE: &str = "v1";
const EVENTS: &str = "events.k8s.io/v1";

/// One of the two views.
pub(crate) struct EventView {
    /// Whether this is the view of the core group, the stored form.
    pub(crate) core: bool,
}

impl Conversion for EventView {
    fn is_identity(&self) -> bool {
        self.core
    }

    fn read_stored(&self, object: Value) -> Value {
        if self.core {
            object
        } else {
            to_events_v1(&object)
        }
    }

    fn write_stored(&self, object: Value) -> Value {
        if self.core { object } else { to_core(&object) }
    }

    fn to_version(&self, object: &Value, api_version: &str) -> Option<Value> {
        match api_version {
            CORE => Some(to_core(object)),
            EVENTS => Some(to_events_v1(object)),
            _ => None,
        }
    }

    fn merge_type_of(&self, api_version: &str) -> Option<(Arc<Schema>, TypeRef)> {
        let group = match api_version {
            CORE => "",
            EVENTS => "events.k8s.io",
            _ => return None,
        };
        let id = types::table().kind(group, "v1", "Event")?;
        Some((types::merge_schema(), types::merge_type(id)))
    }
}
