//! Decodes an image as a stream.

mod stored;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::entry::{self, Entry, OFFSET, PARTS};
use super::header::Header;
use super::inflate::Inflater;
use super::plan::{Item, Latest, Parked, Piece, Plan};
use super::{Bytes as _, Qcow2Error};
use crate::canvas::Canvas;
use crate::content::is_zero;
use crate::error::Error;

pub(crate) use stored::State;

/// Upper bound of passes over the image.
// Each pass downloads the image again. An image that a VM has used may need a second one on a block device; the bound
// stops an image that is made to be fetched for ever.
pub(super) const MAX_PASSES: u32 = 8;

/// Upper bound of runs and compressed clusters that overlap in one place of the image. QEMU writes only
/// a few in two clusters; only an image crafted to exhaust memory has more.
const MAX_OVERLAPPING: usize = 1 << 16;

/// The result at the end of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The disk is complete.
    Done,
    /// The image has to be streamed again from its beginning, because pieces are missing.
    Again {
        /// The minimum number of missing pieces.
        missing: u64,
    },
}

/// A run being read.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Running {
    guest: u64,
    clusters: u32,
}

/// Decodes an image.
#[derive(Debug)]
pub(crate) struct Stream {
    header: Header,
    /// Entries of the L1 table read so far: offsets of L2 tables.
    l1: Vec<u64>,
    plan: Plan,
    /// The plan of the next pass.
    missing: Plan,
    /// L2 tables that did not fit in the plan.
    postponed: BTreeSet<u32>,
    /// Pieces of the first pass that did not fit.
    behind: u64,
    running: Vec<Running>,
    /// Compressed clusters read in part: end and disk offset, to start.
    waiting: BTreeMap<(u64, u64), u64>,
    /// The end of the compressed data seen so far.
    reach: u64,
    parked: Parked,
    latest: Latest,
    /// Bytes of the image, starting at `from`.
    buffer: Vec<u8>,
    from: u64,
    /// The next cluster to be read.
    next: u64,
    pass: u32,
    inflater: Inflater,
}

impl Stream {
    /// For an image with this header. Feed it the whole image, including the header.
    pub(crate) fn new(header: Header, threads: usize) -> Self {
        let cluster = 1 << header.cluster_bits;
        let mut plan = Plan::default();
        let table_aligned = header.refcounts.is_multiple_of(header.cluster());
        // QEMU's largest table of reference counts has 8 MiB.
        let table_length = u64::from(header.refcount_clusters) << header.cluster_bits;
        if table_aligned && header.refcounts > 0 && table_length <= 8 << 20 {
            for part in 0..u64::from(header.refcount_clusters) {
                plan.insert(Piece {
                    host: header.refcounts.saturating_add(part << header.cluster_bits),
                    guest: 0,
                    item: Item::Refcounts,
                });
            }
        }
        Self {
            inflater: Inflater::new(header.compression, cluster, threads),
            header,
            l1: Vec::new(),
            plan,
            missing: Plan::default(),
            postponed: BTreeSet::new(),
            behind: 0,
            running: Vec::new(),
            waiting: BTreeMap::new(),
            reach: 0,
            parked: Parked::default(),
            latest: Latest::default(),
            buffer: Vec::new(),
            from: 0,
            next: 0,
            pass: 1,
        }
    }

    /// The parsed header.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    fn cluster(&self) -> usize {
        1 << self.header.cluster_bits
    }

    /// Takes the next bytes of the image.
    pub(crate) fn feed(&mut self, data: &[u8], canvas: &mut Canvas<'_>) -> Result<(), Error> {
        self.buffer.extend_from_slice(data);
        // Moved out, so that parts can be borrowed while `self` changes.
        let buffer = std::mem::take(&mut self.buffer);
        let result = self.advance(&buffer, canvas);
        self.buffer = buffer;
        result?;
        self.forget();
        Ok(())
    }

    fn advance(&mut self, buffer: &[u8], canvas: &mut Canvas<'_>) -> Result<(), Error> {
        loop {
            let rest = self.slice(buffer, self.next);
            if rest.len() < self.cluster() {
                return Ok(());
            }
            let clear = self.clear_run(rest.len());
            if clear > 0 {
                self.run(rest.get(..clear).unwrap_or_default(), canvas)?;
            } else {
                self.unit(buffer, canvas)?;
            }
        }
    }

    /// Bytes of the buffer from a place in the image on.
    fn slice<'b>(&self, buffer: &'b [u8], at: u64) -> &'b [u8] {
        usize::try_from(at.saturating_sub(self.from))
            .ok()
            .and_then(|at| buffer.get(at..))
            .unwrap_or_default()
    }

    /// Bytes, in clusters, that are nothing but one run.
    fn clear_run(&self, available: usize) -> usize {
        let [run] = self.running.as_slice() else {
            return 0;
        };
        if !self.waiting.is_empty() || self.in_l1(self.next) {
            return 0;
        }
        let cluster = self.header.cluster();
        let mut clear = (available as u64).min(u64::from(run.clusters) * cluster);
        if let Some(next) = self.plan.next() {
            clear = clear.min(next.saturating_sub(self.next));
        }
        if self.header.l1_offset > self.next {
            clear = clear.min(self.header.l1_offset - self.next);
        }
        usize::try_from(clear & !(cluster - 1)).unwrap_or(0)
    }

    fn run(&mut self, data: &[u8], canvas: &mut Canvas<'_>) -> Result<(), Error> {
        if let Some(run) = self.running.first_mut() {
            canvas.put(run.guest, data)?;
            run.guest += data.len() as u64;
            // As many clusters as `clear_run` found, which are at most those of the run.
            let clusters = u32::try_from(data.len() >> self.header.cluster_bits).unwrap_or(0);
            run.clusters = run.clusters.saturating_sub(clusters);
        }
        self.running.retain(|run| run.clusters > 0);
        self.next += data.len() as u64;
        Ok(())
    }

    /// Processes one cluster of the image.
    fn unit(&mut self, buffer: &[u8], canvas: &mut Canvas<'_>) -> Result<(), Error> {
        let start = self.next;
        let end = start + self.header.cluster();
        self.next = end;
        let data = self
            .slice(buffer, start)
            .get(..self.cluster())
            .unwrap_or_default();
        // The header; nothing else in the first cluster is data.
        let mut claimed = start == 0;
        if !self.running.is_empty() {
            claimed = true;
            self.run_on(data, canvas)?;
        }

        let mut tables = Vec::new();
        let mut covered = self.reach.max(start);
        let mut gap = false;
        while let Some(piece) = self.plan.take_before(end) {
            match piece.item {
                Item::Compressed(length) => {
                    if piece.host > covered {
                        gap |= !is_zero(between(data, start, sector(covered), piece.host));
                    }
                    let ends = piece.host + u64::from(length);
                    covered = covered.max(ends);
                    self.check_overlap(self.waiting.len())?;
                    self.waiting.insert((ends, piece.guest), piece.host);
                }
                Item::Table(index) => {
                    claimed = true;
                    tables.push(index);
                }
                Item::Refcounts => {
                    claimed = true;
                    self.refcounts(data);
                }
                Item::Ignored => claimed = true,
                Item::Run(_) | Item::Parts(_) => {
                    claimed = true;
                    place(piece, data, canvas)?;
                    if let Item::Run(clusters @ 2..) = piece.item {
                        self.check_overlap(self.running.len())?;
                        self.running.push(Running {
                            guest: piece.guest + self.header.cluster(),
                            clusters: clusters - 1,
                        });
                    }
                }
            }
        }
        self.reach = self.reach.max(covered);
        while let Some(first) = self.waiting.first_entry() {
            let (ends, guest) = *first.key();
            if ends > end {
                break;
            }
            let begins = first.remove();
            let length = usize::try_from(ends.saturating_sub(begins)).unwrap_or(0);
            let compressed = self.slice(buffer, begins).get(..length).unwrap_or_default();
            self.inflate(guest, compressed.to_vec(), canvas)?;
        }

        let in_l1 = self.in_l1(start);
        // The last sector of a compressed cluster may hold the beginning of another.
        let compressed_only = covered > start
            && !gap
            && (covered > end || is_zero(between(data, start, sector(covered), end)));
        // Only in the first pass: later ones know every table, so what is not planned is not needed.
        if !claimed && !in_l1 && !compressed_only && self.pass == 1 {
            self.park(start, data, canvas);
        }
        for index in tables {
            self.table(index, data, canvas)?;
        }
        if in_l1 {
            self.l1(start, data, canvas)?;
        }
        Ok(())
    }

    fn check_overlap(&self, already: usize) -> Result<(), Qcow2Error> {
        if already >= MAX_OVERLAPPING {
            return Err(Qcow2Error::Overlapping {
                offset: self.next,
                most: MAX_OVERLAPPING,
            });
        }
        Ok(())
    }

    fn run_on(&mut self, data: &[u8], canvas: &mut Canvas<'_>) -> Result<(), Error> {
        let cluster = self.header.cluster();
        for run in &mut self.running {
            canvas.put(run.guest, data)?;
            run.guest += cluster;
            run.clusters = run.clusters.saturating_sub(1);
        }
        self.running.retain(|run| run.clusters > 0);
        Ok(())
    }

    fn inflate(&mut self, guest: u64, data: Vec<u8>, canvas: &mut Canvas<'_>) -> Result<(), Error> {
        if let Some(answer) = self.inflater.submit(guest, data)? {
            let (guest, cluster) = answer?;
            canvas.put(guest, &cluster)?;
        }
        Ok(())
    }

    fn park(&mut self, host: u64, data: &[u8], canvas: &mut Canvas<'_>) {
        if canvas.has_tail() && canvas.park(host, data) {
            self.parked.add(host >> self.header.cluster_bits);
        } else {
            self.latest.add(host, data);
        }
    }

    /// A cluster that passed, if it is parked or among the latest.
    fn recall(&self, host: u64, canvas: &mut Canvas<'_>) -> Result<Option<Vec<u8>>, Error> {
        if self.parked.has(host >> self.header.cluster_bits) {
            let mut data = vec![0; self.cluster()];
            canvas.parked_at(host, &mut data)?;
            return Ok(Some(data));
        }
        Ok(self.latest.get(host).map(<[u8]>::to_vec))
    }

    /// Reference counts need not be parked.
    fn refcounts(&mut self, data: &[u8]) {
        for at in (0..data.len()).step_by(8) {
            let host = data.be64(at).unwrap_or(0) & OFFSET;
            // Half of the plan is reserved for data.
            if host >= self.next && self.plan.room() > super::plan::MAX_ITEMS / 2 {
                self.plan.insert(Piece {
                    host,
                    guest: 0,
                    item: Item::Ignored,
                });
            }
        }
    }

    fn in_l1(&self, start: u64) -> bool {
        let length = self.header.l1_used() * 8;
        self.pass == 1 && start >= self.header.l1_offset && start - self.header.l1_offset < length
    }

    /// Reads a cluster of the L1 table; with the last one, all L2 tables are known.
    fn l1(&mut self, start: u64, data: &[u8], canvas: &mut Canvas<'_>) -> Result<(), Error> {
        let used = self.header.l1_used();
        if self.l1.is_empty() {
            // Exactly: a vector that grows takes up to three times as much.
            self.l1
                .reserve_exact(usize::try_from(used).unwrap_or_default());
        }
        let first = (start - self.header.l1_offset) / 8;
        for at in (0..data.len()).step_by(8) {
            if first + at as u64 / 8 >= used {
                break;
            }
            self.l1.push(data.be64(at).unwrap_or(0) & OFFSET);
        }
        if (self.l1.len() as u64) < used {
            return Ok(());
        }
        for index in 0..u32::try_from(used).unwrap_or(0) {
            let host = self.l1_entry(index);
            if host == 0 {
                continue;
            }
            if !host.is_multiple_of(self.header.cluster()) {
                return Err(Qcow2Error::Unaligned {
                    what: "L2 table",
                    offset: host,
                }
                .into());
            }
            self.expect_table(index, host, canvas)?;
        }
        Ok(())
    }

    fn l1_entry(&self, index: u32) -> u64 {
        self.l1.get(index as usize).copied().unwrap_or(0)
    }

    /// Handles a table at `host`: still to come, parked, or dropped.
    fn expect_table(
        &mut self,
        index: u32,
        host: u64,
        canvas: &mut Canvas<'_>,
    ) -> Result<(), Error> {
        let piece = Piece {
            host,
            guest: 0,
            item: Item::Table(index),
        };
        if host >= self.next {
            if !self.plan.insert(piece) {
                self.postponed.insert(index);
            }
        } else if let Some(table) = self.recall(host, canvas)? {
            self.table(index, &table, canvas)?;
        } else if !self.missing.insert(piece) {
            self.postponed.insert(index);
        }
        Ok(())
    }

    /// Handles an L2 table: everything it maps is still to come, parked, or dropped.
    fn table(&mut self, index: u32, table: &[u8], canvas: &mut Canvas<'_>) -> Result<(), Error> {
        // A single list: a table of large clusters maps a quarter of a million of them.
        let pieces = self.pieces(index, table)?;
        let is_early = |piece: &&Piece| piece.host >= self.next;
        let early = pieces.iter().filter(is_early).count();
        if early > self.plan.room() {
            // Kept until the end, with all it maps, or until the next pass.
            self.park(self.l1_entry(index), table, canvas);
            self.postponed.insert(index);
            self.behind = self.behind.saturating_add(early as u64);
            return Ok(());
        }
        let next = self.next;
        for piece in pieces.iter().filter(|piece| piece.host >= next) {
            self.plan.insert(*piece);
        }
        let mut lost = Vec::new();
        for piece in pieces.into_iter().filter(|piece| piece.host < next) {
            self.late(piece, canvas, &mut lost)?;
        }
        // All of a table or nothing: otherwise the next pass would begin with it again.
        if lost.len() > self.missing.room() {
            self.postponed.insert(index);
            self.behind += lost.len() as u64;
            return Ok(());
        }
        for piece in lost {
            self.missing.insert(piece);
        }
        Ok(())
    }

    /// What a table maps, neighbours together.
    fn pieces(&self, index: u32, table: &[u8]) -> Result<Vec<Piece>, Qcow2Error> {
        let cluster = self.header.cluster();
        let base = u64::from(index) * self.header.l2_reach();
        let mut pieces: Vec<Piece> = Vec::new();
        for number in 0..cluster / self.header.entry() {
            let guest = base + number * cluster;
            if guest >= self.header.size {
                break;
            }
            let (host, item) = match entry::read(&self.header, table, number, guest)? {
                Entry::Nothing => continue,
                Entry::Whole { host } => (host, Item::Run(1)),
                Entry::Parts { host, present } => (host, Item::Parts(present)),
                // At most two clusters, of at most 2 MiB.
                Entry::Compressed { host, length } => {
                    (host, Item::Compressed(u32::try_from(length).unwrap_or(0)))
                }
            };
            if let (Item::Run(1), Some(last)) = (item, pieces.last_mut())
                && let Item::Run(clusters) = &mut last.item
            {
                let length = u64::from(*clusters) * cluster;
                // A run is either before or after the current position, never across.
                if last.host + length == host
                    && last.guest + length == guest
                    && (last.host >= self.next) == (host >= self.next)
                {
                    *clusters += 1;
                    continue;
                }
            }
            pieces.push(Piece { host, guest, item });
        }
        Ok(pieces)
    }

    /// Handles a piece that passed before its table came: if it was dropped, it is missing in this
    /// pass.
    fn late(
        &mut self,
        piece: Piece,
        canvas: &mut Canvas<'_>,
        lost: &mut Vec<Piece>,
    ) -> Result<(), Error> {
        let clusters = match piece.item {
            Item::Compressed(length) => return self.late_compressed(piece, length, canvas, lost),
            Item::Run(clusters) => clusters,
            _ => 1,
        };
        let cluster = self.header.cluster();
        for number in 0..u64::from(clusters) {
            let one = Piece {
                host: piece.host + number * cluster,
                guest: piece.guest + number * cluster,
                item: match piece.item {
                    Item::Run(_) => Item::Run(1),
                    other => other,
                },
            };
            match self.recall(one.host, canvas)? {
                Some(data) => place(one, &data, canvas)?,
                None => lost.push(one),
            }
        }
        Ok(())
    }

    fn late_compressed(
        &mut self,
        piece: Piece,
        length: u32,
        canvas: &mut Canvas<'_>,
        lost: &mut Vec<Piece>,
    ) -> Result<(), Error> {
        let ends = piece.host + u64::from(length);
        let first = piece.host & !(self.header.cluster() - 1);
        let mut data = Vec::new();
        let mut host = first;
        while host < ends {
            let part = if ends <= self.next {
                self.recall(host, canvas)?
            } else {
                None
            };
            let Some(part) = part else {
                lost.push(piece);
                return Ok(());
            };
            data.extend_from_slice(&part);
            host += self.header.cluster();
        }
        data.drain(..usize::try_from(piece.host - first).unwrap_or(0));
        data.truncate(length as usize);
        self.inflate(piece.guest, data, canvas)
    }

    /// Drops bytes that are no longer needed.
    fn forget(&mut self) {
        let behind = if self.waiting.is_empty() {
            0
        } else {
            // A compressed cluster has no more than this.
            2 * self.header.cluster()
        };
        let keep = self.next.saturating_sub(behind);
        let dead = usize::try_from(keep.saturating_sub(self.from)).unwrap_or(0);
        let dead = dead.min(self.buffer.len());
        // Not for every few bytes, since the rest has to be moved.
        if dead > 0 && (dead == self.buffer.len() || dead >= self.buffer.len() / 2) {
            self.buffer.drain(..dead);
            self.from += dead as u64;
        }
    }

    /// Ends the image.
    pub(crate) fn end(&mut self, canvas: &mut Canvas<'_>) -> Result<Ended, Error> {
        let end = self.from + self.buffer.len() as u64;
        // The last cluster may be short: the rest is zeros.
        if end > self.next {
            let whole = end.next_multiple_of(self.header.cluster());
            let blank = vec![0; usize::try_from(whole - end).unwrap_or(0)];
            self.feed(&blank, canvas)?;
        }
        self.check_end(end)?;
        while let Some(((ends, guest), begins)) = self.waiting.pop_first() {
            let mut data = self.slice(&self.buffer, begins).to_vec();
            data.resize(usize::try_from(ends.saturating_sub(begins)).unwrap_or(0), 0);
            self.inflate(guest, data, canvas)?;
        }
        self.next = u64::MAX;
        if self.pass == 1 && canvas.has_tail() {
            self.behind = 0;
            for index in std::mem::take(&mut self.postponed) {
                self.expect_table(index, self.l1_entry(index), canvas)?;
            }
        }
        while let Some(answer) = self.inflater.answer()? {
            let (guest, cluster) = answer?;
            canvas.put(guest, &cluster)?;
        }
        if self.missing.is_empty() && self.postponed.is_empty() {
            return Ok(Ended::Done);
        }
        self.again()
    }

    /// Checks that everything that is mapped exists.
    fn check_end(&self, end: u64) -> Result<(), Qcow2Error> {
        let truncated = |what, offset| Qcow2Error::Truncated { what, offset, end };
        if (self.l1.len() as u64) < self.header.l1_used() {
            return Err(truncated("a table", self.header.l1_offset));
        }
        if !self.running.is_empty() {
            return Err(truncated("data", self.next));
        }
        for piece in self.plan.pieces() {
            match piece.item {
                Item::Refcounts | Item::Ignored => {}
                Item::Table(_) => return Err(truncated("a table", piece.host)),
                _ => return Err(truncated("data", piece.host)),
            }
        }
        Ok(())
    }

    fn again(&mut self) -> Result<Ended, Error> {
        let missing = self.missing.len() as u64 + self.behind.max(self.postponed.len() as u64);
        // A pass reads the planned items and hardly more; if all remaining passes would not suffice,
        // none is made.
        let most = super::plan::MAX_ITEMS as u64 * u64::from(MAX_PASSES.saturating_sub(self.pass));
        if missing > most || self.pass >= MAX_PASSES {
            return Err(Qcow2Error::Fragmented {
                missing,
                passes: self.pass,
            }
            .into());
        }
        self.pass += 1;
        self.behind = 0;
        self.plan = Plan::default();
        // Tables first: what they map is then known before the following pass.
        for index in std::mem::take(&mut self.postponed) {
            let piece = Piece {
                host: self.l1_entry(index),
                guest: 0,
                item: Item::Table(index),
            };
            if !self.plan.insert(piece) {
                self.postponed.insert(index);
            }
        }
        while let Some(piece) = self.missing.take_before(u64::MAX) {
            if !self.plan.insert(piece) {
                let table = match piece.item {
                    Item::Table(index) => index,
                    _ => u32::try_from(piece.guest / self.header.l2_reach()).unwrap_or(0),
                };
                self.postponed.insert(table);
            }
        }
        self.latest = Latest::default();
        self.buffer.clear();
        self.from = 0;
        self.next = 0;
        self.reach = 0;
        Ok(Ended::Again { missing })
    }
}

/// Writes the first cluster of a piece to its place.
fn place(piece: Piece, data: &[u8], canvas: &mut Canvas<'_>) -> Result<(), Error> {
    let Item::Parts(present) = piece.item else {
        return canvas.put(piece.guest, data);
    };
    let part = data.len() / PARTS as usize;
    let mut index = 0;
    while index < PARTS {
        let ones = (present >> index).trailing_ones();
        if ones == 0 {
            index += 1;
            continue;
        }
        let at = part * index as usize;
        let wanted = data.get(at..at + part * ones as usize).unwrap_or_default();
        canvas.put(piece.guest + at as u64, wanted)?;
        index += ones;
    }
    Ok(())
}

/// Where the last sector of something that ends here begins.
fn sector(ends: u64) -> u64 {
    ends.saturating_sub(1) & !511
}

/// Bytes of a cluster that begins at `start`, between two places in the image.
fn between(data: &[u8], start: u64, from: u64, to: u64) -> &[u8] {
    let at = |place: u64| {
        usize::try_from(place.saturating_sub(start))
            .unwrap_or(usize::MAX)
            .min(data.len())
    };
    data.get(at(from)..at(to)).unwrap_or_default()
}
