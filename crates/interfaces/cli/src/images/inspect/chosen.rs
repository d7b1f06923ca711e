//! Which image a node would pull, and why no other.

use std::fmt::Write as _;

use anyhow::bail;
use importer::{Inspection, Sought};
use platform::{Digest, Matcher, Why};
use serde::Serialize;

use super::printable;
use crate::governance::output::table;

/// What becomes of the images under a name on a node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chosen {
    /// What the node is.
    wanted: String,
    /// The image that it pulls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pulled: Option<Digest>,
    /// Why that one, or why none.
    why: String,
    /// What is wrong with each, or that it is less good.
    entries: Vec<Judged>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Judged {
    platform: String,
    digest: Digest,
    pulled: bool,
    why: String,
}

impl Chosen {
    /// Judges all images by what a node pulls.
    pub(super) fn new(matcher: &Matcher, sought: &Sought, inspection: &Inspection) -> Self {
        let pulled = sought.found.as_ref().ok().map(|it| it.image.digest.clone());
        let why = match &sought.found {
            Ok(found) => told(found.why).to_owned(),
            Err(why) => why.to_string(),
        };
        let judged = inspection.platforms.iter().map(|entry| {
            let is_pulled = pulled.as_ref() == Some(&entry.digest);
            Judged {
                platform: entry.platform.to_string(),
                digest: entry.digest.clone(),
                pulled: is_pulled,
                why: match matcher.judge(&entry.platform) {
                    _ if is_pulled => String::new(),
                    Ok(_) => "would do, but another is better".to_owned(),
                    Err(unfit) => format!("is for {unfit}"),
                },
            }
        });
        Self {
            wanted: matcher.wanted().to_string(),
            entries: judged.collect(),
            pulled,
            why,
        }
    }

    /// The same for people.
    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        let what = match &self.pulled {
            Some(digest) => format!("pulls {digest}: {}", self.why),
            None => format!("pulls nothing: {}", printable(&self.why)),
        };
        let _ = writeln!(text, "\nA node of {} {what}\n", self.wanted);
        let rows = self.entries.iter().map(|entry| {
            let verdict = if entry.pulled { "pulled" } else { "not pulled" };
            let why = entry.why.clone();
            [printable(&entry.platform), verdict.to_owned(), why]
        });
        text.push_str(&table(["PLATFORM", "VERDICT", "WHY NOT"], rows.collect()));
        text
    }

    /// An error if the node pulls nothing, so that scripts notice.
    pub(super) fn outcome(&self, image: &str) -> anyhow::Result<()> {
        if self.pulled.is_none() {
            bail!("a node of {} finds nothing to run in {image}", self.wanted);
        }
        Ok(())
    }
}

fn told(why: Why) -> &'static str {
    match why {
        Why::Stated => "its entry says just that",
        Why::Fallback => "it will do, and nothing nearer is there",
        Why::Config => "its entry says nothing, but its config does",
        Why::OnlyOne => "there is no index, but this image",
    }
}
