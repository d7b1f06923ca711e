//! Who approved which plan, as the annotation keeps it.

use api::advisor::names;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

/// So many approvals are kept.
const KEPT: usize = 50;

/// The approval of one plan by one user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Who.
    pub user: String,
    /// Which plan.
    pub digest: String,
    /// When.
    pub at: Time,
    /// The groups of the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
}

/// The approvals that were recorded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Approvals {
    entries: Vec<Entry>,
}

impl Approvals {
    /// Reads the annotation [`names::APPROVALS`]; without one there are none.
    pub fn parse(text: Option<&str>) -> Result<Self, String> {
        let Some(text) = text else {
            return Ok(Self::default());
        };
        let entries = serde_json::from_str(text).map_err(|why| {
            format!(
                "Annotation {} is not a list of approvals ({why}); accepted is \
                 [{{\"user\": …, \"digest\": \"sha256:…\", \"at\": \"2026-01-01T00:00:00Z\"}}]. \
                 Remove it and approve again.",
                names::APPROVALS
            )
        })?;
        Ok(Self { entries })
    }

    /// Who approved a plan, in the order of their approvals.
    pub fn of<'a>(&'a self, digest: &'a str) -> impl Iterator<Item = &'a str> {
        self.entries
            .iter()
            .filter(move |entry| entry.digest == digest && !entry.user.is_empty())
            .map(|entry| entry.user.as_str())
    }

    /// All of them, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

/// The annotation with one more approval. One that cannot be read is replaced: losing approvals is
/// safe, and only an administrator who went around the admission check can have broken it.
pub fn record(existing: Option<&str>, user: &str, digest: &str, at: Timestamp) -> String {
    let mut entries = Approvals::parse(existing).unwrap_or_default().entries;
    entries.retain(|entry| entry.user != user || entry.digest != digest);
    entries.push(Entry {
        user: user.to_owned(),
        digest: digest.to_owned(),
        at: Time(at),
        groups: Vec::new(),
    });
    let surplus = entries.len().saturating_sub(KEPT);
    entries.drain(..surplus);
    // Strings and lists of them always serialise.
    serde_json::to_string(&entries).unwrap_or_default()
}
