//! Recovery of a file that the database rejects.
//!
//! After a crash the database verifies all its checksums and fails at the first mismatch: a power
//! cut and one bad sector would cost the whole cluster. So its pages are read here directly,
//! skipping the damaged ones; records have checksums of their own. The records found go to a new
//! file, and the damaged one is kept next to it.
//!
//! The file has its last two commits, and both are read, since a crash may have torn the newest.
//! That does not restore deleted objects: the record of a deletion is removed after those of
//! earlier versions.

mod pages;

use std::collections::BTreeMap;
use std::path::PathBuf;

use redb::Database;

use self::pages::Pages;
use super::{COMPACTED_KEY, Disk, FORMAT, FORMAT_KEY, LOG, META};
use crate::private;
use crate::store::StoreError;

/// The records found.
#[derive(Debug, Default)]
struct Recovered {
    records: BTreeMap<u64, Vec<u8>>,
    compacted: u64,
    /// Number of unreadable pages, in the commit with fewer of them.
    unreadable: usize,
}

impl Disk {
    /// Replaces the file by one with all readable records. Fails with `cause` if there are none.
    pub(in crate::store) fn salvage(&self, cause: StoreError) -> Result<(), StoreError> {
        let io = |error| self.io(redb::Error::Io(error));
        let Some(found) = self.find().map_err(io)? else {
            return Err(cause);
        };
        // Kept before it is replaced: with the order reversed, a crash in between would lose the
        // only copy from which more could be recovered by hand.
        let kept = self.keep().map_err(io)?;
        self.replace(|db| self.fill_with(db, &found), true)?;
        tracing::error!(
            path = %self.path.display(),
            error = &cause as &dyn std::error::Error,
            kept = %kept.display(),
            records = found.records.len(),
            unreadable_pages = found.unreadable,
            "the store file was damaged and has been replaced by its readable records; the damaged file is kept"
        );
        Ok(())
    }

    fn find(&self) -> std::io::Result<Option<Recovered>> {
        let mut found = Recovered {
            unreadable: usize::MAX,
            ..Recovered::default()
        };
        let file = private::open(&self.path)?;
        for commit in Pages::commits(&file)? {
            let mut pages = Pages::new(&file, *commit)?;
            pages.numbers(META, |name, value| {
                if name == COMPACTED_KEY {
                    found.compacted = found.compacted.max(value);
                }
            });
            pages.records(LOG, |revision, bytes| {
                found
                    .records
                    .entry(revision)
                    // A revision is written once and never changed, so both commits agree on it,
                    // and the first intact copy is as good as the other.
                    .or_insert_with(|| bytes.to_vec());
            });
            found.unreadable = found.unreadable.min(pages.unreadable());
        }
        Ok(Some(found).filter(|found| !found.records.is_empty()))
    }

    /// Hard-links the damaged file under a second name; the first one exists until it is replaced,
    /// so that a crash in between only repeats the recovery.
    fn keep(&self) -> std::io::Result<PathBuf> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".damaged-");
        tempfile::Builder::new()
            .prefix(&name)
            .make_in(private::folder_of(&self.path), |path| {
                std::fs::hard_link(&self.path, path)
            })?
            .into_temp_path()
            .keep()
            .map_err(|error| error.error)
    }

    fn fill_with(&self, db: &Database, found: &Recovered) -> Result<(), StoreError> {
        let write = || -> Result<(), redb::Error> {
            let transaction = db.begin_write()?;
            let mut log = transaction.open_table(LOG)?;
            for (revision, record) in &found.records {
                log.insert(revision, record.as_slice())?;
            }
            drop(log);
            let mut meta = transaction.open_table(META)?;
            meta.insert(FORMAT_KEY, FORMAT)?;
            // The larger of the two commits: a compaction that has begun to remove records must
            // stay in force, or lists at old revisions would return gaps.
            meta.insert(COMPACTED_KEY, found.compacted)?;
            drop(meta);
            Ok(transaction.commit()?)
        };
        write().map_err(|error| self.io(error))
    }
}
