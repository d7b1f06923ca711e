//! Certificates in files, which are renewed externally.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::certificates::{Error, Pair, Renewal};

/// Files in PEM; reloaded when they change.
#[derive(Debug, Clone)]
pub struct Files {
    certificate: PathBuf,
    key: PathBuf,
    every: Duration,
    pair: Pair,
}

impl Files {
    /// Default poll interval of the files: they are renewed long before they expire.
    pub const EVERY: Duration = Duration::from_secs(10);

    /// Reads a certificate chain and its key, and polls for changes at this interval.
    pub fn open(certificate: &Path, key: &Path, every: Duration) -> Result<Self, Error> {
        Ok(Self {
            pair: read(certificate, key)?,
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            every,
        })
    }

    /// The current content.
    pub fn pair(&self) -> &Pair {
        &self.pair
    }
}

impl Renewal for Files {
    type Error = Error;

    fn every(&self) -> Duration {
        self.every
    }

    async fn next(&mut self) -> Result<Option<Pair>, Error> {
        let now = read(&self.certificate, &self.key)?;
        if now == self.pair {
            return Ok(None);
        }
        self.pair.clone_from(&now);
        Ok(Some(now))
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Pair, Error> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|source| Error::File {
            path: path.to_owned(),
            source,
        })
    };
    Ok(Pair {
        certificate: read(certificate)?,
        key: read(key)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn changed_files_are_reported_once() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let [certificate, key] = ["tls.crt", "tls.key"].map(|name| folder.path().join(name));
        let open = || Files::open(&certificate, &key, Files::EVERY);
        let absent = open().unwrap_err().to_string();
        assert_eq!(absent, format!("reading {}", certificate.display()));

        std::fs::write(&certificate, "first")?;
        std::fs::write(&key, "secret")?;
        let mut files = open()?;
        assert_eq!(files.next().await?, None);
        std::fs::write(&certificate, "second")?;
        let renewed = files.next().await?.map(|pair| pair.certificate);
        assert_eq!(renewed.as_deref(), Some(&b"second"[..]));
        assert_eq!(files.next().await?, None);
        // A renewal may remove files for a moment.
        std::fs::remove_file(&key)?;
        files.next().await.unwrap_err();
        std::fs::write(&key, "secret")?;
        assert_eq!(files.next().await?, None);
        Ok(())
    }
}
