//! Partition tables: MBR and GPT.

use super::machine::{le32, le64};
use super::{Part, Weight};
use crate::error::Error;

/// Upper bound of GPT entries examined; usual tables have 128.
const MAX_ENTRIES: u32 = 256;

/// The type of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An EFI system partition.
    Efi,
    /// A BIOS boot partition.
    Bios,
    /// A PowerPC boot partition (PReP).
    Prep,
    /// The root file system of an architecture (Discoverable Partitions Specification).
    Root(&'static str),
    Other,
}

impl Kind {
    /// The architecture it implies.
    pub(super) fn says(self) -> Option<(&'static str, Weight, String)> {
        match self {
            Self::Efi | Self::Other => None,
            Self::Bios => Some(("amd64", Weight::Hint, "for a BIOS to boot from".to_owned())),
            Self::Prep => Some((
                "ppc64le",
                Weight::Proof,
                "for PowerPC to boot from".to_owned(),
            )),
            Self::Root(architecture) => Some((
                architecture,
                Weight::Proof,
                format!("a root file system for {architecture}"),
            )),
        }
    }

    /// By the type GUID of a GPT entry.
    fn of_guid(text: &str) -> Self {
        match text {
            "c12a7328-f81f-11d2-ba4b-00a0c93ec93b" => Self::Efi,
            "21686148-6449-6e6f-744e-656564454649" => Self::Bios,
            "9e1a2d38-c612-4316-aa26-8b49521e5a8b" => Self::Prep,
            "4f68bce3-e8cd-4db1-96e7-fbcaf984b709" => Self::Root("amd64"),
            "b921b045-1df0-41c3-af44-4c6f280d3fae" => Self::Root("arm64"),
            "5eead9a9-fe09-4a1e-a1d7-520d00531306" => Self::Root("s390x"),
            "c31c45e6-3f39-412e-80fb-4809c4980599" => Self::Root("ppc64le"),
            "72ec70a6-cf74-40e6-bd49-4bda08e8f224" => Self::Root("riscv64"),
            _ => Self::Other,
        }
    }
}

/// A partition.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Partition {
    pub(super) number: u32,
    pub(super) kind: Kind,
    pub(super) start: u64,
    pub(super) length: u64,
}

/// The partitions of a disk; empty without a partition table.
pub(super) fn partitions(disk: &mut Part<'_>, first: &[u8]) -> Result<Vec<Partition>, Error> {
    // GPT first: its protective MBR also looks like a table. Sectors have 512 or 4096 bytes.
    for sector in [512, 4096] {
        let found = gpt(disk, sector)?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(mbr(first))
}

fn mbr(first: &[u8]) -> Vec<Partition> {
    if first.get(510..512) != Some(&[0x55, 0xaa]) {
        return Vec::new();
    }
    let mut all = Vec::new();
    for number in 0..4_u32 {
        let at = 446 + number as usize * 16;
        let (Some(flag), Some(kind), Some(start), Some(length)) = (
            first.get(at),
            first.get(at + 4),
            le32(first, at + 8),
            le32(first, at + 12),
        ) else {
            break;
        };
        // The boot sector of a file system has arbitrary bytes there.
        if !matches!(flag, 0 | 0x80) || *kind == 0 || length == 0 {
            continue;
        }
        all.push(Partition {
            number: number + 1,
            kind: match kind {
                0xef => Kind::Efi,
                0x41 => Kind::Prep,
                _ => Kind::Other,
            },
            start: u64::from(start) * 512,
            length: u64::from(length) * 512,
        });
    }
    all
}

fn gpt(disk: &mut Part<'_>, sector: u64) -> Result<Vec<Partition>, Error> {
    let mut all = Vec::new();
    let Some(header) = disk.read(sector, 92)? else {
        return Ok(all);
    };
    let (Some(entries), Some(count), Some(size)) =
        (le64(&header, 72), le32(&header, 80), le32(&header, 84))
    else {
        return Ok(all);
    };
    if !header.starts_with(b"EFI PART") || !(128..=4096).contains(&size) {
        return Ok(all);
    }
    for number in 0..count.min(MAX_ENTRIES) {
        let place = entries
            .checked_mul(sector)
            .and_then(|start| start.checked_add(u64::from(number) * u64::from(size)));
        let Some(entry) = place
            .map(|place| disk.read(place, 128))
            .transpose()?
            .flatten()
        else {
            break;
        };
        let (Some(first), Some(last)) = (le64(&entry, 32), le64(&entry, 40)) else {
            break;
        };
        let kind = guid(&entry);
        let length = last
            .checked_sub(first)
            .and_then(|sectors| sectors.checked_add(1)?.checked_mul(sector));
        if let (Some(start), Some(length)) = (first.checked_mul(sector), length)
            && kind != "00000000-0000-0000-0000-000000000000"
        {
            all.push(Partition {
                number: number + 1,
                kind: Kind::of_guid(&kind),
                start,
                length,
            });
        }
    }
    Ok(all)
}

/// A GUID in text form: the first three parts are little-endian.
fn guid(entry: &[u8]) -> String {
    let hex = |order: &[usize]| {
        let bytes = order.iter().map(|at| entry.get(*at).unwrap_or(&0));
        let digits: Vec<String> = bytes.map(|byte| format!("{byte:02x}")).collect();
        digits.concat()
    };
    [
        hex(&[3, 2, 1, 0]),
        hex(&[5, 4]),
        hex(&[7, 6]),
        hex(&[8, 9]),
        hex(&[10, 11, 12, 13, 14, 15]),
    ]
    .join("-")
}
