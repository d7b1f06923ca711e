//! Disks that are files on web servers.

#[cfg(test)]
mod tests;

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use disk::{Contents, Layer};
use golden_images::cdi::failure::Failure;
use golden_images::cdi::poll;
use oci::{BlobReader, Client, FileVersion, Headers, Keyring, WebFile};
use platform::{Address, Digest};
use tokio::runtime::Handle;

use crate::error::Error;
use crate::import::Cancellable;

/// Options of a file on a web server.
#[derive(Debug, Clone, Default)]
pub struct WebOptions {
    /// The expected digest of its bytes.
    pub checksum: Option<Digest>,
    /// HTTP headers of the requests.
    pub headers: Headers,
}

impl WebOptions {
    /// Reads the options of CDI's `http` source: a checksum, and headers as `Name: value`.
    pub fn read<'a>(
        checksum: Option<&str>,
        headers: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, String> {
        let checksum = checksum.map(|text| {
            // Upper-case digits are accepted, as some tools print them.
            let digest = text.to_ascii_lowercase().parse();
            digest.map_err(|_| {
                format!("checksum {text:?}: sha256:DIGITS or sha512:DIGITS is expected")
            })
        });
        Ok(Self {
            checksum: checksum.transpose()?,
            headers: Headers::read(headers)?,
        })
    }
}

/// A version of a file on a web server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The URL of the file.
    pub address: Address,
    /// The validators the server sent.
    pub version: FileVersion,
    /// The expected digest of its bytes.
    pub checksum: Option<Digest>,
}

impl Found {
    /// The identity of this version: its checksum, or else the server's validators.
    pub fn image(&self) -> Result<poll::Image, Failure> {
        poll::File {
            address: self.address.as_str(),
            etag: self.version.etag.as_deref(),
            modified: self.version.modified.as_deref(),
            length: self.version.length,
            moved: self.version.moved,
            checksum: self.checksum.as_ref().map(ToString::to_string),
        }
        .image()
    }

    /// The identity by which an import of this version can be resumed; `None` if the server's
    /// validators are too weak to tell that the rest belongs to the same version.
    pub(crate) fn unfinished(&self) -> Option<Digest> {
        let condition = self.version.condition()?;
        let checksum = self.checksum.as_ref().map(ToString::to_string);
        let length = self.version.length.map(|length| length.to_string());
        let identity = [
            self.address.as_str(),
            condition,
            &length.unwrap_or_default(),
            &checksum.unwrap_or_default(),
        ];
        Some(Digest::sha256(identity.join("\n").as_bytes()))
    }

    /// The file as one layer.
    pub(crate) fn layer(&self) -> Layer {
        // Without a checksum, the identity of the version stands in for the digest.
        let digest = self.checksum.clone();
        let digest = digest.unwrap_or_else(|| Digest::sha256(self.address.as_str().as_bytes()));
        Layer {
            digest,
            // Without a checksum there is nothing to compare with; the validators of the version only prove that all
            // bytes are of one version.
            is_verified: self.checksum.is_some(),
            size: self.version.length,
            // The uncompressed content is not known before it is unpacked.
            diff_id: None,
            contents: Contents::Disk,
        }
    }
}

/// Requests the version of a file. If the client has seen it before and it has not changed, the
/// response is empty.
pub async fn look(
    client: &Client,
    address: &Address,
    keyring: &Keyring,
    options: &WebOptions,
) -> Result<Found, Error> {
    let file = WebFile {
        address: address.clone(),
        headers: options.headers.clone(),
    };
    Ok(Found {
        version: client.look(&file, keyring).await?,
        address: address.clone(),
        checksum: options.checksum.clone(),
    })
}

/// The bytes of a file, for blocking code.
pub(crate) struct Bytes {
    pub(crate) client: Client,
    pub(crate) file: WebFile,
    pub(crate) version: FileVersion,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) runtime: Handle,
    pub(crate) stopped: Arc<AtomicBool>,
}

impl disk::Source for Bytes {
    fn open(&mut self, _layer: &Layer, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let (client, file) = (self.client.clone(), self.file.clone());
        let (version, keyring) = (self.version.clone(), Arc::clone(&self.keyring));
        let reader = BlobReader::new(offset, self.runtime.clone(), move |offset| {
            client.file(&file, &version, &keyring, offset)
        });
        Ok(Box::new(Cancellable {
            reader,
            stopped: Arc::clone(&self.stopped),
        }))
    }
}
