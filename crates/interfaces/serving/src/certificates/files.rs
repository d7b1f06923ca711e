//! Certificates in files, which somebody else renews.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::certificates::{Error, Pair, Renewal};

/// Files in PEM; read again when they change.
#[derive(Debug, Clone)]
pub struct Files {
    certificate: PathBuf,
    key: PathBuf,
    every: Duration,
    pair: Pair,
}

impl Files {
    /// How often files are looked at, if nobody is in a hurry: whoever renews them does so long before they
    /// expire.
    pub const EVERY: Duration = Duration::from_secs(10);

    /// Reads a certificate, with those it depends on, and its key. Whether they have changed is looked at so
    /// often.
    pub fn open(certificate: &Path, key: &Path, every: Duration) -> Result<Self, Error> {
        Ok(Self {
            pair: read(certificate, key)?,
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            every,
        })
    }

    /// What was in them.
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
    async fn what_changed_is_told_once() -> anyhow::Result<()> {
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
        let told = files.next().await?.map(|pair| pair.certificate);
        assert_eq!(told.as_deref(), Some(&b"second"[..]));
        assert_eq!(files.next().await?, None);
        // Who renews files may take them away for a moment.
        std::fs::remove_file(&key)?;
        files.next().await.unwrap_err();
        std::fs::write(&key, "secret")?;
        assert_eq!(files.next().await?, None);
        Ok(())
    }
}
