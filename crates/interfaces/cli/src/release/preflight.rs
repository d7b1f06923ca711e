//! `medley release preflight`: whether every image of a release exists for all architectures.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use ::release_migration::preflight::{
    CheckedImage, ImageInspection, ImageVerdict, Preflight, judge,
};
use anyhow::{bail, ensure};
use clap::Args;
use futures::{StreamExt as _, stream};
use oci::resolve::{Inspection, platforms};
use oci::{Client, Image, Keyring, error_chain};
use platform::{Source, known_architecture};

use super::source::PayloadArgument;
use crate::images::inspect::printable;
use crate::output::{OutputArguments, remark, table};
use crate::process;

/// Concurrent image lookups.
// A release has well over a hundred images, mostly in one registry, which limits the rate of a
// client.
const CONCURRENT_LOOKUPS: usize = 8;

/// Name of the release image itself in the output.
const ITSELF: &str = "(release)";

/// Verify that every image of a release exists for the given architectures.
///
/// Run it before you migrate a cluster to multi-arch. Reads the index of each image without pulling
/// the image. The exit code is 1 if an image is missing.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    payload: PayloadArgument,

    /// Comma-separated architectures that the images must support, such as arm64,s390x. Can be
    /// repeated.
    #[arg(long, value_name = "ARCH", value_delimiter = ',', required = true)]
    arch: Vec<String>,

    /// Image to ignore, by its name in the release. Can be repeated.
    #[arg(long, value_name = "NAME")]
    except: Vec<String>,

    /// Show all images, not only those with problems.
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    output: OutputArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let wanted = wanted(&arguments.arch)?;
    let preflight = process::build_runtime()?.block_on(preflight(arguments, &wanted))?;
    arguments
        .output
        .print(&preflight, || render(&preflight, arguments.all))?;
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
                let mut checked = judge(
                    name,
                    image,
                    wanted,
                    None,
                    ImageInspection::Index(Vec::new()),
                );
                checked.fitness = ImageVerdict::Excepted;
                return checked;
            }
            let answer = ask(image, client, keyring).await;
            checked(name, image, wanted, answer)
        }
    }));
    let mut images: Vec<CheckedImage> = asked.buffer_unordered(CONCURRENT_LOOKUPS).collect().await;
    // The release image has to run there as well: the cluster version operator runs from it.
    if let Some(image) = &found.image {
        let answer = platforms(image, &found.name).await;
        let answer = answer.map_err(|error| error_chain(&error));
        images.push(checked(ITSELF, &found.name, wanted, answer));
    }
    Ok(Preflight::of(wanted, images))
}

async fn ask(image: &str, client: &Client, keyring: Arc<Keyring>) -> Result<Inspection, String> {
    let source: Source = image
        .parse()
        .map_err(|error: platform::SourceError| error_chain(&error))?;
    let opened = Image::open(&source, client, keyring).await;
    let opened = opened.map_err(|error| error_chain(&error))?;
    let found = platforms(&opened, image).await;
    found.map_err(|error| error_chain(&error))
}

fn checked(
    name: &str,
    image: &str,
    wanted: &[String],
    answer: Result<Inspection, String>,
) -> CheckedImage {
    match answer {
        Err(error) => judge(name, image, wanted, None, ImageInspection::Error(error)),
        Ok(found) => {
            let all = found.platforms.into_iter().map(|it| it.platform);
            let mut all = all.peekable();
            let answer = if found.is_index {
                ImageInspection::Index(all.collect())
            } else {
                ImageInspection::Single(all.next())
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
                ImageVerdict::Unknown { error } => printable(error),
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
        let headers = ["IMAGE", "VERDICT", "MISSING", "PLATFORMS"];
        let _ = writeln!(text, "{}", table(&headers, rows));
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
