//! Which architecture a disk boots on, by what is on it.
//!
//! Looked at are the boot record, the partition table and the EFI system partition: the programs that
//! firmware starts say for which machine they are. A disk can say nothing (empty, unknown boot loader) or
//! several things (an installer for all); nothing is guessed then. Every finding says where it was.
//!
//! The disk may be hostile: what is read is bounded, whatever its tables say.

mod fat;
mod machine;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::Serialize;

use crate::error::Error;
use crate::sink::Sink;

/// How much a finding says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// It is there for this architecture, but others could ignore it.
    Hint,
    /// A program for this architecture, or what only it has.
    Proof,
}

/// Something that tells an architecture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// As images name it: `amd64`, `arm64`, `s390x`...
    pub architecture: &'static str,
    /// How much it says.
    pub weight: Weight,
    /// What it is and where it was.
    pub why: String,
}

/// What a disk says about its architecture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sniffed {
    /// The architectures that it boots on; empty if it does not say.
    pub architectures: BTreeSet<&'static str>,
    /// From what that follows.
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
            architectures: if proofs.is_empty() {
                of(Weight::Hint)
            } else {
                proofs
            },
            findings,
        }
    }

    /// Whether a machine of this architecture boots from it; none if the disk does not say.
    pub fn boots_on(&self, architecture: &str) -> Option<bool> {
        if self.architectures.is_empty() {
            return None;
        }
        Some(self.architectures.contains(architecture))
    }
}

/// A part of a disk that can be read.
pub(crate) struct Part<'a> {
    disk: &'a mut dyn Sink,
    start: u64,
    length: u64,
}

impl Part<'_> {
    /// This many bytes at an offset; none if there are not as many.
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

/// Looks at a disk of this many bytes.
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
    // A disk can be one file system, without a table.
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
