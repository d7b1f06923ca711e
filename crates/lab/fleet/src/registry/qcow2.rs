//! Disks in QEMU's qcow2 format, version 3. Empty clusters are omitted.
//!
//! ```text
//! header | table of counts | counts | L1 table | L2 tables | clusters of the disk
//! ```

use super::disk::{CLUSTER, Canvas};

/// Number of address bits within a cluster.
const BITS: u32 = 16;
/// Number of 8-byte entries per cluster, and of 2-byte reference counts.
const ENTRIES: u64 = CLUSTER as u64 / 8;
const COUNTS: u64 = CLUSTER as u64 / 2;
/// Flag of a cluster with a reference count of one.
const COPIED: u64 = 1 << 63;
/// Size of the header in bytes.
const HEADER: u32 = 104;

/// Writes a disk.
pub(super) fn write(disk: &Canvas) -> Vec<u8> {
    let used: Vec<(u64, &[u8])> = disk.clusters().collect();
    let l2_tables = disk
        .size()
        .div_ceil(CLUSTER as u64)
        .div_ceil(ENTRIES)
        .max(1);
    let l1_clusters = l2_tables.div_ceil(ENTRIES);
    let rest = 1 + l1_clusters + l2_tables + used.len() as u64;
    // The reference counts are themselves counted: iterate until their number of clusters is
    // stable.
    let (mut blocks, mut tables) = (1, 1);
    loop {
        let all = rest + blocks + tables;
        let needed = all.div_ceil(COUNTS);
        let tables_needed = needed.div_ceil(ENTRIES);
        if needed <= blocks && tables_needed <= tables {
            break;
        }
        (blocks, tables) = (needed.max(blocks), tables_needed.max(tables));
    }
    let count_table = 1;
    let count_blocks = count_table + tables;
    let l1 = count_blocks + blocks;
    let l2 = l1 + l1_clusters;
    let data = l2 + l2_tables;
    let all = data + used.len() as u64;

    let mut file = b"QFI\xfb".to_vec();
    put32(&mut file, 3);
    put64(&mut file, 0); // no disk behind this one
    put32(&mut file, 0);
    put32(&mut file, BITS);
    put64(&mut file, disk.size());
    put32(&mut file, 0); // not encrypted
    put32(&mut file, u32::try_from(l2_tables).unwrap_or(u32::MAX));
    put64(&mut file, address(l1));
    put64(&mut file, address(count_table));
    put32(&mut file, u32::try_from(tables).unwrap_or(u32::MAX));
    put32(&mut file, 0); // no snapshots
    put64(&mut file, 0);
    put64(&mut file, 0); // no feature flags
    put64(&mut file, 0);
    put64(&mut file, 0);
    put32(&mut file, 4); // counts of sixteen bits
    put32(&mut file, HEADER);
    fill(&mut file);

    (0..blocks).for_each(|block| put64(&mut file, address(count_blocks + block)));
    fill(&mut file);
    (0..all).for_each(|_| file.extend_from_slice(&1u16.to_be_bytes()));
    fill(&mut file);
    (0..l2_tables).for_each(|table| put64(&mut file, address(l2 + table) | COPIED));
    fill(&mut file);

    let mut at = data;
    let mut left = used.iter().map(|(number, _)| *number).peekable();
    for number in 0..l2_tables * ENTRIES {
        let entry = if left.next_if_eq(&number).is_some() {
            at += 1;
            address(at - 1) | COPIED
        } else {
            0
        };
        put64(&mut file, entry);
    }
    for (_, bytes) in used {
        file.extend_from_slice(bytes);
    }
    file
}

/// Offset of a cluster.
fn address(cluster: u64) -> u64 {
    cluster << BITS
}

/// Pads the file to the next cluster.
fn fill(file: &mut Vec<u8>) {
    file.resize(file.len().next_multiple_of(CLUSTER), 0);
}

fn put32(file: &mut Vec<u8>, number: u32) {
    file.extend_from_slice(&number.to_be_bytes());
}

fn put64(file: &mut Vec<u8>, number: u64) {
    file.extend_from_slice(&number.to_be_bytes());
}

#[cfg(test)]
mod tests;
