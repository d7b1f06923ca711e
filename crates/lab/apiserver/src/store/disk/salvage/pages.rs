//! A reader of redb's pages that expects any of them to be damaged.
//!
//! The layout is that of file format 3 (redb's `docs/design.md`): trees of pages whose branches
//! name their children by region, index and order. Lengths and offsets are checked against their
//! page before use, no page is visited twice, and keys outside the bounds of the parent branch make
//! a page unreadable: a page that was being overwritten at the crash may still hold stale records.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt as _;

use redb::{TableDefinition, TableHandle as _};

const MAGIC: [u8; 9] = *b"redb\x1A\x0A\xA9\x0D\x0A";
const PAGE_SIZE_AT: u64 = 12;
const REGION_HEADER_PAGES_AT: u64 = 16;
const REGION_DATA_PAGES_AT: u64 = 20;
/// The commits and the offset of the table root in each, after a byte that marks its presence.
const COMMITS: [u64; 2] = [64, 192];
const HAS_ROOT_AT: u64 = 1;
const ROOT_AT: u64 = 8;
const LEAF: u8 = 1;
const BRANCH: u8 = 2;
/// In a table's definition: whether it has a root, and the root.
const TABLE_HAS_ROOT: usize = 9;
const TABLE_ROOT: usize = 10;
/// Deeper than any tree of 2^64 records.
const MAX_DEPTH: usize = 64;
/// Larger than any page here: objects have at most 1.5 MiB.
const LARGEST_PAGE: u64 = 64 << 20;

/// One commit of a file.
pub(super) struct Pages<'a> {
    file: &'a File,
    length: u64,
    page_size: u64,
    region_header: u64,
    region: u64,
    tables: Option<u64>,
    visited: HashSet<u64>,
    unreadable: usize,
}

/// Fixed widths of keys and values, if any.
#[derive(Clone, Copy)]
struct Widths {
    key: Option<usize>,
    value: Option<usize>,
}

impl<'a> Pages<'a> {
    /// Offsets of the commits; empty if the file is no database.
    pub(super) fn commits(file: &File) -> io::Result<&'static [u64]> {
        let mut magic = [0; MAGIC.len()];
        let last = COMMITS[1] + 128;
        if file.metadata()?.len() < last {
            return Ok(&[]);
        }
        file.read_exact_at(&mut magic, 0)?;
        Ok(if magic == MAGIC { &COMMITS } else { &[] })
    }

    pub(super) fn new(file: &'a File, commit: u64) -> io::Result<Self> {
        let word = |at: u64| -> io::Result<u64> {
            let mut bytes = [0; 4];
            file.read_exact_at(&mut bytes, at)?;
            Ok(u64::from(u32::from_le_bytes(bytes)))
        };
        let page_size = word(PAGE_SIZE_AT)?;
        let region_header = word(REGION_HEADER_PAGES_AT)? * page_size;
        let region = region_header + word(REGION_DATA_PAGES_AT)? * page_size;
        let mut has_root = [0];
        file.read_exact_at(&mut has_root, commit + HAS_ROOT_AT)?;
        let mut root = [0; 8];
        file.read_exact_at(&mut root, commit + ROOT_AT)?;
        Ok(Self {
            file,
            length: file.metadata()?.len(),
            page_size,
            region_header,
            region,
            tables: (has_root[0] != 0).then(|| u64::from_le_bytes(root)),
            visited: HashSet::new(),
            unreadable: 0,
        })
    }

    /// Number of unreadable pages so far.
    pub(super) fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// Every entry of a table from names to numbers.
    pub(super) fn numbers(
        &mut self,
        table: TableDefinition<'_, &'static str, u64>,
        mut each: impl FnMut(&str, u64),
    ) {
        let widths = Widths {
            key: None,
            value: Some(8),
        };
        let Some(root) = self.root_of(table.name()) else {
            return;
        };
        self.walk(root, widths, 0, None, &mut |key, value| {
            if let (Ok(key), Ok(value)) = (std::str::from_utf8(key), value.try_into()) {
                each(key, u64::from_le_bytes(value));
            }
        });
    }

    /// Every entry of a table from numbers to bytes.
    pub(super) fn records(
        &mut self,
        table: TableDefinition<'_, u64, &'static [u8]>,
        mut each: impl FnMut(u64, &[u8]),
    ) {
        let widths = Widths {
            key: Some(8),
            value: None,
        };
        let Some(root) = self.root_of(table.name()) else {
            return;
        };
        self.walk(root, widths, 0, Some(&(0..=u64::MAX)), &mut |key, value| {
            if let Some(revision) = number(key) {
                each(revision, value);
            }
        });
    }

    fn root_of(&mut self, table: &str) -> Option<u64> {
        let widths = Widths {
            key: None,
            value: None,
        };
        let mut root = None;
        let tables = self.tables?;
        self.visited.clear();
        self.walk(tables, widths, 0, None, &mut |name, definition| {
            if name == table.as_bytes()
                && definition.get(TABLE_HAS_ROOT).is_some_and(|has| *has != 0)
            {
                root = number(definition.get(TABLE_ROOT..).unwrap_or_default());
            }
        });
        root
    }

    /// Visits the entries below a page. Numeric keys have bounds.
    fn walk(
        &mut self,
        page: u64,
        widths: Widths,
        depth: usize,
        bounds: Option<&RangeInclusive<u64>>,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) {
        let visited = depth < MAX_DEPTH
            && self.visited.insert(page)
            && self.page(page).is_some_and(|bytes| match bytes.first() {
                Some(&LEAF) => visit_leaf(&bytes, widths, bounds, each).is_some(),
                Some(&BRANCH) => match children(&bytes, bounds) {
                    Some(children) => {
                        for (child, bounds) in children {
                            self.walk(child, widths, depth + 1, bounds.as_ref(), each);
                        }
                        true
                    }
                    None => false,
                },
                _ => false,
            });
        if !visited {
            self.unreadable += 1;
        }
    }

    fn page(&self, number: u64) -> Option<Vec<u8>> {
        let order = u32::try_from(number >> 59).ok()?;
        let index = number & (0x000F_FFFF_u64.checked_shr(order)?);
        let region = (number >> 20) & 0x000F_FFFF;
        let size = self.page_size.checked_shl(order)?;
        if size == 0 || size > LARGEST_PAGE {
            return None;
        }
        // The header of the file takes the first page.
        let at = self
            .page_size
            .checked_add(region.checked_mul(self.region)?)?
            .checked_add(self.region_header)?
            .checked_add(index.checked_mul(size)?)?;
        if at.checked_add(size)? > self.length {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        self.file.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

fn count(page: &[u8]) -> Option<usize> {
    let bytes = page.get(2..4)?.first_chunk()?;
    Some(usize::from(u16::from_le_bytes(*bytes)))
}

/// Calls `each` for every entry of a leaf, or for none of them if the leaf is inconsistent.
fn visit_leaf(
    page: &[u8],
    widths: Widths,
    bounds: Option<&RangeInclusive<u64>>,
    each: &mut dyn FnMut(&[u8], &[u8]),
) -> Option<()> {
    let count = count(page)?;
    let mut offsets = page.get(4..)?;
    let mut ends = |width: Option<usize>| -> Option<Vec<usize>> {
        if width.is_some() {
            return Some(Vec::new());
        }
        let (own, rest) = offsets.split_at_checked(count * 4)?;
        offsets = rest;
        own.chunks_exact(4)
            .map(|end| usize::try_from(u32::from_le_bytes(*end.first_chunk()?)).ok())
            .collect()
    };
    let (keys, values) = (ends(widths.key)?, ends(widths.value)?);
    let mut at = page.len() - offsets.len();
    let mut cut = |widths: Option<usize>, ends: &[usize]| -> Option<Vec<&[u8]>> {
        (0..count)
            .map(|index| {
                let end = match widths {
                    Some(width) => at.checked_add(width)?,
                    None => *ends.get(index)?,
                };
                let bytes = page.get(at..end)?;
                at = end;
                Some(bytes)
            })
            .collect()
    };
    let keys = cut(widths.key, &keys)?;
    let values = cut(widths.value, &values)?;
    if let Some(bounds) = bounds {
        let numbers: Vec<u64> = keys.iter().filter_map(|key| number(key)).collect();
        if !numbers.is_sorted() || !numbers.iter().all(|number| bounds.contains(number)) {
            return None;
        }
    }
    for (key, value) in keys.into_iter().zip(values) {
        each(key, value);
    }
    Some(())
}

/// The children of a branch, with the bounds of each.
fn children(
    page: &[u8],
    bounds: Option<&RangeInclusive<u64>>,
) -> Option<Vec<(u64, Option<RangeInclusive<u64>>)>> {
    let keys = count(page)?;
    let (_checksums, rest) = page.get(8..)?.split_at_checked((keys + 1) * 16)?;
    let (pages, rest) = rest.split_at_checked((keys + 1) * 8)?;
    let mut children = Vec::with_capacity(keys + 1);
    let mut low = bounds.map(|bounds| *bounds.start());
    for (index, page) in pages.chunks_exact(8).enumerate() {
        let own = match (bounds, low) {
            (Some(bounds), Some(from)) => {
                let separator = rest.get(index * 8..).and_then(number);
                let to = separator
                    .filter(|_| index < keys)
                    .unwrap_or_else(|| *bounds.end());
                if to < from || !bounds.contains(&to) {
                    return None;
                }
                low = Some(to);
                Some(from..=to)
            }
            _ => None,
        };
        children.push((number(page)?, own));
    }
    Some(children)
}
