//! Restores a copy of a cluster from a snapshot.

mod treatment;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Read};
use std::path::{Path, PathBuf};

use ::apiserver::{ApiServer, RestoreError};
use anyhow::{Context as _, bail, ensure};
use flate2::read::GzDecoder;
use serde_json::Value;

use self::treatment::{Treatment, treatment};
use crate::snapshot::format::{FORMAT, Header, Line, VERSION};
use crate::snapshot::is_compressed;

/// An opened snapshot.
pub(crate) struct Copy {
    path: PathBuf,
    header: Header,
    lines: Lines<Box<dyn BufRead + Send>>,
}

/// Counts of restored and skipped objects.
#[derive(Debug)]
pub(crate) struct Copied {
    header: Header,
    objects: usize,
    left_out: BTreeMap<String, usize>,
}

impl fmt::Display for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "A copy of a {} cluster as of {}: {} objects.",
            self.header.kubernetes,
            self.header.taken.strftime("%F %T UTC"),
            self.objects
        )?;
        for (reason, count) in &self.left_out {
            writeln!(f, "Left out: {count} {reason}.")?;
        }
        Ok(())
    }
}

impl Copy {
    /// Opens a snapshot and reads its header.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let file =
            File::open(path).with_context(|| format!("opening the snapshot {}", path.display()))?;
        let file: Box<dyn Read + Send> = if is_compressed(path) {
            Box::new(GzDecoder::new(file))
        } else {
            Box::new(file)
        };
        let reader: Box<dyn BufRead + Send> = Box::new(BufReader::new(file));
        let mut lines = reader.lines();
        let what = || format!("reading the snapshot {}", path.display());
        let first = lines.next().transpose().with_context(what)?;
        let header: Header = first
            .as_deref()
            .and_then(|line| serde_json::from_str(line).ok())
            .filter(|header: &Header| header.format == FORMAT)
            .with_context(|| {
                format!(
                    "{} is not a snapshot; `medley snapshot -o FILE` writes one",
                    path.display()
                )
            })?;
        ensure!(
            header.version == VERSION,
            "{} is a snapshot of version {}, this program reads version {VERSION}",
            path.display(),
            header.version
        );
        Ok(Self {
            path: path.to_owned(),
            header,
            lines,
        })
    }

    /// Creates all objects in a server.
    pub(crate) async fn restore(self, server: &ApiServer) -> anyhow::Result<Copied> {
        let what = format!("reading the snapshot {}", self.path.display());
        let mut copied = Copied {
            header: self.header,
            objects: 0,
            left_out: BTreeMap::new(),
        };
        // Custom resources are served a moment after their CRDs are stored, so discovery is read
        // only when needed.
        let mut read = 0;
        for line in self.lines {
            let line = line.with_context(|| what.clone())?;
            match serde_json::from_str(&line).with_context(|| what.clone())? {
                Line::Object(object) => {
                    read += 1;
                    put(server, object, &mut copied).await?;
                }
                Line::End(footer) => {
                    ensure!(
                        // The footer is written last. Without it a file cut off at the end of a
                        // line would pass for a smaller cluster.
                        footer.objects == read,
                        "{what}: it has {read} objects where {} were written",
                        footer.objects
                    );
                    return Ok(copied);
                }
            }
        }
        bail!("{what}: it is truncated; take it again")
    }
}

async fn put(server: &ApiServer, object: Value, copied: &mut Copied) -> anyhow::Result<()> {
    let object = match treatment(object) {
        Treatment::Kept(object) => object,
        Treatment::Own => return Ok(()),
        Treatment::LeftOut(reason) => {
            *copied.left_out.entry(reason.to_owned()).or_default() += 1;
            return Ok(());
        }
    };
    let served = definition_of(&object);
    match server.restore(object).await {
        Ok(()) => copied.objects += 1,
        Err(RestoreError::UnknownKind { api_version, kind }) => {
            let reason = format!("{kind} ({api_version}), which is not served here");
            *copied.left_out.entry(reason).or_default() += 1;
        }
        Err(error) => return Err(error.into()),
    }
    for (api_version, kind) in served {
        if !server.serves(&api_version, &kind).await {
            let reason = format!("CRD {kind} ({api_version}), which the server does not accept");
            *copied.left_out.entry(reason).or_default() += 1;
        }
    }
    Ok(())
}

/// The kinds that a CRD serves.
fn definition_of(object: &Value) -> Vec<(String, String)> {
    if object["kind"] != "CustomResourceDefinition" {
        return Vec::new();
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let group = text(&object["spec"]["group"]);
    let kind = text(&object["spec"]["names"]["kind"]);
    let versions = object["spec"]["versions"].as_array();
    versions
        .into_iter()
        .flatten()
        .filter(|version| version["served"] == true)
        .map(|version| (format!("{group}/{}", text(&version["name"])), kind.clone()))
        .collect()
}
