//! FAT file systems, as far as needed to find the programs that firmware starts: `\EFI\BOOT\BOOT*.EFI`.

use super::machine::{le16, le32, pe};
use super::{Finding, Part, Weight};
use crate::error::Error;

/// Upper bound of clusters read per folder.
// The chain of a damaged or hostile file system may be a cycle; this ends it.
// `\EFI\BOOT` has a handful of entries, in one cluster.
const MAX_CLUSTERS: u32 = 256;

/// Upper bound of programs examined.
const MAX_PROGRAMS: usize = 16;

/// Bytes read of a program: its PE header is in the first few hundred.
const HEAD: u64 = 4096;

/// The FAT variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    Fat12,
    Fat16,
    Fat32,
}

/// The layout of the file system.
#[derive(Debug)]
struct Layout {
    width: Width,
    cluster: u64,
    /// The first table.
    table: u64,
    /// The root folder of FAT12 and FAT16, and its bytes.
    root: (u64, u64),
    /// The first cluster of the root folder of FAT32.
    root_cluster: u32,
    /// The first cluster, which has the number 2.
    data: u64,
    clusters: u64,
}

impl Layout {
    fn parse(boot: &[u8]) -> Option<Self> {
        let sector = u64::from(le16(boot, 11)?);
        let per_cluster = u64::from(*boot.get(13)?);
        let reserved = u64::from(le16(boot, 14)?);
        let tables = u64::from(*boot.get(16)?);
        let root_entries = u64::from(le16(boot, 17)?);
        let sectors = match le16(boot, 19)? {
            0 => u64::from(le32(boot, 32)?),
            few => u64::from(few),
        };
        let (table_sectors, wide) = match le16(boot, 22)? {
            0 => (u64::from(le32(boot, 36)?), true),
            few => (u64::from(few), false),
        };
        let sane = matches!(sector, 512 | 1024 | 2048 | 4096)
            && per_cluster.is_power_of_two()
            && (1..=2).contains(&tables)
            && reserved > 0
            && table_sectors > 0;
        if !sane {
            return None;
        }
        let root = (reserved + tables * table_sectors) * sector;
        let root_bytes = (root_entries * 32).next_multiple_of(sector);
        let data = root + root_bytes;
        let clusters = (sectors * sector).checked_sub(data)? / (per_cluster * sector);
        // The number of clusters alone decides (Microsoft's specification).
        let width = match clusters {
            _ if wide => Width::Fat32,
            0..4085 => Width::Fat12,
            4085..65525 => Width::Fat16,
            _ => Width::Fat32,
        };
        Some(Self {
            width,
            cluster: per_cluster * sector,
            table: reserved * sector,
            root: (root, root_bytes),
            root_cluster: if width == Width::Fat32 {
                le32(boot, 44)? & 0x0fff_ffff
            } else {
                0
            },
            data,
            clusters,
        })
    }

    fn place(&self, cluster: u32) -> Option<u64> {
        let index = u64::from(cluster).checked_sub(2)?;
        (index < self.clusters).then(|| self.data + index * self.cluster)
    }

    /// The cluster after one; none at the end.
    fn after(&self, part: &mut Part<'_>, cluster: u32) -> Result<Option<u32>, Error> {
        let number = u64::from(cluster);
        let (at, length) = match self.width {
            Width::Fat12 => (number + number / 2, 2),
            Width::Fat16 => (number * 2, 2),
            Width::Fat32 => (number * 4, 4),
        };
        let Some(bytes) = part.read(self.table + at, length)? else {
            return Ok(None);
        };
        let next = match self.width {
            Width::Fat12 => le16(&bytes, 0).map(|both| {
                u32::from(if cluster.is_multiple_of(2) {
                    both & 0xfff
                } else {
                    both >> 4
                })
            }),
            Width::Fat16 => le16(&bytes, 0).map(u32::from),
            Width::Fat32 => le32(&bytes, 0).map(|next| next & 0x0fff_ffff),
        };
        // Marks of the end are above all clusters, whatever the width.
        Ok(next.filter(|next| self.place(*next).is_some()))
    }

    /// The bytes of a folder.
    fn folder(&self, part: &mut Part<'_>, first: u32) -> Result<Vec<u8>, Error> {
        let mut all = Vec::new();
        let mut cluster = Some(first);
        for _ in 0..MAX_CLUSTERS {
            let Some(place) = cluster.and_then(|cluster| self.place(cluster)) else {
                break;
            };
            let length = usize::try_from(self.cluster).unwrap_or(0);
            let Some(data) = part.read(place, length)? else {
                break;
            };
            all.extend(data);
            if let Some(current) = cluster {
                cluster = self.after(part, current)?;
            }
        }
        Ok(all)
    }
}

/// Whether a boot sector is that of a FAT file system.
pub(super) fn is_fat(boot: &[u8]) -> bool {
    matches!(boot.first(), Some(0xeb | 0xe9))
        && boot.get(510..512) == Some(&[0x55, 0xaa])
        && Layout::parse(boot).is_some()
}

/// An entry of a folder: name in 8 and 3 letters, whether it is a folder, its first cluster.
fn entries(folder: &[u8]) -> impl Iterator<Item = ([u8; 11], bool, u32)> {
    folder
        .as_chunks::<32>()
        .0
        .iter()
        // Zero is the end.
        .take_while(|entry| entry.first() != Some(&0))
        .filter_map(|entry| {
            let name: [u8; 11] = *entry.first_chunk()?;
            let attributes = *entry.get(11)?;
            // Deleted, a volume label, or a part of a long name.
            if name.first() == Some(&0xe5) || attributes & 0x08 != 0 {
                return None;
            }
            let cluster = u32::from(le16(entry, 20)?) << 16 | u32::from(le16(entry, 26)?);
            Some((name, attributes & 0x10 != 0, cluster))
        })
}

/// The architectures of the programs in `\EFI\BOOT`.
pub(super) fn programs(part: &mut Part<'_>, place: &str) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let Some(layout) = part.read(0, 512)?.as_deref().and_then(Layout::parse) else {
        return Ok(findings);
    };
    let mut folder = if layout.width == Width::Fat32 {
        layout.folder(part, layout.root_cluster)?
    } else {
        let length = usize::try_from(layout.root.1).unwrap_or(0);
        part.read(layout.root.0, length)?.unwrap_or_default()
    };
    for wanted in [b"EFI        ", b"BOOT       "] {
        let found = entries(&folder).find(|(name, is_folder, _)| *is_folder && name == wanted);
        let Some((_, _, cluster)) = found else {
            return Ok(findings);
        };
        folder = layout.folder(part, cluster)?;
    }
    let found: Vec<_> = entries(&folder)
        .filter(|(name, is_folder, _)| {
            !is_folder && name.starts_with(b"BOOT") && name.ends_with(b"EFI")
        })
        .take(MAX_PROGRAMS)
        .collect();
    for (name, _, cluster) in found {
        let length = usize::try_from(layout.cluster.min(HEAD)).unwrap_or(512);
        let Some(at) = layout.place(cluster) else {
            continue;
        };
        let head = part.read(at, length)?.unwrap_or_default();
        if let Some(architecture) = pe(&head) {
            let name = String::from_utf8_lossy(&name);
            let (stem, extension) = name.split_at_checked(8).unwrap_or((&name, ""));
            findings.push(Finding {
                architecture,
                weight: Weight::Proof,
                why: format!("{place} has \\EFI\\BOOT\\{}.{extension}", stem.trim_end()),
            });
        }
    }
    Ok(findings)
}
