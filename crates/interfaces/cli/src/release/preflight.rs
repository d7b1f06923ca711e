//! `medley release preflight`: whether every image of a release exists for all architectures.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use ::release_migration::preflight::{Answer, Checked, Fitness, Preflight, judge};
use anyhow::{Context as _, bail, ensure};
use clap::Args;
use futures::{StreamExt as _, stream};
use importer::{Inspection, platforms};
use oci::{Client, Image, Keyring};
use platform::{Source, known_architecture};

use super::source::PayloadArgument;
use crate::governance::output::{Data, remark, table};
use crate::images::inspect::printable;
use crate::{exit, process};

/// Concurrent image lookups.
const CONCURRENT_LOOKUPS: usize = 8;

/// Name of the release image itself in the output.
const ITSELF: &str = "(release)";

/// Prove that every image of a release exists for the given architectures, before a cluster
/// migrates to multi-arch.
///
/// Reads the index of each image, and pulls nothing. The exit code is 1 if anything is missing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  medley release preflight quay.io/x/release:4.18.0-multi --arch arm64,s390x
  medley release preflight release --arch arm64 --except machine-os-images -o json")]
pub(super) struct Arguments {
    #[command(flatten)]
    payload: PayloadArgument,

    /// The required architectures, such as arm64,s390x. Can be repeated.
    #[arg(long, value_name = "ARCH", value_delimiter = ',', required = true)]
    arch: Vec<String>,

    /// An image to ignore, by its name in the release. Can be repeated.
    #[arg(long, value_name = "NAME")]
    except: Vec<String>,

    /// Show all images, not only those with problems.
    #[arg(long)]
    all: bool,

    /// Output format; a table by default.
    #[arg(short, long, value_enum)]
    output: Option<Data>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let wanted = wanted(&arguments.arch)?;
    let preflight = process::build_runtime()?.block_on(preflight(arguments, &wanted))?;
    let text = match arguments.output {
        Some(form) => {
            let value = serde_json::to_value(&preflight).context("writing the result")?;
            form.write(&value)?
        }
        None => render(&preflight, arguments.all),
    };
    exit::print(&text)?;
    if !preflight.ready {
        bail!(
            "{} of {} images are not available for {}",
            preflight.bad(),
            preflight.images.len(),
            wanted.join(", ")
        );
    }
    Ok(())
}

/// Architectures under their usual names, without duplicates.
fn wanted(given: &[String]) -> anyhow::Result<Vec<String>> {
    let mut wanted = Vec::new();
    for arch in given {
        let Some(known) = known_architecture(arch) else {
            bail!(
                "--arch {arch:?} is not an architecture; expected some such as amd64, arm64, s390x, ppc64le or riscv64"
            );
        };
        if !wanted.iter().any(|it| it == known) {
            wanted.push(known.to_owned());
        }
    }
    Ok(wanted)
}

async fn preflight(arguments: &Arguments, wanted: &[String]) -> anyhow::Result<Preflight> {
    let found = arguments.payload.read().await?;
    let payload = found.payload()?;
    for warning in &payload.warnings {
        remark(&format!("warning: {warning}"));
    }
    let names: BTreeSet<&str> = payload.images.images().map(|(name, _)| name).collect();
    for name in &arguments.except {
        ensure!(
            names.contains(name.as_str()),
            "--except {name}: {} has no image of this name",
            found.name
        );
    }
    let registry = arguments.payload.registry();
    let (client, keyring) = (registry.open()?, registry.keyring()?);
    let asked = stream::iter(payload.images.images().map(|(name, image)| {
        let (client, keyring) = (&client, Arc::clone(&keyring));
        async move {
            if arguments.except.iter().any(|it| it == name) {
                let mut checked = judge(name, image, wanted, None, Answer::Index(Vec::new()));
                checked.fitness = Fitness::Excepted;
                return checked;
            }
            let answer = ask(image, client, keyring).await;
            checked(name, image, wanted, answer)
        }
    }));
    let mut images: Vec<Checked> = asked.buffer_unordered(CONCURRENT_LOOKUPS).collect().await;
    // The release image has to run there as well: the cluster version operator runs from it.
    if let Some(image) = &found.image {
        let answer = platforms(image, &found.name).await.map_err(error_chain);
        images.push(checked(ITSELF, &found.name, wanted, answer));
    }
    Ok(Preflight::of(wanted, images))
}

async fn ask(image: &str, client: &Client, keyring: Arc<Keyring>) -> Result<Inspection, String> {
    let source: Source = image.parse().map_err(error_chain)?;
    let opened = Image::open(&source, client, keyring)
        .await
        .map_err(error_chain)?;
    platforms(&opened, image).await.map_err(error_chain)
}

/// An error with its sources, on one line.
fn error_chain(error: impl std::error::Error + Send + Sync + 'static) -> String {
    format!("{:#}", anyhow::Error::new(error))
}

fn checked(
    name: &str,
    image: &str,
    wanted: &[String],
    answer: Result<Inspection, String>,
) -> Checked {
    match answer {
        Err(error) => judge(name, image, wanted, None, Answer::Error(error)),
        Ok(found) => {
            let all = found.platforms.into_iter().map(|it| it.platform);
            let mut all = all.peekable();
            let answer = if found.is_index {
                Answer::Index(all.collect())
            } else {
                Answer::Single(all.next())
            };
            judge(name, image, wanted, Some(found.digest), answer)
        }
    }
}

fn render(preflight: &Preflight, all: bool) -> String {
    let shown = preflight
        .images
        .iter()
        .filter(|it| all || !it.fitness.is_good());
    let rows: Vec<_> = shown
        .map(|it| {
            let platforms: Vec<String> = it.platforms.iter().map(ToString::to_string).collect();
            let about = match &it.fitness {
                Fitness::Unknown { error } => printable(error),
                _ => printable(&platforms.join(",")),
            };
            [
                printable(&it.name),
                it.fitness.word().to_owned(),
                it.fitness.missing().join(","),
                about,
            ]
        })
        .collect();
    let mut text = String::new();
    if !rows.is_empty() {
        let _ = writeln!(
            text,
            "{}",
            table(["IMAGE", "VERDICT", "MISSING", "PLATFORMS"], rows)
        );
    }
    let total = preflight.images.len();
    let _ = writeln!(
        text,
        "{} of {total} images are available for {}",
        total - preflight.bad(),
        preflight.wanted.join(", ")
    );
    let common = preflight.common();
    let _ = match common.as_slice() {
        [] => writeln!(text, "no architecture has all images"),
        _ => writeln!(text, "all images are available for {}", common.join(", ")),
    };
    text
}
