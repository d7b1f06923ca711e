//! The image a node would pull, and why no other.

use std::fmt::Write as _;

use anyhow::bail;
use oci::resolve::{Inspection, SearchResult};
use platform::{Digest, Matcher, Why};
use serde::Serialize;

use super::printable;
use crate::output::table;

/// Match of the images of a name against a node's platform.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chosen {
    /// Platform of the node.
    wanted: String,
    /// Digest of the image that it pulls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pulled: Option<Digest>,
    /// Why that one, or why none.
    why: String,
    /// Why each other image does not match, or ranks lower.
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
    /// Ranks all images as the node's containerd would.
    pub(super) fn new(matcher: &Matcher, sought: &SearchResult, inspection: &Inspection) -> Self {
        let pulled = sought.found.as_ref().ok().map(|it| it.image.digest.clone());
        let why = match &sought.found {
            Ok(found) => why_text(found.why).to_owned(),
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
                    Ok(_) => "matches, but another is better".to_owned(),
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

    /// The result as text.
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
        text.push_str(&table(&["PLATFORM", "VERDICT", "WHY NOT"], rows));
        text
    }

    /// An error if the node pulls nothing, so that scripts notice.
    pub(super) fn outcome(&self, image: &str) -> anyhow::Result<()> {
        if self.pulled.is_none() {
            bail!("a node of {} cannot run any image of {image}", self.wanted);
        }
        Ok(())
    }
}

fn why_text(why: Why) -> &'static str {
    match why {
        Why::Stated => "its entry matches exactly",
        Why::Fallback => "it matches, and there is no closer match",
        Why::Config => "its entry has no platform, but its config matches",
        Why::OnlyOne => "the image has no index",
    }
}
