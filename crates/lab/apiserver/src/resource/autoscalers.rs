//! Autoscalers are served in two versions from one store, in the newer form.

use std::sync::Arc;

use machinery::apply::{Schema, TypeRef};
use serde_json::Value;

use super::Conversion;
use crate::builtin::autoscaling::{to_v1, to_v2};
use crate::types;

/// One of the two views.
pub(crate) struct AutoscalerView {
    /// Whether this is v2, the stored version.
    pub(crate) newer: bool,
}

impl Conversion for AutoscalerView {
    fn is_identity(&self) -> bool {
        self.newer
    }

    fn read_stored(&self, object: Value) -> Value {
        if self.newer { object } else { to_v1(&object) }
    }

    fn write_stored(&self, object: Value) -> Value {
        if self.newer { object } else { to_v2(&object) }
    }

    fn to_version(&self, object: &Value, api_version: &str) -> Option<Value> {
        match api_version {
            "autoscaling/v1" => Some(to_v1(object)),
            "autoscaling/v2" => Some(to_v2(object)),
            _ => None,
        }
    }

    fn merge_type_of(&self, api_version: &str) -> Option<(Arc<Schema>, TypeRef)> {
        let version = api_version.strip_prefix("autoscaling/")?;
        let id = types::table().kind("autoscaling", version, "HorizontalPodAutoscaler")?;
        Some((types::merge_schema(), types::merge_type(id)))
    }
}
