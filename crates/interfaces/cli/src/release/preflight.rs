//! `medley release preflight`: whether every image of a release is there for all architectures.

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

/// Images that are asked for at a time.
const AT_A_TIME: usize = 8;

/// What the image of the release itself is called.
const ITSELF: &str = "(release)";

/// Prove that every image of a release is there for the architectures that are wanted, before a cluster
/// becomes multi-arch.
///
/// An index is asked for each image, and nothing is pulled. The exit code is 1 if anything is missing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  medley release preflight quay.io/x/release:4.18.0-multi --arch arm64,s390x
  medley release preflight release --arch arm64 --except machine-os-images -o json")]
pub(super) struct Arguments {
    #[command(flatten)]
    payload: PayloadArgument,

    /// The architectures that are wanted, such as arm64,s390x. Can be given several times.
    #[arg(long, value_name = "ARCH", value_delimiter = ',', required = true)]
    arch: Vec<String>,

    /// An image, as the release calls it, for which it does not matter. Can be given several times.
    #[arg(long, value_name = "NAME")]
    except: Vec<String>,

    /// Show all images, and not only those that something is wrong with.
    #[arg(long)]
    all: bool,

    /// Form of the output; a table if absent.
    #[arg(short, long, value_enum)]
    output: Option<Data>,
}

/// Asks.
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
            "{} of {} images are not there for {}",
            preflight.bad(),
            preflight.images.len(),
            wanted.join(", ")
        );
    }
    Ok(())
}

/// Architectures, as everybody calls them, once each.
fn wanted(said: &[String]) -> anyhow::Result<Vec<String>> {
    let mut wanted = Vec::new();
    for arch in said {
        let Some(known) = known_architecture(arch) else {
            bail!(
                "--arch {arch:?} is no architecture; expected some such as amd64, arm64, s390x, ppc64le or riscv64"
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
            "--except {name}: {} has no image called so",
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
    let mut images: Vec<Checked> = asked.buffer_unordered(AT_A_TIME).collect().await;
    // The release has to run there as well: the one who applies it is in its image.
    if let Some(image) = &found.image {
        let answer = platforms(image, &found.name).await.map_err(told);
        images.push(checked(ITSELF, &found.name, wanted, answer));
    }
    Ok(Preflight::of(wanted, images))
}

async fn ask(image: &str, client: &Client, keyring: Arc<Keyring>) -> Result<Inspection, String> {
    let source: Source = image.parse().map_err(told)?;
    let opened = Image::open(&source, client, keyring).await.map_err(told)?;
    platforms(&opened, image).await.map_err(told)
}

/// An error with its reasons, in one line.
fn told(error: impl std::error::Error + Send + Sync + 'static) -> String {
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
        "{} of {total} images are there for {}",
        total - preflight.bad(),
        preflight.wanted.join(", ")
    );
    let common = preflight.common();
    let _ = match common.as_slice() {
        [] => writeln!(text, "all images together are there for nothing"),
        _ => writeln!(
            text,
            "all images together are there for {}",
            common.join(", ")
        ),
    };
    text
}
