//! The demo images and their architectures.
//!
//! They cover the variety of real images: an OCI index and a Docker manifest list, attestations, a
//! variant, a missing architecture, and a single image without an index.

use std::fmt;
use std::str::FromStr;

use super::disk::Machine;

/// An architecture of demo images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    /// Intel and AMD, 64 bit.
    Amd64,
    /// Arm, 64 bit.
    Arm64,
    /// IBM Z.
    S390x,
}

impl Architecture {
    /// All architectures.
    pub const ALL: [Self; 3] = [Self::Amd64, Self::Arm64, Self::S390x];

    /// Its name in platforms and labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
            Self::S390x => "s390x",
        }
    }

    /// The UEFI boot file in 8.3 format, and its code.
    pub(super) fn firmware(self) -> Option<(&'static [u8; 11], Machine)> {
        match self {
            Self::Amd64 => {
                // xor eax, eax; ret
                let code = &[0x31, 0xc0, 0xc3];
                let number = 0x8664;
                Some((b"BOOTX64 EFI", Machine { number, code }))
            }
            Self::Arm64 => {
                // mov x0, #0; ret
                let code = &[0x00, 0x00, 0x80, 0xd2, 0xc0, 0x03, 0x5f, 0xd6];
                let number = 0xaa64;
                Some((b"BOOTAA64EFI", Machine { number, code }))
            }
            Self::S390x => None,
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An architecture for which there are no demo images.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown architecture {0:?}: amd64, arm64 and s390x are accepted")]
pub struct UnknownArchitecture(pub String);

impl FromStr for Architecture {
    type Err = UnknownArchitecture;

    fn from_str(text: &str) -> Result<Self, UnknownArchitecture> {
        Self::ALL
            .into_iter()
            .find(|it| it.name() == text)
            .ok_or_else(|| UnknownArchitecture(text.to_owned()))
    }
}

/// Structure of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// An OCI index, each entry with an attestation, as `docker buildx` creates them.
    Index,
    /// A Docker manifest list, as KubeVirt's container disks have it.
    List,
    /// A single Docker manifest.
    Single,
}

/// A demo image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    /// Its name, and that of its DataSource.
    pub name: &'static str,
    /// Its repository.
    pub repository: &'static str,
    /// The tag that moves with every revision.
    pub tag: &'static str,
    /// Its architectures, in the order of the index.
    pub architectures: &'static [Architecture],
    pub(super) form: Form,
    /// Whether entries for arm64 have the variant `v8`.
    pub(super) says_variant: bool,
    /// Whether templates have the annotation `ssp.kubevirt.io/dict.architectures`.
    pub(super) annotated: bool,
}

use Architecture::{Amd64, Arm64, S390x};

/// All demo images.
pub static IMAGES: [Image; 5] = [
    Image {
        name: "centos-stream9",
        repository: "containerdisks/centos-stream",
        tag: "9",
        architectures: &[Amd64, Arm64, S390x],
        form: Form::List,
        says_variant: false,
        annotated: true,
    },
    Image {
        name: "centos-stream10",
        repository: "containerdisks/centos-stream",
        tag: "10",
        architectures: &[Amd64, Arm64, S390x],
        form: Form::List,
        says_variant: true,
        annotated: true,
    },
    Image {
        name: "fedora",
        repository: "containerdisks/fedora",
        tag: "latest",
        architectures: &[Arm64, S390x, Amd64],
        form: Form::Index,
        says_variant: false,
        annotated: true,
    },
    Image {
        name: "opensuse-leap",
        repository: "containerdisks/opensuse-leap",
        tag: "15.6",
        architectures: &[Amd64, Arm64],
        form: Form::List,
        says_variant: false,
        annotated: true,
    },
    Image {
        name: "debian",
        repository: "containerdisks/debian",
        tag: "13",
        architectures: &[Amd64],
        form: Form::Single,
        says_variant: false,
        annotated: false,
    },
];

/// The image of a name.
pub fn image(name: &str) -> Option<&'static Image> {
    IMAGES.iter().find(|image| image.name == name)
}

/// All images of a repository.
pub(super) fn repository(name: &str) -> impl Iterator<Item = &'static Image> {
    IMAGES.iter().filter(move |image| image.repository == name)
}
