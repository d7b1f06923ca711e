//! `medley release render`: builds a release from the manifests of its operators.

use std::path::{Path, PathBuf};

use ::release_migration::build::{OperatorFolder, Options, build};
use ::release_migration::lint;
use ::release_migration::payload::read_references;
use anyhow::{Context as _, bail};
use clap::Args;
use controllers::release::source::files_in;
use serde_json::json;

use super::output::TargetArguments;
use crate::output::remark;

/// Build a release from the manifests of its operators.
///
/// Replaces image placeholders and snapshot versions consistently: in the ClusterOperator, which
/// lists the versions that the operator must report, and in the flags and environment variables of
/// its Deployment.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Directory with one subdirectory per operator, named after the operator. It holds the
    /// operator's manifests, directly or in a subdirectory manifests, and a file image-references
    /// that lists its images.
    #[arg(long, value_name = "DIR")]
    operators: PathBuf,

    /// File with an ImageStream of the release's images.
    #[arg(long, value_name = "FILE")]
    images: PathBuf,

    /// Version of the release.
    #[arg(long, value_name = "VERSION")]
    name: String,

    /// Mark the release as multi-arch.
    #[arg(long)]
    multi_arch: bool,

    /// Keep the placeholders of images that are not in the ImageStream, instead of failing.
    #[arg(long)]
    allow_missing_images: bool,

    #[command(flatten)]
    target: TargetArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    arguments.target.check()?;
    let what = || format!("reading the images in {}", arguments.images.display());
    let text = std::fs::read_to_string(&arguments.images).with_context(what)?;
    let images = read_references(&text).with_context(what)?;
    let operators = operators(&arguments.operators)?;
    let options = Options {
        version: arguments.name.clone(),
        multi: arguments.multi_arch,
        allow_missing: arguments.allow_missing_images,
    };
    let built = build(&operators, &images, &options)?;
    let found = lint::lint(&built.files);
    arguments.target.write(&built.files)?;
    for warning in &built.warnings {
        remark(&format!("warning: {warning}"));
    }
    for it in &found {
        remark(&format!("{}: {}: {}", it.severity, it.file, it.message));
    }
    let folder = arguments.target.name();
    let value = json!({
        "name": arguments.name,
        "folder": folder,
        "operators": operators.iter().map(|it| &it.name).collect::<Vec<_>>(),
        "manifests": built.manifests,
        "images": built.images,
        "warnings": built.warnings,
        "findings": found,
    });
    arguments.target.print(&value, || {
        format!(
            "release {} with {} manifests of {} operators and {} images written to {folder}\n",
            arguments.name,
            built.manifests,
            operators.len(),
            built.images.len()
        )
    })
}

/// Every operator of a directory, by name.
fn operators(path: &Path) -> anyhow::Result<Vec<OperatorFolder>> {
    let what = || format!("reading the operators in {}", path.display());
    let mut operators = Vec::new();
    for entry in std::fs::read_dir(path).with_context(what)? {
        let entry = entry.with_context(what)?;
        let inner = entry.path();
        if !inner.is_dir() {
            continue;
        }
        let manifests = inner.join("manifests");
        let from = if manifests.is_dir() { manifests } else { inner };
        operators.push(OperatorFolder {
            name: entry.file_name().to_string_lossy().into_owned(),
            files: files_in(&from)?,
        });
    }
    if operators.is_empty() {
        bail!(
            "{} has no operators; expected a directory for each",
            path.display()
        );
    }
    operators.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(operators)
}
