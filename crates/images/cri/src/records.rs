//! What is known of images: one file, written as a whole, so that it is always one state.

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

/// The version of the file.
const VERSION: u32 = 1;

/// An image that is there: complete, and for one handler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// What tells it from all other images of this machine, those for other handlers included.
    pub(crate) id: Digest,
    /// The handler that it was pulled for, as it was named.
    pub(crate) handler: String,
    /// The platform that was wanted.
    pub(crate) wanted: Platform,
    /// Annotations that had a say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
    /// What was asked for when it was pulled first.
    pub(crate) pulled_as: String,
    /// What the user had written then.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) user_specified: String,
    /// Names with tags.
    pub(crate) tags: BTreeSet<String>,
    /// Names with digests.
    pub(crate) digests: BTreeSet<String>,
    /// What stood under the name.
    pub(crate) root: Digest,
    /// The manifest, the config and what led to them.
    pub(crate) documents: BTreeSet<Digest>,
    /// The manifest.
    pub(crate) manifest: Digest,
    /// The config.
    pub(crate) config: Digest,
    /// What the image is for.
    pub(crate) platform: Platform,
    /// The layers, the lowest first.
    pub(crate) layers: Vec<Descriptor>,
    /// The snapshot: the name of all layers, unpacked.
    pub(crate) chain: Digest,
    /// Bytes of manifest, config and layers.
    pub(crate) size: u64,
    /// Who it runs as.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) user: String,
    /// When it was pulled last.
    pub(crate) pulled: Timestamp,
}

impl Record {
    /// All that may not go as long as this is there.
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

/// All images that are there.
#[derive(Debug)]
pub(crate) struct Records {
    path: PathBuf,
    all: Vec<Record>,
}

impl Records {
    /// Reads what is known; nothing if there is no file.
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

    /// The image that a question means. One that is named by its id is found whatever it is for, unless
    /// the question says a handler: a kubelet removes images by their ids alone.
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
            Named::Nonsense => None,
        }
    }

    /// An image of which only the first digits of its id are said, if there is one alone.
    fn beginning(&self, digits: &str) -> Option<&Record> {
        let is_it = |record: &&Record| record.id.hash().starts_with(digits);
        let mut found = self.all.iter().filter(is_it);
        match (found.next(), found.next()) {
            (Some(record), None) => Some(record),
            _ => None,
        }
    }

    /// Adds an image, or what it is called now to one that is there; its id.
    pub(crate) fn add(&mut self, mut new: Record) -> io::Result<Digest> {
        let before = self.all.clone();
        // A name means one image for one target: it moves.
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

    /// The digest of the config, as everywhere; but of two images that are of the same config and for
    /// different targets one has another, since a kubelet removes images by their ids alone.
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

    /// Removes an image, with all its names.
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

    /// Keeps only images that are whole.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&Record) -> bool) -> io::Result<()> {
        let before = self.all.len();
        self.all.retain(keep);
        if self.all.len() == before {
            return Ok(());
        }
        self.save()
    }

    /// Writes all, beside what was there, and then in its place.
    fn save(&self) -> io::Result<()> {
        let document = Document {
            version: VERSION,
            images: self.all.clone(),
        };
        let bytes = serde_json::to_vec_pretty(&document)?;
        let folder = self.path.parent().unwrap_or(&self.path);
        // Where the next start removes what this one leaves if it is killed; else beside it.
        let scratch = folder.join("unpacking");
        let scratch = if scratch.is_dir() { &scratch } else { folder };
        let mut file = tempfile::NamedTempFile::new_in(scratch)?;
        file.write_all(&bytes)?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        File::open(folder)?.sync_all()
    }
}
