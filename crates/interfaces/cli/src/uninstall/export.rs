//! Exports policies, plans and their history to a file, as JSON lines.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::{Api, Client};
use manifests::uninstall::{InstalledState, ObjectRef};
use runtime::Absent as _;
use serde_json::{Value, json};

use super::gather::customs;
use crate::output::plural;
use crate::read::api_error;
use crate::redact::{self, Removed};

/// The first line of an export.
const FORMAT: &str = "medley-export/v1";

/// Writes the export; returns a remark about it. Objects of an earlier export that are gone by now are kept.
pub(super) async fn export(
    client: &Client,
    state: &InstalledState,
    path: &Path,
) -> anyhow::Result<String> {
    let what = || format!("exporting to {}", path.display());
    let mut objects = existing(path).with_context(what)?;
    let mut removed = Removed::default();
    let mut current = customs(client).await?;
    for entry in &state.history {
        let namespace = entry.namespace.as_deref().unwrap_or_default();
        let api: Api<ControllerRevision> = Api::namespaced(client.clone(), namespace);
        let found = api.get(&entry.name).await.not_found_as_none();
        let found = found.map_err(|error| api_error(error).context(format!("reading {entry}")))?;
        if let Some(found) = found {
            current.push(serde_json::to_value(found).with_context(what)?);
        }
    }
    for mut object in current {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        redact::object(&mut object, &kind, &mut removed);
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        objects.insert(ObjectRef::of(&object).to_string(), object);
    }
    write(path, objects.values()).with_context(what)?;
    let (count, hidden) = (objects.len(), removed.total());
    Ok(format!(
        "{}: {count} object{} exported, {hidden} values redacted",
        path.display(),
        plural(count)
    ))
}

/// The objects of an earlier export.
fn existing(path: &Path) -> anyhow::Result<BTreeMap<String, Value>> {
    let meta = match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        other => other?,
    };
    if !meta.is_file() {
        bail!("it is not a regular file");
    }
    let text = std::fs::read_to_string(path)?;
    let mut lines = text.lines();
    let header: Value = match lines.next() {
        None => return Ok(BTreeMap::new()),
        Some(line) => serde_json::from_str(line).unwrap_or_default(),
    };
    if header["format"] != FORMAT {
        bail!("the file exists and is no export of medley; name another one");
    }
    let objects = lines.map(|line| {
        let object: Value = serde_json::from_str(line)?;
        Ok((ObjectRef::of(&object).to_string(), object))
    });
    objects.collect()
}

/// Replaces the file as a whole, so that an interrupted run leaves the earlier one.
fn write<'a>(path: &Path, objects: impl Iterator<Item = &'a Value>) -> anyhow::Result<()> {
    let folder = path.parent().filter(|it| *it != Path::new(""));
    let folder = folder.unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".medley-export-")
        .tempfile_in(folder)?;
    writeln!(file, "{}", json!({ "format": FORMAT }))?;
    for object in objects {
        writeln!(file, "{object}")?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> Value {
        json!({ "apiVersion": "v1", "kind": "K", "metadata": { "name": name } })
    }

    #[test]
    fn export_is_read_back_and_completed() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("export.jsonl");
        assert!(existing(&path)?.is_empty());
        write(&path, [object("a"), object("b")].iter())?;
        let mut found = existing(&path)?;
        assert_eq!(found.len(), 2);
        found.insert("K c".to_owned(), object("c"));
        write(&path, found.values())?;
        assert_eq!(existing(&path)?.len(), 3);
        Ok(())
    }

    #[test]
    fn other_files_are_not_overwritten() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("notes.txt");
        std::fs::write(&path, "mine\n")?;
        let error = existing(&path).unwrap_err().to_string();
        assert!(error.contains("no export of medley"), "{error}");
        let error = existing(folder.path()).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
        Ok(())
    }
}
