//! `medley images verify`: whether the disks in use are for their architectures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use api::golden::Verification;
use api::ssp::GOLDEN_NAMESPACE;
use clap::Args;
use cluster_view::coverage::CoverageObjects;
use cluster_view::images::ImageObjects;
use golden_images::verify::{Check, Outcome, Question, Step, Verdict, checks, judge};
use governance::user_patches::list_valid_names;
use importer::{Request, verify};
use oci::{Client, Keyring, error_chain};
use platform::{Source, known_architecture};
use serde_json::json;

use super::objects::read;
use super::registry::{RegistryArguments, use_network_of};
use crate::cluster::ClusterArguments;
use crate::output::{OutputArguments, remark, short_digest, table};
use crate::process;
use crate::read::bytes;

/// Verify that the disks in use are for their architectures.
///
/// Compares, for each image and architecture, the digest that was imported with the registry: whether it has a manifest
/// for the architecture, whether the config of that says so, too, and whether the import selected it. Works whichever
/// operator imports, and changes nothing. The exit code is 1 if a disk is for another architecture.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Name of the image: of its DataSource, with or without the architecture suffix.
    /// [default: all]
    name: Option<String>,

    /// Architecture of the image.
    /// [default: all]
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,

    /// Also download each disk, and check which architectures it boots on. Takes space for one disk at a time in $TMPDIR.
    #[arg(long)]
    contents: bool,

    /// Do not download disks larger than this.
    #[arg(long, value_name = "LIMIT", value_parser = bytes, default_value = "64Gi")]
    #[arg(requires = "contents")]
    max_size: u64,

    /// Namespace of the images.
    #[arg(short, long, value_name = "NAME", default_value = GOLDEN_NAMESPACE)]
    namespace: String,

    /// Verify the images of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    #[command(flatten)]
    output: OutputArguments,

    #[command(flatten)]
    registry: RegistryArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// A verified disk.
struct Verified {
    check: Check,
    verdict: Verdict,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let all = process::build_runtime()?.block_on(arguments.verify())?;
    let reported: Vec<Verification> = all
        .iter()
        .map(|it| it.check.reported(&it.verdict))
        .collect();
    let value = json!({ "kind": "List", "items": reported });
    arguments.output.print(&value, || render(&all))?;
    let mismatches = all
        .iter()
        .filter(|it| it.verdict.outcome == Outcome::Mismatch);
    match mismatches.count() {
        0 => Ok(()),
        1 => bail!("1 of {} disks is for another architecture", all.len()),
        count => bail!("{count} of {} disks are for other architectures", all.len()),
    }
}

impl Arguments {
    async fn verify(&self) -> anyhow::Result<Vec<Verified>> {
        let cluster = self.cluster.client().await?;
        let namespace = (!self.all_namespaces).then_some(self.namespace.as_str());
        let objects = read(&cluster, namespace).await?;
        let nodes = CoverageObjects::read(&cluster, &objects).await?;
        let nodes = nodes.architectures.workload.keys().cloned().collect();
        let selected = self.selected(&objects, &nodes)?;
        let registries = self.registry.open()?;
        use_network_of(&cluster, &registries).await?;
        let mut all = Vec::new();
        // The registry is asked once about each digest; its documents are cached.
        let mut keyrings: BTreeMap<String, Arc<Keyring>> = BTreeMap::new();
        for check in selected {
            let verdict = match &check.step {
                Step::Decided(verdict) => verdict.clone(),
                Step::Ask(question) => self.ask(&registries, &mut keyrings, question).await?,
            };
            let verdict = check.with_recorded_contents(verdict);
            all.push(Verified { check, verdict });
        }
        Ok(all)
    }

    fn selected(
        &self,
        objects: &ImageObjects,
        nodes: &BTreeSet<String>,
    ) -> anyhow::Result<Vec<Check>> {
        let mut all = checks(&objects.inputs(), nodes);
        if let Some(name) = &self.name {
            let names: BTreeSet<String> = all.iter().map(|it| it.image.clone()).collect();
            all.retain(|it| it.image == *name || it.data_source == *name);
            if all.is_empty() {
                let names: Vec<String> = names.into_iter().collect();
                bail!("there is no image {name}; {}", list_valid_names(&names));
            }
        }
        if let Some(wanted) = &self.arch {
            let there: BTreeSet<String> = all.iter().map(|it| it.architecture.clone()).collect();
            let known = known_architecture(wanted).unwrap_or(wanted);
            all.retain(|it| it.architecture == known);
            if all.is_empty() {
                let there: Vec<String> = there.into_iter().collect();
                bail!(
                    "--arch {wanted}: no image has it; {}",
                    list_valid_names(&there)
                );
            }
        }
        Ok(all)
    }

    async fn ask(
        &self,
        registries: &Client,
        keyrings: &mut BTreeMap<String, Arc<Keyring>>,
        question: &Question,
    ) -> anyhow::Result<Verdict> {
        let url = &question.query.url;
        let source: Source = url.parse().with_context(|| format!("reading {url}"))?;
        let host = source.host().unwrap_or_default();
        let keyring = if let Some(keyring) = keyrings.get(&host) {
            Arc::clone(keyring)
        } else {
            let keyring = self.registry.keyring_for(&source)?;
            keyrings.insert(host, Arc::clone(&keyring));
            keyring
        };
        let answer = verify::ask(registries, &keyring, &source, question).await;
        let verdict = judge(question, &answer);
        if !self.contents || verdict.outcome != Outcome::Verified {
            return Ok(verdict);
        }
        let architecture = &question.architecture;
        remark(&format!(
            "Downloading the disk of {url} for {architecture}..."
        ));
        let found = self.boots_on(registries, keyring, &source, question).await;
        let found = found.as_ref().map_err(String::as_str);
        Ok(verdict.with_contents(architecture, found))
    }

    /// The architectures that the disk at the registry boots on, or why they are unknown.
    async fn boots_on(
        &self,
        registries: &Client,
        keyring: Arc<Keyring>,
        source: &Source,
        question: &Question,
    ) -> Result<BTreeSet<String>, String> {
        let pinned = verify::imported(source, &question.digest).map_err(|it| it.message)?;
        let folder = tempfile::tempdir().map_err(|error| error_chain(&error))?;
        let target = folder.path().join("disk.img");
        let architecture = &question.architecture;
        let mut request = Request::new(pinned, registries.clone(), architecture, target.clone());
        request.keyring = keyring;
        request.limit = Some(self.max_size);
        // The import would fail, and not say what was found.
        request.sniff = false;
        let stop = process::stop_signal().map_err(|error| error.to_string())?;
        let imported = importer::import(request, (), stop).await;
        imported.map_err(|error| error_chain(&error))?;
        importer::boots_on(&target).map_err(|error| error_chain(&error))
    }
}

fn render(all: &[Verified]) -> String {
    if all.is_empty() {
        return "No images found.\n".to_owned();
    }
    let rows = all.iter().map(|Verified { check, verdict }| {
        [
            check.image.clone(),
            check.architecture.clone(),
            verdict.outcome.to_string(),
            check
                .digest
                .as_deref()
                .map(short_digest)
                .unwrap_or_default(),
            verdict.reason.to_owned(),
        ]
    });
    let mut text = table(
        &["IMAGE", "ARCHITECTURE", "RESULT", "DIGEST", "REASON"],
        rows,
    );
    for (outcome, title) in [
        (Outcome::Mismatch, "Mismatch"),
        (Outcome::NotVerifiable, "Not verifiable"),
    ] {
        let found = all.iter().filter(|it| it.verdict.outcome == outcome);
        let lines: Vec<String> = found
            .map(|it| format!("{}: {}", it.check.data_source, it.verdict.message))
            .collect();
        if !lines.is_empty() {
            text.push_str(&crate::output::section(title, &lines));
        }
    }
    text
}
