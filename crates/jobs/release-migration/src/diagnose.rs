//! Why what an operator reports is not what its manifest wants.
//!
//! Both are compared to the letter, so that an operator may run exactly the right image and never have
//! arrived: because it names it otherwise. Whoever waits for it learns here that waiting will not help.

#[cfg(test)]
mod tests;

use std::fmt;

use platform::Reference;
use serde::Serialize;

use crate::adoption::IMAGE_SUFFIX;
use crate::evaluate::Undone;
use crate::evidence::Running;
use crate::replace::PLACEHOLDER;

/// Why a version is not reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Mismatch {
    /// It is another version: the operator is on its way.
    OtherVersion,
    /// It is another image: the operator is on its way.
    OtherImage,
    /// The right image runs, and the one before as well: not all pods are new yet.
    StalePod,
    /// Nothing is reported under this name.
    NotReported,
    /// A placeholder is reported: the operator was not built as part of a release.
    NotBuilt,
    /// The same image, from another registry or repository.
    OtherPlace,
    /// Reported by tag.
    TagForm,
    /// The manifest wants a tag, which nobody reports who knows a digest.
    WantedTagForm,
    /// What is reported is no image.
    NoImage,
}

impl Mismatch {
    /// Whether it goes away by itself.
    pub fn passes(self) -> bool {
        matches!(self, Self::OtherVersion | Self::OtherImage | Self::StalePod)
    }
}

/// Why a version is not reported, and what would help.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The version.
    #[serde(flatten)]
    pub undone: Undone,
    /// Why it is not reported.
    pub mismatch: Mismatch,
    /// Whether it goes away by itself.
    pub passes: bool,
    /// In words.
    pub message: String,
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.undone, self.message)
    }
}

/// Finds out why a version is not reported. `running` is what the pods of the operator run, if that is
/// known.
pub fn diagnose(undone: &Undone, running: &[Running]) -> Diagnosis {
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

fn image(undone: &Undone, running: &[Running]) -> (Mismatch, String) {
    let to = &undone.to;
    let Some(from) = &undone.from else {
        let new = running.iter().find(|it| it.is(to));
        let message = match new {
            Some(new) => format!(
                "nothing is reported under this name, although pod {}/{} runs the image: this build of the operator does not report it",
                new.namespace, new.pod
            ),
            None => "nothing is reported under this name: the operator of the release before does not know it, and the new one does not run yet".to_owned(),
        };
        return (Mismatch::NotReported, message);
    };
    if from.contains(PLACEHOLDER) {
        return (
            Mismatch::NotBuilt,
            "a placeholder is reported: the operator was not built as part of a release, or its Deployment lacks the flag or variable that tells the image".to_owned(),
        );
    }
    let (Ok(old), new) = (from.parse::<Reference>(), to.parse::<Reference>().ok()) else {
        return (
            Mismatch::NoImage,
            "what is reported is no pull specification".to_owned(),
        );
    };
    let wanted = new.as_ref().and_then(Reference::digest);
    if wanted.is_none() {
        return (
            Mismatch::WantedTagForm,
            "the manifest wants an image by tag, and is compared to the letter; a release names images by digest".to_owned(),
        );
    }
    if old.digest().is_some() && old.digest() == wanted {
        return (
            Mismatch::OtherPlace,
            format!(
                "it is the same image under another name ({} instead of {}): the names are compared to the letter, so that this never ends; rewrite the release (medley release mirror) or the operator's flag",
                old.name(),
                new.map(|it| it.name()).unwrap_or_default()
            ),
        );
    }
    if old.digest().is_none() {
        return (
            Mismatch::TagForm,
            "it is reported by tag, where the manifest wants a digest: the names are compared to the letter, so that this never ends".to_owned(),
        );
    }
    let stale = running.iter().find(|it| it.is(from));
    if let (Some(stale), true) = (stale, running.iter().any(|it| it.is(to))) {
        return (
            Mismatch::StalePod,
            format!(
                "the new image runs, but pod {}/{} still has the one before and may be who reports",
                stale.namespace, stale.pod
            ),
        );
    }
    (
        Mismatch::OtherImage,
        "the operator has not finished with the new image".to_owned(),
    )
}
