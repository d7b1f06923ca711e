//! A GoldenImagePolicy, parsed: values instead of strings, and defaults for missing fields.

pub mod status;
#[cfg(test)]
mod tests;

use api::golden::{
    Discovery, GoldenImagePolicy, GoldenImagePolicySpec, ImagePolicy, NAME, Sniffing,
    UnchangedContent,
};
use api::mode::ModeSetting;
use jiff::SignedDuration;
use machinery::time::parse_duration;

use crate::list;

/// Upper limit of all durations: 8760h, which the error message repeats.
const MAX_DURATION: SignedDuration = SignedDuration::from_hours(24 * 365);

/// The rules for golden images.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The default architecture of all images.
    pub default_architecture: Option<String>,
    /// How long images stay after the last node of their architecture was removed.
    pub grace: SignedDuration,
    /// How many imports are kept, for images that do not set it.
    pub imports_to_keep: Option<usize>,
    /// How many earlier versions the history of a DataSource has.
    pub history: usize,
    /// The upper limit of the delay by which polls are spread.
    pub jitter: SignedDuration,
    /// The backoff of failed polls and imports.
    pub retry: Backoff,
    /// How the architectures that an image actually has are used.
    pub discovery: Discovery,
    /// How a disk for another architecture than declared is treated.
    pub sniffing: Sniffing,
    /// Whether a new image with unchanged disk content is imported.
    pub unchanged: UnchangedContent,
    /// Whether the layers write, report or do nothing.
    pub mode: ModeSetting,
    images: Vec<ImagePolicy>,
}

/// Exponential backoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub first: SignedDuration,
    /// The longest delay.
    pub most: SignedDuration,
}

impl Backoff {
    /// The delay after this many failures in a row.
    pub fn after(&self, failures: u32) -> SignedDuration {
        // 2^30 is the largest power that fits the factor; the longest delay is reached long before.
        let doublings = failures.saturating_sub(1).min(30);
        let factor = 1_i32.checked_shl(doublings).unwrap_or(i32::MAX);
        let wait = self.first.checked_mul(factor).unwrap_or(self.most);
        wait.min(self.most)
    }
}

/// An invalid field of a policy, and the value that is used instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Complaint {
    /// The text is not a duration.
    #[error(
        "{field}: {value:?} is not a duration; must be a Go duration such as 30s or 2h, from 0s to 8760h; using {instead}"
    )]
    Duration {
        /// The path of the field.
        field: &'static str,
        /// Its value.
        value: String,
        /// The value that is used.
        instead: &'static str,
    },
    /// The architecture is not supported.
    #[error(
        "{field}: {value:?} is not an architecture of VMs; must be amd64, arm64 or s390x; ignored"
    )]
    Architecture {
        /// The path of the field.
        field: String,
        /// Its value.
        value: String,
    },
}

impl Default for Policy {
    fn default() -> Self {
        Self::read(&GoldenImagePolicySpec::default()).0
    }
}

/// A GoldenImagePolicy and what follows from it.
#[derive(Debug, Default)]
pub struct EffectivePolicy {
    /// The object, if there is one.
    pub object: Option<GoldenImagePolicy>,
    /// The rules, with defaults.
    pub policy: Policy,
    /// Invalid fields, which were replaced by defaults.
    pub complaints: Vec<Complaint>,
}

impl EffectivePolicy {
    /// Reads the policy of a cluster.
    pub fn new(object: Option<GoldenImagePolicy>) -> Self {
        let (policy, complaints) = match &object {
            Some(object) => Policy::read(&object.spec),
            None => (Policy::default(), Vec::new()),
        };
        Self {
            object,
            policy,
            complaints,
        }
    }

    /// The invalid fields, for people.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let complaints = self.complaints.iter();
        complaints.map(|wrong| format!("GoldenImagePolicy {NAME}: {wrong}"))
    }
}

impl Policy {
    /// Parses a policy; returns its invalid fields as well.
    pub fn read(spec: &GoldenImagePolicySpec) -> (Self, Vec<Complaint>) {
        let mut wrong = Vec::new();
        let mut duration =
            |field: &'static str, text: &Option<String>, instead: &'static str, or| {
                let Some(text) = text else { return or };
                match parse_duration(text) {
                    Ok(read) if !read.is_negative() && read <= MAX_DURATION => read,
                    _ => {
                        wrong.push(Complaint::Duration {
                            field,
                            value: text.clone(),
                            instead,
                        });
                        or
                    }
                }
            };
        let grace = duration(
            "spec.gracePeriod",
            &spec.grace_period,
            "1h",
            SignedDuration::from_hours(1),
        );
        let jitter = duration(
            "spec.polling.jitter",
            &spec.polling.jitter,
            "5m",
            SignedDuration::from_mins(5),
        );
        let first = duration(
            "spec.retry.initialDelay",
            &spec.retry.initial_delay,
            "30s",
            SignedDuration::from_secs(30),
        );
        let most = duration(
            "spec.retry.maxDelay",
            &spec.retry.max_delay,
            "1h",
            SignedDuration::from_hours(1),
        );
        let default_architecture = spec
            .default_architecture
            .as_deref()
            .and_then(|text| architecture("spec.defaultArchitecture".to_owned(), text, &mut wrong));
        let images = spec.images.iter().enumerate().map(|(index, image)| {
            let field = format!("spec.images[{index}].defaultArchitecture");
            let default = image.default_architecture.as_deref();
            ImagePolicy {
                default_architecture: default
                    .and_then(|text| architecture(field, text, &mut wrong)),
                ..image.clone()
            }
        });
        let images = images.collect();
        let count = |number: Option<i32>| number.and_then(|it| usize::try_from(it).ok());
        let policy = Self {
            default_architecture,
            grace,
            // At least one, so that the DataSource always has something to refer to.
            imports_to_keep: count(spec.retention.imports_to_keep).map(|it| it.clamp(1, 100)),
            history: count(spec.retention.history).unwrap_or(10).min(50),
            jitter,
            // A delay of zero would be a busy loop.
            retry: Backoff {
                first: first.max(SignedDuration::from_secs(1)),
                most: most.max(SignedDuration::from_secs(1)),
            },
            discovery: spec.discovery,
            sniffing: spec.sniffing,
            unchanged: spec.unchanged_content,
            mode: spec.mode,
            images,
        };
        (policy, wrong)
    }

    /// The default architecture that the policy sets for an image, and for all images.
    pub fn default_for(&self, namespace: &str, name: &str) -> Override<'_> {
        let image = self.image(namespace, name);
        Override {
            image: image.and_then(|image| image.default_architecture.as_deref()),
            cluster: self.default_architecture.as_deref(),
        }
    }

    /// The pinned digest of an image, if any.
    pub fn pin_for(&self, namespace: &str, name: &str, architecture: &str) -> Option<&str> {
        let pins = &self.image(namespace, name)?.pins;
        let pin = pins.iter().find(|pin| pin.architecture == architecture)?;
        Some(&pin.digest)
    }

    fn image(&self, namespace: &str, name: &str) -> Option<&ImagePolicy> {
        let mut images = self.images.iter();
        images.find(|image| image.namespace == namespace && image.name == name)
    }
}

/// The default architecture that the policy sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Override<'a> {
    /// For the image.
    pub image: Option<&'a str>,
    /// For all images.
    pub cluster: Option<&'a str>,
}

fn architecture(field: String, text: &str, wrong: &mut Vec<Complaint>) -> Option<String> {
    let name = list::normal(text);
    if list::is_known(&name) {
        return Some(name);
    }
    wrong.push(Complaint::Architecture {
        field,
        value: text.to_owned(),
    });
    None
}
