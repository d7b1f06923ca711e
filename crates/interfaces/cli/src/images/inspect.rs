//! `medley image inspect`: the platforms of an image, and the one a node would pull.

mod chosen;

use std::fmt::Write as _;

use anyhow::Context as _;
use clap::Args;
use indicatif::BinaryBytes;
use oci::Image;
use oci::resolve::{self, Details, Entry, Inspection, inspect, platforms, seek};
use platform::windows::Isolation;
use platform::{Matcher, Platform, Source};
use serde_json::json;

use super::registry::RegistryArguments;
use crate::output::{OutputArguments, table};
use crate::process;
use chosen::Chosen;

/// Show the platforms of an image, and the one a node would pull.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Image to inspect: quay.io/x/y:tag or docker://..., oci-archive:FILE[:NAME] or
    /// oci:FOLDER[:NAME].
    #[arg(value_name = "REF")]
    image: Source,

    /// Also show the size, creation time and labels of each image, for two more requests per image.
    #[arg(long)]
    details: bool,

    /// Show which image a node of this platform would pull, and why no other; fail if it would pull
    /// none. Examples: linux/arm64, linux/amd64/v3, windows(10.0.20348)/amd64.
    #[arg(long, value_name = "PLATFORM")]
    platform: Option<Platform>,

    /// With --platform: assume a RuntimeClass whose handler runs Windows containers under Hyper-V.
    #[arg(long, requires = "platform")]
    hyperv: bool,

    #[command(flatten)]
    output: OutputArguments,

    #[command(flatten)]
    registry: RegistryArguments,
}

impl Arguments {
    /// The containerd matcher of the node, with --platform.
    fn matcher(&self) -> Option<Matcher> {
        let isolation = if self.hyperv {
            Isolation::HyperV
        } else {
            Isolation::Process
        };
        let platform = self.platform.as_ref()?;
        Some(Matcher::isolated(platform, isolation))
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let client = arguments.registry.client(&arguments.image)?;
    let keyring = arguments.registry.keyring_for(&arguments.image)?;
    let name = arguments.image.to_string();
    let (inspection, chosen) = process::build_runtime()?.block_on(async {
        let image = Image::open(&arguments.image, &client, keyring).await?;
        let inspection = if arguments.details {
            inspect(&image, &name).await?
        } else {
            platforms(&image, &name).await?
        };
        let chosen = match arguments.matcher() {
            Some(matcher) => {
                let sought = seek(&image, &name, matcher.clone()).await?;
                Some(Chosen::new(&matcher, &sought, &inspection))
            }
            None => None,
        };
        Ok::<_, resolve::Error>((inspection, chosen))
    })?;
    let mut value = serde_json::to_value(&inspection).context("serializing the result")?;
    if let Some(chosen) = &chosen {
        value["chosen"] = json!(chosen);
    }
    arguments.output.print(&value, || {
        let chosen = chosen.as_ref().map(Chosen::render);
        render(&inspection) + &chosen.unwrap_or_default()
    })?;
    chosen.map_or(Ok(()), |chosen| chosen.outcome(&printable(&name)))
}

fn render(inspection: &Inspection) -> String {
    let mut text = format!("Image:  {}\n", printable(&inspection.image));
    let _ = writeln!(text, "Digest: {}", inspection.digest);
    let kind = if inspection.is_index {
        "index, from which an architecture is chosen"
    } else {
        "single manifest, not an index"
    };
    let _ = writeln!(text, "Kind:   {kind}\n");
    if inspection.platforms.is_empty() {
        text.push_str("The index contains no image.\n");
    } else {
        // Columns that would be empty in every row are left out.
        let detailed = inspection.platforms.iter().any(|it| it.details.is_some());
        let mut headers = vec!["PLATFORM", "DIGEST"];
        if detailed {
            headers.extend(["SIZE", "LAYERS", "CREATED", "LABELS"]);
        }
        let rows = inspection.platforms.iter().map(|it| row(it, detailed));
        text.push_str(&table(&headers, rows));
    }
    if inspection.skipped > 0 {
        let _ = writeln!(
            text,
            "\n{} more entries are attestations or artifacts.",
            inspection.skipped
        );
    }
    if !inspection.complete {
        text.push_str("\nThe list may be incomplete: entries were missing, or beyond a limit.\n");
    }
    for entry in &inspection.platforms {
        if let Some(found) = entry
            .details
            .as_ref()
            .and_then(|it| it.contradiction.as_ref())
        {
            let _ = writeln!(
                text,
                "\n{} is for {} according to its config.",
                printable(&entry.platform.to_string()),
                printable(found)
            );
        }
    }
    text
}

fn row(entry: &Entry, detailed: bool) -> Vec<String> {
    let mut row = vec![
        printable(&entry.platform.to_string()),
        entry.digest.to_string(),
    ];
    if detailed {
        row.extend(entry.details.as_ref().map(more).unwrap_or_default());
    }
    row
}

fn more(details: &Details) -> [String; 4] {
    let labels = details.labels.iter();
    let labels: Vec<String> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let size = details.size.map(|size| BinaryBytes(size).to_string());
    [
        size.unwrap_or_default(),
        details.layers.to_string(),
        printable(details.created.as_deref().unwrap_or_default()),
        printable(&labels.join(",")),
    ]
}

/// Text from third parties, made safe for a terminal and a table row.
pub(crate) fn printable(text: &str) -> String {
    const MAX_CHARS: usize = 160;
    let mut out: String = text
        .chars()
        // An image label may hold escape sequences that rewrite the screen or the clipboard of the
        // terminal.
        .filter(|c| !c.is_control())
        .take(MAX_CHARS)
        .collect();
    if text.chars().count() > MAX_CHARS {
        out.push_str("...");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn third_party_text_is_escaped_for_terminals() {
        assert_eq!(printable("a\u{1b}[2Jb\nc"), "a[2Jbc");
        assert_eq!(printable(&"x".repeat(200)).len(), 163);
    }
}
