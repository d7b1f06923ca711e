//! Fields that an apply would take from others.

use std::fmt;

use super::managed::{Entry, Operation};
use super::path::{PathElement, path_text};
use super::set::FieldSet;
use crate::json::go_quote;
use crate::status::{Cause, Details, Status};

/// One field that another manager owns and that would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The owner as messages name it: `"upd" using v1`.
    pub owner: String,
    /// Orders owners.
    identity: String,
    /// The field.
    pub path: Vec<PathElement>,
}

/// All fields that other managers own and that would change; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflicts(pub(super) Vec<Conflict>);

impl Conflicts {
    /// The single conflicts, owner by owner.
    pub fn iter(&self) -> impl Iterator<Item = &Conflict> {
        self.0.iter()
    }

    /// Adds the fields in `set`, all owned by `entry`.
    pub(super) fn add(&mut self, entry: &Entry, set: &FieldSet) {
        let (owner, identity) = (owner_text(entry), entry.identity());
        self.0.extend(set.iter().map(|path| Conflict {
            owner: owner.clone(),
            identity: identity.clone(),
            path,
        }));
    }

    /// Puts owners in the order of messages.
    pub(super) fn sort(&mut self) {
        // Stable: the fields of one owner stay in the order of its set, which is what clients see in messages.
        self.0.sort_by(|a, b| a.identity.cmp(&b.identity));
    }
}

fn owner_text(entry: &Entry) -> String {
    let mut text = go_quote(&entry.manager);
    if !entry.subresource.is_empty() {
        text.push_str(" with subresource ");
        text.push_str(&go_quote(&entry.subresource));
    }
    if entry.operation == Operation::Update {
        text.push_str(" using ");
        text.push_str(&entry.api_version);
    }
    text
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            let path = path_text(&only.path);
            return write!(
                f,
                "Apply failed with 1 conflict: conflict with {}: {path}",
                only.owner
            );
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let groups = self.0.chunk_by(|a, b| a.identity == b.identity);
        for (i, group) in groups.enumerate() {
            let Some(first) = group.first() else { continue };
            let newline = if i > 0 { "\n" } else { "" };
            write!(f, "{newline}conflicts with {}:", first.owner)?;
            for conflict in group {
                write!(f, "\n- {}", path_text(&conflict.path))?;
            }
        }
        Ok(())
    }
}

impl From<&Conflicts> for Status {
    /// 409 with one cause for each field, and without the name of the object.
    fn from(conflicts: &Conflicts) -> Self {
        let cause = |conflict: &Conflict| Cause {
            reason: "FieldManagerConflict".to_owned(),
            message: format!("conflict with {}", conflict.owner),
            field: path_text(&conflict.path),
        };
        Self::failure(409, "Conflict", conflicts.to_string()).with_details(Details {
            causes: conflicts.iter().map(cause).collect(),
            ..Details::default()
        })
    }
}
