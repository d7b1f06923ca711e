//! An installation as files: `cargo xtask generate` writes them to `deploy`.

mod argocd;
mod helm;
mod krew;
mod kustomize;
mod olm;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::{Error, Options, entries, rbac};

/// Prefix of the line that names the file of the following lines, for `cargo xtask generate`.
pub const BEGIN: &str = "# file: ";
/// Header of generated files whose comments begin with a hash.
const WRITTEN: &str =
    "# Written by `cargo xtask generate`; edit crates/interfaces/manifests instead.\n";

/// Texts by path.
type Files = BTreeMap<String, String>;

/// Every file of `deploy`, by relative path.
pub fn files() -> Result<BTreeMap<String, String>, Error> {
    let mut files = plain()?;
    files.extend(kustomize::files()?);
    files.extend(helm::files()?);
    files.extend(olm::files()?);
    files.extend(krew::files());
    files.extend(argocd::files()?);
    Ok(files)
}

/// Plain manifests, to pick from. Optional parts are in files of their own.
fn plain() -> Result<Files, Error> {
    let fill = Options::default().fill();
    let mut files: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for entry in entries(&fill)? {
        if !entry.file.is_empty() {
            files.entry(entry.file).or_default().extend(entry.objects);
        }
    }
    let file = "optional/cluster-operator.yaml".to_owned();
    files.insert(file, rbac::cluster_operator(&fill)?);
    let written = files.into_iter();
    written
        .map(|(path, objects)| Ok((path, documents(&objects)?)))
        .collect()
}

/// Objects in one file.
fn documents(objects: &[impl Serialize]) -> Result<String, Error> {
    let mut text = WRITTEN.to_owned();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&yaml(object)?);
    }
    Ok(text)
}

/// An object, with a final line break.
fn yaml(object: &impl Serialize) -> Result<String, Error> {
    Ok(ended(serde_saphyr::to_string(object)?))
}

/// The same, without folding long lines.
fn unfolded(object: &impl Serialize) -> Result<String, Error> {
    let options = serde_saphyr::ser_options! {
        folded_wrap_chars: usize::MAX,
    };
    let text = serde_saphyr::to_string_with_options(object, options)?;
    Ok(ended(text))
}

/// A text with a final line break.
fn ended(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
