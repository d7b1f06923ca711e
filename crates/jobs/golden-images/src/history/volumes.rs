//! The history of a DataSource whose imports CDI manages, from the volumes and snapshots that CDI keeps.
//!
//! CDI records no history. It keeps the last imports of a DataImportCron (`spec.importsToKeep`), labels them with the
//! DataImportCron, names them by the first digits of the digest, and annotates when each was last used.

#[cfg(test)]
mod tests;

use api::cdi::{DataImportCron, DataVolume, annotations, labels};
use api::golden::names;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery::time::format_time;

use super::Entry;
use crate::action::{annotation, label, name_of};
use crate::names::volume;

/// On a PVC that CDI imports into: the URL, with the digest.
pub(crate) const ENDPOINT: &str = "cdi.kubevirt.io/storage.import.endpoint";
/// How many characters of a digest CDI puts into the name of a volume.
const SUFFIX: usize = 12;

/// A volume or snapshot in the namespace of a DataImportCron.
#[derive(Debug, Clone, Copy)]
pub struct Volume<'a> {
    /// Its metadata.
    pub metadata: &'a ObjectMeta,
    /// Whether it is a VolumeSnapshot, and not a PVC.
    pub is_snapshot: bool,
}

/// The versions that CDI keeps of a DataImportCron, newest first; `current` is the name of the volume that the
/// DataSource refers to. Volumes that are being imported, and those of Medley's own imports, are not among them.
pub fn kept<'a>(
    cron: &DataImportCron,
    volumes: impl Iterator<Item = Volume<'a>>,
    imports: &[DataVolume],
    current: Option<&str>,
) -> Vec<Entry> {
    let of = name_of(&cron.metadata);
    let mut found: Vec<(bool, Option<Timestamp>, Entry)> = Vec::new();
    for Volume {
        metadata,
        is_snapshot,
    } in volumes
    {
        let name = metadata.name.as_deref().unwrap_or_default();
        let is_own = metadata.namespace.as_deref() == Some(&of.namespace)
            && label(metadata, labels::DATA_IMPORT_CRON) == Some(&of.name)
            && annotation(metadata, names::DIGEST).is_none();
        let import = imports.iter().find(|it| {
            it.metadata.name.as_deref() == Some(name)
                && it.metadata.namespace.as_deref() == Some(&of.namespace)
        });
        let phase = import
            .and_then(|it| it.status.as_ref())
            .and_then(|it| it.phase.as_deref());
        let is_imported = import.is_none() || phase == Some("Succeeded");
        if !is_own || !is_imported && current != Some(name) {
            continue;
        }
        let Some(digest) = digest(cron, name, metadata, import) else {
            continue;
        };
        // The PVC that a snapshot was taken of is about to be deleted.
        if let Some(same) = found.iter_mut().find(|(_, _, it)| it.name == name) {
            if is_snapshot {
                "snapshot".clone_into(&mut same.2.format);
            }
            continue;
        }
        let created = metadata.creation_timestamp.as_ref().map(|it| it.0);
        let used = annotation(metadata, annotations::LAST_USE_TIME)
            .and_then(|text| text.parse::<Timestamp>().ok());
        let entry = Entry {
            digest,
            name: name.to_owned(),
            format: if is_snapshot { "snapshot" } else { "pvc" }.to_owned(),
            since: created.map(format_time).unwrap_or_default(),
            derived: true,
        };
        found.push((current == Some(name), used.or(created), entry));
    }
    // The version in use first, whatever its times are; names make the order total.
    found.sort_by(|one, other| {
        let order = |it: &(bool, Option<Timestamp>, Entry)| (it.0, it.1, it.2.name.clone());
        order(other).cmp(&order(one))
    });
    found.into_iter().map(|(_, _, entry)| entry).collect()
}

/// A recorded history after the versions of volumes that it does not have.
pub fn merged(kept: Vec<Entry>, recorded: Vec<Entry>) -> Vec<Entry> {
    let mut all = kept;
    all.retain(|entry| recorded.iter().all(|it| it.name != entry.name));
    all.extend(recorded);
    all
}

/// The digest of a volume, or its first digits; `None` if CDI would not have given it this name.
fn digest(
    cron: &DataImportCron,
    name: &str,
    metadata: &ObjectMeta,
    import: Option<&DataVolume>,
) -> Option<String> {
    let data_source = &cron.spec.managed_data_source;
    let fits = |digest: &&str| volume(data_source, digest).is_ok_and(|it| it == name);
    let status = cron.status.as_ref();
    let current = status.and_then(|it| it.current_imports.first());
    let registry = import
        .and_then(|it| it.spec.source.as_ref())
        .and_then(|it| it.registry.as_ref());
    let of_url = |url: &'_ str| url.rsplit_once('@').map(|(_, digest)| digest.to_owned());
    let known = [
        registry.and_then(|it| it.url.as_deref()).and_then(of_url),
        annotation(metadata, ENDPOINT).and_then(of_url),
        current.map(|it| it.digest.clone()),
        annotation(&cron.metadata, annotations::DESIRED_DIGEST).map(str::to_owned),
    ];
    let whole = known.iter().flatten().find(|digest| fits(&digest.as_str()));
    if let Some(whole) = whole {
        return Some(whole.clone());
    }
    let suffix = name.strip_prefix(data_source.as_str())?.strip_prefix('-')?;
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match suffix.split_once('-') {
        _ if suffix.len() != SUFFIX => None,
        None if is_hex(suffix) => Some(format!("sha256:{suffix}")),
        // The uid of a PVC: it has a hyphen after eight digits.
        Some((first, second)) if first.len() == 8 && is_hex(first) && is_hex(second) => {
            Some(format!("uid:{suffix}"))
        }
        _ => None,
    }
}
