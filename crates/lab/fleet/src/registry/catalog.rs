//! The images of the demo, and the architectures they are for.
//!
//! Between them they have what images have: an index of OCI and a list of Docker, attestations, a
//! variant, an architecture that is missing, and an image that is no index at all.

use std::fmt;
use std::str::FromStr;

use super::disk::Machine;

/// An architecture that images are made for.
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
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Amd64, Self::Arm64, Self::S390x];

    /// What it is called in platforms and labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
            Self::S390x => "s390x",
        }
    }

    /// The file that UEFI starts, as folders have it, and what is in it.
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

/// An architecture that no image of the demo is made for.
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

/// How an image is put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// An index of OCI, each entry with an attestation, as `docker buildx` makes them.
    Index,
    /// A manifest list of Docker, as KubeVirt's container disks are made.
    List,
    /// One manifest of Docker.
    Single,
}

/// An image of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    /// What it is called here, and what the DataSource is called that it is behind.
    pub name: &'static str,
    /// Where it is in the registry.
    pub repository: &'static str,
    /// The tag that moves on with every revision.
    pub tag: &'static str,
    /// What it is made for, in the order of its entries.
    pub architectures: &'static [Architecture],
    pub(super) form: Form,
    /// Whether entries for arm64 say `v8`.
    pub(super) says_variant: bool,
    /// What templates ask for in `ssp.kubevirt.io/dict.architectures`, if they do.
    pub(super) annotated: bool,
}

use Architecture::{Amd64, Arm64, S390x};

/// All of them.
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
