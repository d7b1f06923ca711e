//! The approvals recorded in the annotation.
//!
//! Only admission writes the annotation, because only the API server knows the user of a request, and only during the
//! request. An entry is for one plan of one object: the digest covers the uid of the object and the revision that the
//! plan will have in the history, so that no later plan can have the same digest, and an approval cannot be used twice.

use api::advisor::names;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

/// Maximum number of entries; the oldest are dropped. Losing an approval is safe.
const MAX_ENTRIES: usize = 50;
/// Maximum size: the API server limits all annotations of an object to 256 KiB, and a user may be in hundreds of
/// groups.
const MAX_BYTES: usize = 64 << 10;

/// The approval of one plan by one user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The name of the user, as the API server authenticated it.
    pub user: String,
    /// The digest of the plan; empty for an approval before there is a plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// The time of the approval.
    pub at: Time,
    /// The groups of the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Set if the user requested `Apply` when there was no plan to review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplanned: Option<Unplanned>,
}

/// The request that an approval without a plan is bound to.
///
/// The seed's story 2: a manifest with `action: Apply` is planned and applied without a pause. Such an approval is for
/// the first plan derived from exactly this spec, and never counts where a policy requires approvals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unplanned {
    /// `metadata.generation` of the spec as sent: any later edit invalidates the approval.
    pub generation: i64,
    /// `status.revision` at that time: once a plan has run, the approval is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
}

/// The approvals of a configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Approvals {
    entries: Vec<Entry>,
}

impl Approvals {
    /// Parses the annotation [`names::APPROVALS`]; without one there are no approvals.
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

    /// All entries, in the order of their time.
    pub fn all(&self) -> &[Entry] {
        &self.entries
    }

    /// The approvals of a plan, in the order of their time.
    pub fn of<'a>(&'a self, digest: &'a str) -> impl Iterator<Item = &'a Entry> {
        let entries = self.entries.iter();
        entries.filter(move |entry| {
            !digest.is_empty() && entry.digest == digest && !entry.user.is_empty()
        })
    }

    /// The approval given before there was a plan, if it is still valid.
    pub fn unplanned(&self, generation: Option<i64>, revision: Option<i64>) -> Option<&Entry> {
        self.entries.iter().find(|entry| {
            entry.unplanned.is_some_and(|bound| {
                Some(bound.generation) == generation && bound.after == revision
            })
        })
    }

    /// All approvals, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

impl Entry {
    /// Whether the approval has exceeded its lifetime. One from the future counts as expired: no valid clock wrote it.
    pub fn expired(&self, now: Timestamp, lifetime: SignedDuration) -> bool {
        let age = now.duration_since(self.at.0);
        age > lifetime || age < -CLOCK_SKEW
    }
}

/// Tolerated clock difference between replicas.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// The annotation with one more approval. An unreadable annotation is replaced: losing approvals is safe, and only an
/// administrator who bypassed admission can have written it.
pub fn record(existing: Option<&str>, entry: Entry) -> String {
    let mut entries = Approvals::parse(existing).unwrap_or_default().entries;
    // One entry for each user and plan: a repeated approval renews the time, and does not count twice.
    entries.retain(|known| {
        known.user != entry.user
            || known.digest != entry.digest
            || known.unplanned.is_some() != entry.unplanned.is_some()
    });
    entries.push(entry);
    let surplus = entries.len().saturating_sub(MAX_ENTRIES);
    entries.drain(..surplus);
    loop {
        // Strings and lists of them always serialise.
        let text = serde_json::to_string(&entries).unwrap_or_default();
        if text.len() <= MAX_BYTES || entries.len() <= 1 {
            return text;
        }
        entries.remove(0);
    }
}
