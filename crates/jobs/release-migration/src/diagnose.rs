//! Why the version that an operator reports does not match its manifest.
//!
//! Both are compared as strings, so an operator may run exactly the right image and never be done, because it reports
//! it under another name. The diagnosis states whether waiting can help.

#[cfg(test)]
mod tests;

use std::fmt;

use platform::Reference;
use serde::Serialize;

use crate::adoption::IMAGE_SUFFIX;
use crate::evaluate::MissingVersion;
use crate::evidence::PodImage;
use crate::replace::PLACEHOLDER;

/// Why a version does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Mismatch {
    /// Another version: the operator is updating.
    OtherVersion,
    /// Another image: the operator is updating.
    OtherImage,
    /// The right image runs, and the previous one as well: not all pods are updated.
    StalePod,
    /// Nothing is reported under this name.
    NotReported,
    /// A placeholder is reported: the operator was not built as part of a release.
    NotBuilt,
    /// The same digest in another registry or repository.
    OtherPlace,
    /// Reported by tag.
    TagForm,
    /// The manifest expects a tag, which no operator reports that knows a digest.
    WantedTagForm,
    /// The reported value is not an image.
    NoImage,
}

impl Mismatch {
    /// Whether it resolves by itself.
    pub fn passes(self) -> bool {
        matches!(self, Self::OtherVersion | Self::OtherImage | Self::StalePod)
    }
}

/// Why a version does not match, and what would help.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The version.
    #[serde(flatten)]
    pub undone: MissingVersion,
    /// The kind of mismatch.
    pub mismatch: Mismatch,
    /// Whether it resolves by itself.
    pub passes: bool,
    /// The message.
    pub message: String,
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.undone, self.message)
    }
}

/// Finds out why a version does not match. `running` are the images of the operator's pods, if known.
pub fn diagnose(undone: &MissingVersion, running: &[PodImage]) -> Diagnosis {
    let (mismatch, message) = if undone.name.ends_with(IMAGE_SUFFIX) {
        image(undone, running)
    } else {
        match &undone.from {
            None => (
                Mismatch::NotReported,
                "the operator reports nothing under this name".to_owned(),
            ),
            Some(_) => (
                Mismatch::OtherVersion,
                "the operator has not finished its update".to_owned(),
            ),
        }
    };
    Diagnosis {
        undone: undone.clone(),
        mismatch,
        passes: mismatch.passes(),
        message,
    }
}

fn image(undone: &MissingVersion, running: &[PodImage]) -> (Mismatch, String) {
    let to = &undone.to;
    let Some(from) = &undone.from else {
        let new = running.iter().find(|it| it.is(to));
        let message = match new {
            Some(new) => format!(
                "nothing is reported under this name, although pod {}/{} runs the image: this build of the operator does not report it",
                new.namespace, new.pod
            ),
            None => "nothing is reported under this name: the previous operator does not report it, and the new one does not run yet".to_owned(),
        };
        return (Mismatch::NotReported, message);
    };
    // Before parsing: a placeholder is a valid pull specification.
    if from.contains(PLACEHOLDER) {
        return (
            Mismatch::NotBuilt,
            "a placeholder is reported: the operator was not built as part of a release, or its Deployment lacks the flag or variable with the image".to_owned(),
        );
    }
    let (Ok(old), new) = (from.parse::<Reference>(), to.parse::<Reference>().ok()) else {
        return (
            Mismatch::NoImage,
            "the reported value is not a pull specification".to_owned(),
        );
    };
    let wanted = new.as_ref().and_then(Reference::digest);
    if wanted.is_none() {
        return (
            Mismatch::WantedTagForm,
            "the manifest expects an image by tag, which is compared as a string; releases reference images by digest".to_owned(),
        );
    }
    // Before the tag: a reference may have both, and then the digest decides what runs.
    if old.digest().is_some() && old.digest() == wanted {
        return (
            Mismatch::OtherPlace,
            format!(
                "it is the same image under another name ({} instead of {}): names are compared as strings, so this never resolves; rewrite the release (medley release mirror) or the operator's flag",
                old.name(),
                new.map(|it| it.name()).unwrap_or_default()
            ),
        );
    }
    if old.digest().is_none() {
        return (
            Mismatch::TagForm,
            "it is reported by tag, where the manifest expects a digest: names are compared as strings, so this never resolves".to_owned(),
        );
    }
    let stale = running.iter().find(|it| it.is(from));
    if let (Some(stale), true) = (stale, running.iter().any(|it| it.is(to))) {
        return (
            Mismatch::StalePod,
            format!(
                "the new image runs, but pod {}/{} still runs the previous one and may be the one that reports",
                stale.namespace, stale.pod
            ),
        );
    }
    (
        Mismatch::OtherImage,
        "the operator has not finished with the new image".to_owned(),
    )
}
