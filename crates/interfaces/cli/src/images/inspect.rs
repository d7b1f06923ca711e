//! `medley image inspect`: the platforms that an image is there for, and which one a node would pull.

mod chosen;

use std::fmt::Write as _;

use anyhow::Context as _;
use clap::Args;
use importer::{Details, Entry, Inspection, inspect, platforms, seek};
use indicatif::BinaryBytes;
use oci::Image;
use platform::windows::Isolation;
use platform::{Matcher, Platform, Source};

use super::registry::RegistryArguments;
use crate::governance::output::{Data, table_of};
use crate::{exit, process};
use chosen::Chosen;

/// Show the platforms that an image is there for, and which one a node would pull.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The image: quay.io/x/y:tag or docker://..., oci-archive:FILE[:NAME] or oci:FOLDER[:NAME].
    #[arg(value_name = "REF")]
    image: Source,

    /// Tell also the size of each image, when it was made, and its labels. Two requests for each.
    #[arg(long)]
    details: bool,

    /// Tell which of its images a node of this platform would pull, and why no other: linux/arm64,
    /// linux/amd64/v3, windows(10.0.20348)/amd64. Ends with an error if it would pull none.
    #[arg(long, value_name = "PLATFORM")]
    platform: Option<Platform>,

    /// With --platform: as in a RuntimeClass whose handler runs containers of Windows under Hyper-V.
    #[arg(long, requires = "platform")]
    hyperv: bool,

    /// Form of the output; a table if absent.
    #[arg(short, long, value_enum)]
    output: Option<Data>,

    #[command(flatten)]
    registry: RegistryArguments,
}

impl Arguments {
    /// What a node pulls, if one is asked about.
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

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let client = arguments.registry.client(&arguments.image)?;
    let keyring = arguments.registry.keyring()?;
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
        Ok::<_, importer::Error>((inspection, chosen))
    })?;
    let text = if let Some(form) = arguments.output {
        let what = "writing the result";
        let mut value = serde_json::to_value(&inspection).context(what)?;
        if let Some(chosen) = &chosen {
            value["chosen"] = serde_json::to_value(chosen).context(what)?;
        }
        form.write(&value)?
    } else {
        let chosen = chosen.as_ref().map(Chosen::render);
        render(&inspection) + &chosen.unwrap_or_default()
    };
    exit::print(&text)?;
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
        text.push_str("There is no image in it.\n");
    } else {
        // Columns that would be empty in every line are left out.
        let detailed = inspection.platforms.iter().any(|it| it.details.is_some());
        let mut headers = vec!["PLATFORM", "DIGEST"];
        if detailed {
            headers.extend(["SIZE", "LAYERS", "CREATED", "LABELS"]);
        }
        let rows = inspection.platforms.iter().map(|it| row(it, detailed));
        text.push_str(&table_of(&headers, rows.collect()));
    }
    if inspection.skipped > 0 {
        let _ = writeln!(
            text,
            "\n{} more entries are attestations or artifacts.",
            inspection.skipped
        );
    }
    if !inspection.complete {
        text.push_str("\nThere may be more: something was missing, or too much.\n");
    }
    for entry in &inspection.platforms {
        if let Some(found) = entry
            .details
            .as_ref()
            .and_then(|it| it.contradiction.as_ref())
        {
            let _ = writeln!(
                text,
                "\n{} says in its config that it is for {}.",
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

/// What somebody else wrote, fit for a terminal and one line of a table.
pub(crate) fn printable(text: &str) -> String {
    const LONGEST: usize = 160;
    let mut out: String = text
        .chars()
        .filter(|c| !c.is_control())
        .take(LONGEST)
        .collect();
    if text.chars().count() > LONGEST {
        out.push_str("...");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_does_not_move_the_cursor() {
        assert_eq!(printable("a\u{1b}[2Jb\nc"), "a[2Jbc");
        assert_eq!(printable(&"x".repeat(200)).len(), 163);
    }
}
