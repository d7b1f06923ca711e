//! What somebody has set by hand, taken over into options.

use api::advisor::{Drift, ProfileOptions};
use serde_json::Value;

/// A field that somebody has set by hand.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Edit<'a> {
    /// The field, as precisely as can be said.
    pub(super) path: String,
    /// What it is; `None` if it was removed.
    pub(super) live: Option<&'a Value>,
}

impl<'a> Edit<'a> {
    /// What it is, where being removed is not an option.
    pub(super) fn value(&self) -> Result<&'a Value, String> {
        self.live
            .ok_or_else(|| format!("{} was removed, and no option removes it", self.path))
    }

    /// Why it cannot be adopted, if nothing can be said about it.
    pub(super) fn without_option(&self, profile: &str) -> String {
        format!("no option of profile {profile} sets {}", self.path)
    }
}

/// Adopts what drifted; the error says which item, which field, and why not.
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

/// The differences, field by field. What was added next to what was applied is nobody's business.
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
