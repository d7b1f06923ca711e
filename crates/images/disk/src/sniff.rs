//! Detects the architectures a disk boots on.
//!
//! It examines the boot record, the partition table and the EFI system partition: the programs that
//! firmware starts contain their machine type. A disk may give no evidence (empty, unknown boot loader)
//! or evidence for several architectures (an installer for all); nothing is guessed then. Every finding
//! names its location.
//!
//! The disk is untrusted: reads are bounded, whatever its tables contain.

mod fat;
mod machine;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::Serialize;

use crate::error::Error;
use crate::sink::Sink;

/// The weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// It is meant for this architecture, but others could ignore it.
    Hint,
    /// A program for this architecture, or a structure only it has.
    Proof,
}

/// Evidence for an architecture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The GOARCH: `amd64`, `arm64`, `s390x`...
    pub architecture: &'static str,
    /// Its weight.
    pub weight: Weight,
    /// What was found, and where.
    pub why: String,
}

/// The detected architectures of a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sniffed {
    /// The architectures it boots on; empty without evidence.
    pub architectures: BTreeSet<&'static str>,
    /// The evidence.
    pub findings: Vec<Finding>,
}

impl Sniffed {
    fn from(findings: Vec<Finding>) -> Self {
        let of = |weight| {
            findings
                .iter()
                .filter(|finding| finding.weight == weight)
                .map(|finding| finding.architecture)
                .collect::<BTreeSet<_>>()
        };
        let proofs = of(Weight::Proof);
        Self {
            // Hints count only without proofs: an image that boots with several firmwares may carry BIOS code beside
            // an EFI program for arm64.
            architectures: if proofs.is_empty() {
                of(Weight::Hint)
            } else {
                proofs
            },
            findings,
        }
    }

    /// Whether it boots on this architecture; `None` without evidence.
    pub fn boots_on(&self, architecture: &str) -> Option<bool> {
        if self.architectures.is_empty() {
            return None;
        }
        Some(self.architectures.contains(architecture))
    }
}

/// A readable part of a disk.
pub(crate) struct Part<'a> {
    disk: &'a mut dyn Sink,
    start: u64,
    length: u64,
}

impl Part<'_> {
    /// This many bytes at an offset; `None` beyond the end.
    fn read(&mut self, offset: u64, length: usize) -> Result<Option<Vec<u8>>, Error> {
        let inside = offset
            .checked_add(length as u64)
            .is_some_and(|end| end <= self.length);
        let Some(at) = self.start.checked_add(offset).filter(|_| inside) else {
            return Ok(None);
        };
        let mut buffer = vec![0; length];
        self.disk
            .read_at(at, &mut buffer)
            .map_err(|source| Error::Target {
                operation: "reading",
                offset: at,
                length: length as u64,
                source,
            })?;
        Ok(Some(buffer))
    }

    /// A part of this part, if it is inside.
    fn part(&mut self, start: u64, length: u64) -> Option<Part<'_>> {
        let end = start.checked_add(length)?;
        if end > self.length {
            return None;
        }
        Some(Part {
            start: self.start.checked_add(start)?,
            length,
            disk: &mut *self.disk,
        })
    }
}

/// Examines a disk of this size.
pub fn sniff(disk: &mut dyn Sink, size: u64) -> Result<Sniffed, Error> {
    let mut whole = Part {
        disk,
        start: 0,
        length: size,
    };
    let mut findings = Vec::new();
    let Some(first) = whole.read(0, usize::try_from(size.min(4096)).unwrap_or(4096))? else {
        return Ok(Sniffed::default());
    };
    findings.extend(machine::boot_record(&first));
    // A disk may be one file system without a partition table.
    if fat::is_fat(&first) {
        findings.extend(fat::programs(&mut whole, "the disk")?);
    }
    for partition in table::partitions(&mut whole, &first)? {
        if let Some((architecture, weight, what)) = partition.kind.says() {
            findings.push(Finding {
                architecture,
                weight,
                why: format!("partition {} is {what}", partition.number),
            });
        }
        if partition.kind == table::Kind::Efi
            && let Some(mut part) = whole.part(partition.start, partition.length)
        {
            let name = format!("partition {}", partition.number);
            findings.extend(fat::programs(&mut part, &name)?);
        }
    }
    Ok(Sniffed::from(findings))
}
