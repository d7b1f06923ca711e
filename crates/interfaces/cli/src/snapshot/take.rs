//! Reads a cluster into a file.

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::discovery::{Discovery, verbs};
use kube::{Api, Client};
use serde::Serialize;

use super::format::{FORMAT, Footer, Header, Line, Missing, VERSION};
use super::{filter, is_compressed};
use crate::read::{PAGE, resource_name};
use crate::redact::{self, Removed};

/// Counts of a snapshot.
#[derive(Debug)]
pub(super) struct Taken {
    path: PathBuf,
    footer: Footer,
    removed: Removed,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for missing in &self.footer.missing {
            writeln!(f, "not read: {}: {}", missing.resource, missing.reason)?;
        }
        write!(f, "{}", self.removed)?;
        writeln!(
            f,
            "{} objects in {path}, {} values redacted; start a copy with: medley up --from {path}",
            self.footer.objects,
            self.removed.total(),
            path = self.path.display(),
        )
    }
}

/// Reads all resources into a file, which appears only when complete.
pub(super) async fn take(client: &Client, path: &Path) -> anyhow::Result<Taken> {
    let what = || format!("writing the snapshot {}", path.display());
    // Snapshots reveal a lot about a cluster: readable by their owner only, and written under a
    // random name, where no other user could have planted a link. The partial file is removed on
    // errors.
    let partial = tempfile::Builder::new()
        .prefix(".medley-snapshot-")
        .tempfile_in(
            path.parent()
                .filter(|it| *it != Path::new(""))
                .unwrap_or_else(|| Path::new(".")),
        )
        .with_context(what)?;
    let file = partial.as_file().try_clone().with_context(what)?;
    let (footer, removed) = write(client, path, file).await?;
    // Renamed at the end: an interrupted snapshot leaves the previous one, and never half of a new
    // one.
    partial.persist(path).with_context(what)?;
    Ok(Taken {
        path: path.to_owned(),
        footer,
        removed,
    })
}

async fn write(client: &Client, path: &Path, file: File) -> anyhow::Result<(Footer, Removed)> {
    let what = || format!("writing the snapshot {}", path.display());
    let kubernetes = client
        .apiserver_version()
        .await
        .context("reading the version of the cluster")?
        .git_version;
    let file = BufWriter::new(file);
    let mut out: Box<dyn Write> = if is_compressed(path) {
        Box::new(GzEncoder::new(file, Compression::default()))
    } else {
        Box::new(file)
    };
    let header = Header {
        format: FORMAT.to_owned(),
        version: VERSION,
        taken: Timestamp::now(),
        kubernetes,
    };
    line(&mut out, &header).with_context(what)?;
    let mut footer = Footer::default();
    let mut removed = Removed::default();
    for resource in resources(client).await? {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        // Each kind is consistent in itself, at the revision of its first page; between kinds the
        // cluster goes on.
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = match api.list(&params).await {
                Ok(page) => page,
                Err(error) => {
                    // A kind that cannot be read does not end the snapshot: users rarely may list
                    // everything, and broken aggregated APIs are common in clusters that need help.
                    footer.missing.push(Missing {
                        resource: resource_name(&resource),
                        reason: redact::text("message", &reason(error)?, &mut removed),
                    });
                    break;
                }
            };
            for mut object in page.items {
                object.types.get_or_insert_with(|| kube::api::TypeMeta {
                    api_version: resource.api_version.clone(),
                    kind: resource.kind.clone(),
                });
                let mut object = serde_json::to_value(object).with_context(what)?;
                // Before it is written: nothing that has been in the file can be taken back.
                redact::object(&mut object, &resource.kind, &mut removed);
                line(&mut out, &Line::Object(object)).with_context(what)?;
                footer.objects += 1;
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
    }
    footer.redactions = removed.list();
    let end = Line::End(footer);
    line(&mut out, &end).with_context(what)?;
    out.flush().with_context(what)?;
    drop(out);
    let Line::End(footer) = end else {
        anyhow::bail!("the last line of a snapshot is its end");
    };
    Ok((footer, removed))
}

/// Every resource to list; CRDs and namespaces first, since a copy needs them first.
async fn resources(client: &Client) -> anyhow::Result<Vec<ApiResource>> {
    let discovery = Discovery::new(client.clone())
        .run()
        .await
        .context("reading the API discovery of the cluster")?;
    let mut resources: Vec<ApiResource> = discovery
        .groups()
        .flat_map(kube::discovery::ApiGroup::recommended_resources)
        .filter(|(_, capabilities)| capabilities.supports_operation(verbs::LIST))
        .map(|(resource, _)| resource)
        .filter(|resource| filter::is_kept(&resource.group, &resource.plural))
        .collect();
    resources.sort_by_key(|resource| {
        let rank = match (resource.group.as_str(), resource.plural.as_str()) {
            ("apiextensions.k8s.io", "customresourcedefinitions") => 0,
            ("", "namespaces") => 1,
            _ => 2,
        };
        (rank, resource.group.clone(), resource.plural.clone())
    });
    Ok(resources)
}

/// Why a resource cannot be listed. Errors of the API server are recorded; any other error aborts
/// the snapshot, which would otherwise be incomplete without a record of it.
fn reason(error: kube::Error) -> anyhow::Result<String> {
    match error {
        kube::Error::Api(status) => Ok(status.message.clone()),
        other => Err(anyhow::Error::new(other).context("reading the cluster")),
    }
}

fn line(out: &mut impl Write, value: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}
