//! Adopts manually set fields into options.

use api::advisor::{Drift, ProfileOptions};
use serde_json::Value;

/// A manually set field.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Edit<'a> {
    /// The field, as precisely as possible.
    pub(super) path: String,
    /// Its live value; `None` if it was removed.
    pub(super) live: Option<&'a Value>,
}

impl<'a> Edit<'a> {
    /// Its live value, where an option cannot express removal.
    pub(super) fn value(&self) -> Result<&'a Value, String> {
        self.live
            .ok_or_else(|| format!("{} was removed, and no option removes it", self.path))
    }

    /// The error if no option sets the field.
    pub(super) fn without_option(&self, profile: &str) -> String {
        format!("no option of profile {profile} sets {}", self.path)
    }
}

/// Adopts drift into options; the error names item, field and reason.
pub(super) fn adopt(
    drift: &Drift,
    options: impl FnOnce(&[Edit<'_>]) -> Result<ProfileOptions, String>,
) -> Result<ProfileOptions, String> {
    let mut edits = Vec::new();
    find(
        &drift.path,
        drift.applied.as_ref(),
        drift.live.as_ref(),
        &mut edits,
    );
    let adopted = if edits.is_empty() {
        Err("it is what was applied".to_owned())
    } else {
        options(&edits)
    };
    adopted.map_err(|why| {
        format!(
            "Cannot adopt {} of item '{}': {why}",
            drift.path, drift.item
        )
    })
}

/// The differences, field by field. Fields added next to the applied ones are ignored.
fn find<'a>(
    path: &str,
    applied: Option<&Value>,
    live: Option<&'a Value>,
    edits: &mut Vec<Edit<'a>>,
) {
    let live = live.filter(|live| !live.is_null());
    if applied == live {
        return;
    }
    // Selectors are replaced as a whole.
    if let (Some(Value::Object(applied)), Some(Value::Object(fields))) = (applied, live)
        && !applied.is_empty()
        && !path.ends_with("elector")
    {
        for (name, applied) in applied {
            find(
                &format!("{path}.{name}"),
                Some(applied),
                fields.get(name),
                edits,
            );
        }
        return;
    }
    edits.push(Edit {
        path: path.to_owned(),
        live,
    });
}
