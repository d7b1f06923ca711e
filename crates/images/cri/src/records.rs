//! The image records: one file, replaced atomically, so that it is always consistent.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use platform::{Descriptor, Digest, Platform};
use serde::{Deserialize, Serialize};

use crate::target::{Named, Target, name_of};

/// The format version of the file.
const VERSION: u32 = 1;

/// A complete image, for one handler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// The image id, unique among all images of the node, including those for other handlers.
    pub(crate) id: Digest,
    /// The handler it was pulled for, as given.
    pub(crate) handler: String,
    /// The requested platform.
    pub(crate) wanted: Platform,
    /// The annotations that influenced the choice.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
    /// The reference of the first pull.
    pub(crate) pulled_as: String,
    /// The user's spelling of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) user_specified: String,
    /// Its names with tags.
    pub(crate) tags: BTreeSet<String>,
    /// Its names with digests.
    pub(crate) digests: BTreeSet<String>,
    /// The digest the name resolved to.
    pub(crate) root: Digest,
    /// The digests of manifest, config and the indexes above them.
    pub(crate) documents: BTreeSet<Digest>,
    /// The manifest.
    pub(crate) manifest: Digest,
    /// The config.
    pub(crate) config: Digest,
    /// The platform of the image.
    pub(crate) platform: Platform,
    /// The layers, lowest first.
    pub(crate) layers: Vec<Descriptor>,
    /// The chain id of its snapshot.
    pub(crate) chain: Digest,
    /// The size of manifest, config and layers in bytes.
    pub(crate) size: u64,
    /// The user it runs as.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) user: String,
    /// When it was last pulled.
    pub(crate) pulled: Timestamp,
}

impl Record {
    /// All blobs that must stay while this record exists.
    pub(crate) fn blobs(&self) -> impl Iterator<Item = &Digest> {
        let layers = self.layers.iter().map(|layer| &layer.digest);
        self.documents.iter().chain(layers)
    }

    fn is_for(&self, target: &Target) -> bool {
        self.handler == target.handler && self.wanted == target.platform
    }

    /// All its names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.tags.iter().chain(&self.digests)
    }

    fn has_name(&self, name: &str) -> bool {
        self.tags.contains(name) || self.digests.contains(name)
    }
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    images: Vec<Record>,
}

/// All images in the store.
#[derive(Debug)]
pub(crate) struct Records {
    path: PathBuf,
    all: Vec<Record>,
}

impl Records {
    /// Reads the records; empty if there is no file.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let all = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
            Ok(bytes) => {
                let document: Document = serde_json::from_slice(&bytes)?;
                if document.version != VERSION {
                    return Err(io::Error::other(format!(
                        "it is of version {}, {VERSION} is expected; a later program wrote it",
                        document.version
                    )));
                }
                document.images
            }
        };
        Ok(Self {
            path: path.to_owned(),
            all,
        })
    }

    pub(crate) fn all(&self) -> &[Record] {
        &self.all
    }

    /// The image a request refers to. One given by id is found for any target, unless the request names
    /// a handler: the kubelet removes images by id alone.
    pub(crate) fn find(&self, named: &Named, target: Option<&Target>) -> Option<&Record> {
        let fits = |record: &&Record| {
            target
                .is_none_or(|target| target.handler.is_empty() || target.handler == record.handler)
        };
        match named {
            Named::Id(id) => {
                let by_id = self.all.iter().find(|record| record.id == *id);
                by_id.filter(fits)
            }
            Named::Reference(reference, start) => {
                let name = name_of(reference);
                let mut of_target = self.all.iter();
                let found = of_target.find(|record| {
                    target.is_some_and(|target| record.is_for(target)) && record.has_name(&name)
                });
                found.or_else(|| self.beginning(start.as_deref()?).filter(fits))
            }
            Named::Invalid => None,
        }
    }

    /// The image with an id prefix, if it is unique.
    fn beginning(&self, digits: &str) -> Option<&Record> {
        let is_it = |record: &&Record| record.id.hash().starts_with(digits);
        let mut found = self.all.iter().filter(is_it);
        match (found.next(), found.next()) {
            (Some(record), None) => Some(record),
            _ => None,
        }
    }

    /// Adds an image, or its new names to an existing one; returns its id.
    pub(crate) fn add(&mut self, mut new: Record) -> io::Result<Digest> {
        // If the file cannot be written, memory must not show an image that a restart would forget: kubelet would
        // have started containers from it.
        let before = self.all.clone();
        // A name refers to one image per target: it moves to the new image.
        for record in &mut self.all {
            if record.handler == new.handler && record.wanted == new.wanted {
                record.tags.retain(|tag| !new.tags.contains(tag));
            }
        }
        let same = self.all.iter_mut().find(|record| {
            record.handler == new.handler
                && record.wanted == new.wanted
                && record.config == new.config
                && record.manifest == new.manifest
        });
        // Same content for the same target: the names are added and the id stays, as
        // kubelet keys its garbage collection by id.
        let id = if let Some(record) = same {
            record.tags.append(&mut new.tags);
            record.digests.append(&mut new.digests);
            record.documents.append(&mut new.documents);
            record.pulled = new.pulled;
            record.id.clone()
        } else {
            new.id = self.id_for(&new);
            let id = new.id.clone();
            self.all.push(new);
            id
        };
        self.save().inspect_err(|_| self.all = before)?;
        Ok(id)
    }

    /// The digest of the config, as in other runtimes; but of two images with the same config for
    /// different targets, one gets another id, since the kubelet removes images by id alone.
    fn id_for(&self, new: &Record) -> Digest {
        let taken = |id: &Digest| self.all.iter().any(|record| record.id == *id);
        if !taken(&new.config) {
            return new.config.clone();
        }
        let text = format!(
            "{} {} {} {}",
            new.config, new.manifest, new.handler, new.wanted
        );
        Digest::sha256(text.as_bytes())
    }

    /// Removes an image with all its names.
    pub(crate) fn remove(&mut self, id: &Digest) -> io::Result<Option<Record>> {
        let Some(at) = self.all.iter().position(|record| record.id == *id) else {
            return Ok(None);
        };
        let record = self.all.remove(at);
        if let Err(error) = self.save() {
            self.all.insert(at, record);
            return Err(error);
        }
        Ok(Some(record))
    }

    /// Keeps only images that satisfy a predicate.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&Record) -> bool) -> io::Result<()> {
        let before = self.all.len();
        self.all.retain(keep);
        if self.all.len() == before {
            return Ok(());
        }
        self.save()
    }

    /// Writes all records to a temporary file and renames it.
    fn save(&self) -> io::Result<()> {
        let document = Document {
            version: VERSION,
            images: self.all.clone(),
        };
        let bytes = serde_json::to_vec_pretty(&document)?;
        let folder = self.path.parent().unwrap_or(&self.path);
        // A folder that is emptied at the next start, in case the process is killed; else beside the
        // file.
        let scratch = folder.join("unpacking");
        let scratch = if scratch.is_dir() { &scratch } else { folder };
        let mut file = tempfile::NamedTempFile::new_in(scratch)?;
        file.write_all(&bytes)?;
        file.as_file().sync_all()?;
        // Temporary file, sync, rename, sync of the folder: after a power failure the file is the old or the new one.
        // A database, as containerd has, would be a format to migrate for a few hundred records.
        file.persist(&self.path)?;
        File::open(folder)?.sync_all()
    }
}
