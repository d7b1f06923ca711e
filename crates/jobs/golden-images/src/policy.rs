//! What a GoldenImagePolicy means: numbers and times instead of texts, and defaults where it says
//! nothing.

pub mod status;
#[cfg(test)]
mod tests;

use api::golden::{Discovery, GoldenImagePolicySpec, ImagePolicy, Sniffing, UnchangedContent};
use jiff::SignedDuration;
use machinery::time::parse_duration;

use crate::list;

/// Nobody waits longer than this for anything.
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 365);

/// How golden images are kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The architecture that names without one stand for.
    pub default_architecture: Option<String>,
    /// How long images stay after the last node of their architecture went.
    pub grace: SignedDuration,
    /// How many imports are kept, for images that do not say it.
    pub imports_to_keep: Option<usize>,
    /// How many earlier versions a DataSource remembers.
    pub history: usize,
    /// By how much polls are spread.
    pub jitter: SignedDuration,
    /// When what failed is tried again.
    pub retry: Backoff,
    /// What is done with the architectures that an image really has.
    pub discovery: Discovery,
    /// What is done if a disk is for another architecture than its image says.
    pub sniffing: Sniffing,
    /// What is done with a new image whose disk is the old one.
    pub unchanged: UnchangedContent,
    images: Vec<ImagePolicy>,
}

/// Waiting that doubles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: SignedDuration,
    /// At the latest.
    pub most: SignedDuration,
}

impl Backoff {
    /// How long to wait after so many failures in a row.
    pub fn after(&self, failures: u32) -> SignedDuration {
        let doublings = failures.saturating_sub(1).min(30);
        let factor = 1_i32.checked_shl(doublings).unwrap_or(i32::MAX);
        let wait = self.first.checked_mul(factor).unwrap_or(self.most);
        wait.min(self.most)
    }
}

/// Something in a policy that makes no sense, and what is done instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Complaint {
    /// A text is no duration.
    #[error(
        "{field}: {value:?} is no duration; a Go duration such as 30s or 2h, from 0s to 8760h, is accepted; {instead} is used"
    )]
    Duration {
        /// Where.
        field: &'static str,
        /// What is there.
        value: String,
        /// What is used.
        instead: &'static str,
    },
    /// An architecture is none that a virtual machine can have.
    #[error(
        "{field}: {value:?} is no architecture of virtual machines; amd64, arm64 and s390x are accepted; it is ignored"
    )]
    Architecture {
        /// Where.
        field: String,
        /// What is there.
        value: String,
    },
}

impl Default for Policy {
    fn default() -> Self {
        Self::read(&GoldenImagePolicySpec::default()).0
    }
}

impl Policy {
    /// What a policy means, and what in it makes no sense.
    pub fn read(spec: &GoldenImagePolicySpec) -> (Self, Vec<Complaint>) {
        let mut wrong = Vec::new();
        let mut duration =
            |field: &'static str, text: &Option<String>, instead: &'static str, or| {
                let Some(text) = text else { return or };
                match parse_duration(text) {
                    Ok(read) if !read.is_negative() && read <= LONGEST => read,
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
            // None kept would be none to point to.
            imports_to_keep: count(spec.retention.imports_to_keep).map(|it| it.clamp(1, 100)),
            history: count(spec.retention.history).unwrap_or(10).min(50),
            jitter,
            // A wait of nothing would be a busy loop.
            retry: Backoff {
                first: first.max(SignedDuration::from_secs(1)),
                most: most.max(SignedDuration::from_secs(1)),
            },
            discovery: spec.discovery,
            sniffing: spec.sniffing,
            unchanged: spec.unchanged_content,
            images,
        };
        (policy, wrong)
    }

    /// The architecture that is asked for an image, and whether it is asked for this one alone.
    pub fn default_for(&self, namespace: &str, name: &str) -> Override<'_> {
        let image = self.image(namespace, name);
        Override {
            image: image.and_then(|image| image.default_architecture.as_deref()),
            cluster: self.default_architecture.as_deref(),
        }
    }

    /// The version of an image that is held on to.
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

/// The default architecture that somebody asked for.
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
