//! Where a profile comes from.

use std::path::PathBuf;

use ::governance::profile::data::{Compiled, DataProfile, Names, compile, read};
use anyhow::{Context as _, anyhow, bail, ensure};
use api::profile::{Finding, PlatformProfile};
use clap::Args;
use kube::ResourceExt as _;
use oci::{Freshness, Image};
use platform::Source;
use serde_json::Value;

use crate::images::registry::RegistryArguments;

/// The media type of a profile in an image.
pub(super) const MEDIA_TYPE: &str = "application/vnd.medley.platformprofile.v1alpha1+yaml";
/// Size limit of a profile: an object of the API server has at most 1.5 MiB.
const MAX_BYTES: u64 = 3 << 19;

/// A profile.
#[derive(Debug, Args)]
pub(super) struct ProfileArguments {
    /// Profile: a file with a PlatformProfile, or an image that contains one: docker://quay.io/x/y:tag,
    /// oci-archive:FILE[:NAME] or oci:FOLDER[:NAME].
    #[arg(value_name = "FILE|IMAGE")]
    pub(super) profile: String,

    #[command(flatten)]
    registry: RegistryArguments,
}

impl ProfileArguments {
    /// The text of the profile.
    pub(super) async fn text(&self) -> anyhow::Result<String> {
        let image = ["docker://", "oci-archive:", "oci:"];
        if image.iter().any(|scheme| self.profile.starts_with(scheme)) {
            return self.of_image().await;
        }
        crate::read::file(&PathBuf::from(&self.profile))
    }

    async fn of_image(&self) -> anyhow::Result<String> {
        let name = &self.profile;
        let source: Source = name.parse().map_err(|error| anyhow!("{error}"))?;
        let what = || format!("reading the profile in {name}");
        let client = self.registry.client(&source)?;
        let image = Image::open(&source, &client, self.registry.keyring_for(&source)?)
            .await
            .with_context(what)?;
        let manifest = image.resolve(Freshness::Now).await.with_context(what)?;
        let manifest: Value = serde_json::from_slice(&manifest.bytes).with_context(what)?;
        let layer = manifest["layers"][0].clone();
        ensure!(
            layer["mediaType"] == MEDIA_TYPE,
            "{}: the first layer is of media type {}; {MEDIA_TYPE} is needed, as `medley profile pack` writes it",
            what(),
            layer["mediaType"]
        );
        let size = layer["size"].as_u64().unwrap_or(u64::MAX);
        ensure!(
            size <= MAX_BYTES,
            "{}: it has {size} bytes, and at most {MAX_BYTES} are accepted",
            what()
        );
        let layer = serde_json::from_value(layer).with_context(what)?;
        let content = image.document(&layer).await.with_context(what)?;
        String::from_utf8(content.bytes.to_vec()).with_context(what)
    }

    /// The profile with what the static check found. Fails only if it cannot be read.
    pub(super) async fn check(&self) -> anyhow::Result<Checked> {
        let text = self.text().await?;
        Ok(match read::read(&text) {
            Err(findings) => Checked {
                object: None,
                compiled: Compiled {
                    profile: None,
                    findings,
                },
                text,
            },
            Ok(object) => {
                let mut names = Names::default();
                let compiled = compile(&object.name_any(), &object.spec, &mut names);
                Checked {
                    object: Some(object),
                    compiled,
                    text,
                }
            }
        })
    }

    /// The profile, which must not have errors.
    pub(super) async fn compiled(&self) -> anyhow::Result<(PlatformProfile, DataProfile)> {
        let checked = self.check().await?;
        let errors: Vec<&Finding> = checked
            .compiled
            .findings
            .iter()
            .filter(|it| it.error)
            .collect();
        if let [first, others @ ..] = errors.as_slice() {
            let more = match others.len() {
                0 => String::new(),
                more => format!(" (and {more} more; `medley profile lint` lists them)"),
            };
            bail!("{}: {}{more}", self.profile, line(first));
        }
        let unusable = || anyhow!("{}: the profile cannot be used", self.profile);
        let object = checked.object.ok_or_else(unusable)?;
        Ok((object, checked.compiled.profile.ok_or_else(unusable)?))
    }
}

/// A profile and what the static check found.
pub(super) struct Checked {
    pub(super) object: Option<PlatformProfile>,
    pub(super) compiled: Compiled,
    pub(super) text: String,
}

/// A finding in a line.
pub(super) fn line(finding: &Finding) -> String {
    if finding.path.is_empty() {
        finding.message.clone()
    } else {
        format!("{}: {}", finding.path, finding.message)
    }
}
