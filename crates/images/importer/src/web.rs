//! Disks that are files on web servers: what there is, and the bytes of it.

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
use crate::import::Stoppable;

/// What is known of a file besides its address.
#[derive(Debug, Clone, Default)]
pub struct WebOptions {
    /// What its bytes have to be.
    pub checksum: Option<Digest>,
    /// What is sent along to get it.
    pub headers: Headers,
}

impl WebOptions {
    /// Reads what CDI's `http` source has: a checksum, and headers as `Name: value`.
    pub fn read<'a>(
        checksum: Option<&str>,
        headers: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, String> {
        let checksum = checksum.map(|text| {
            // Digits may be of any case, as tools that compute them have it.
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

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it is.
    pub address: Address,
    /// What the server says of it.
    pub version: FileVersion,
    /// What its bytes have to be.
    pub checksum: Option<Digest>,
}

impl Found {
    /// Under which this version is known: its checksum, or what the server tells it from others by.
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

    /// By what half a disk of this version is known; none if nobody could say that the rest is of the
    /// same one.
    pub(crate) fn unfinished(&self) -> Option<Digest> {
        let condition = self.version.condition()?;
        let checksum = self.checksum.as_ref().map(ToString::to_string);
        let length = self.version.length.map(|length| length.to_string());
        let told = [
            self.address.as_str(),
            condition,
            &length.unwrap_or_default(),
            &checksum.unwrap_or_default(),
        ];
        Some(Digest::sha256(told.join("\n").as_bytes()))
    }

    /// The one layer of it.
    pub(crate) fn layer(&self) -> Layer {
        // Where nobody knows the digest, the name of the version will do.
        let digest = self.checksum.clone();
        let digest = digest.unwrap_or_else(|| Digest::sha256(self.address.as_str().as_bytes()));
        Layer {
            digest,
            is_verified: self.checksum.is_some(),
            size: self.version.length,
            // What is in it is not known before it is unpacked.
            diff_id: None,
            contents: Contents::Disk,
        }
    }
}

/// Asks for a file. One that a client has asked for before and that has not changed costs an empty
/// answer.
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

/// The bytes of a file, for code that blocks.
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
        Ok(Box::new(Stoppable {
            reader,
            stopped: Arc::clone(&self.stopped),
        }))
    }
}
