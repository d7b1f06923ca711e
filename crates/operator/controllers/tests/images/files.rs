//! Disks as files, and a web server that serves them and misbehaves on demand.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use golden_images::cdi::poll;
use parking_lot::Mutex;
use tempfile::TempDir;
use testkit::{Asked, ContainerDisk, FaultyServer, ScriptedResponse, WebFile};

/// Faults of a web server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// It closes every connection.
    Down,
    /// 404 for every path.
    Missing,
    /// 401 for every path.
    Denied,
    /// This number of bytes of a file arrive, and the others too slowly to finish.
    Trickling(usize),
}

/// Access control: a response instead of the file.
type Guard = dyn Fn(&Asked) -> Option<ScriptedResponse> + Send + Sync;

/// A web server with files by path.
pub(crate) struct Site {
    server: FaultyServer,
    files: Arc<Mutex<BTreeMap<String, WebFile>>>,
    wrong: Arc<Mutex<Option<Wrong>>>,
}

impl Site {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Self::guarded(|_| None).await
    }

    /// A web server with access control.
    pub(crate) async fn guarded(
        guard: impl Fn(&Asked) -> Option<ScriptedResponse> + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let files: Arc<Mutex<BTreeMap<String, WebFile>>> = Arc::default();
        let wrong: Arc<Mutex<Option<Wrong>>> = Arc::default();
        let (known, does) = (Arc::clone(&files), Arc::clone(&wrong));
        let guard: Box<Guard> = Box::new(guard);
        let server = FaultyServer::start(move |asked| {
            let file = known.lock().get(&asked.path).cloned();
            if let Some(refused) = guard(asked) {
                return refused;
            }
            match (*does.lock(), file) {
                (Some(Wrong::Down), _) => ScriptedResponse::closed(),
                (Some(Wrong::Denied), _) => ScriptedResponse::answer(401, ""),
                (Some(Wrong::Missing), _) | (_, None) => ScriptedResponse::answer(404, ""),
                (Some(Wrong::Trickling(after)), Some(file)) if asked.method == "GET" => {
                    let pause = Duration::from_millis(50);
                    file.stamped(ScriptedResponse::trickling(
                        200,
                        file.bytes.clone(),
                        after,
                        pause,
                    ))
                }
                (_, Some(file)) => file.answer(asked),
            }
        })
        .await?;
        Ok(Self {
            server,
            files,
            wrong,
        })
    }

    /// Sets or clears the fault.
    pub(crate) fn does(&self, wrong: Option<Wrong>) {
        *self.wrong.lock() = wrong;
    }

    /// Serves a file under a path.
    pub(crate) fn put(&self, path: &str, file: WebFile) {
        self.files.lock().insert(path.to_owned(), file);
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.host())
    }

    /// Requests for a path with a method.
    pub(crate) fn asked(&self, method: &str, path: &str) -> Vec<Asked> {
        let all = self.server.asked().into_iter();
        all.filter(|it| it.method == method && it.path == path)
            .collect()
    }

    /// Version of the file at a path, as used in names.
    pub(crate) fn version(&self, path: &str) -> String {
        let files = self.files.lock();
        let file = &files[path];
        let address = self.url(path);
        let seen = poll::File {
            address: &address,
            etag: file.etag.as_deref(),
            modified: file.modified.as_deref(),
            length: Some(file.bytes.len() as u64),
            moved: false,
            checksum: None,
        };
        seen.image().unwrap().digest
    }
}

/// Disks by number.
pub(crate) struct Disks {
    folder: TempDir,
}

impl Disks {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        Ok(Self { folder })
    }

    /// The qcow2 of a disk.
    pub(crate) fn qcow2(&self, number: u64) -> anyhow::Result<Vec<u8>> {
        let name = number.to_string();
        ContainerDisk::make(self.folder.path(), &name, number)?;
        let path = self.folder.path().join(name).join("disk/disk.img");
        Ok(std::fs::read(path)?)
    }

    /// The raw disk as converted by `qemu-img`.
    pub(crate) fn raw(&self, number: u64) -> PathBuf {
        let folder = self.folder.path().join(number.to_string());
        folder.join("expected.raw")
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes)?;
    Ok(out.finish()?)
}

pub(crate) fn xz(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut out = liblzma::write::XzEncoder::new(Vec::new(), 1);
    out.write_all(bytes)?;
    Ok(out.finish()?)
}
