use std::collections::BTreeMap;

use redb::Database;
use tempfile::NamedTempFile;

use super::*;
use crate::store::disk::{LOG, META};

/// A database with records of all sizes, in many pages, after some were removed.
fn database(records: u64) -> (NamedTempFile, BTreeMap<u64, Vec<u8>>) {
    let file = NamedTempFile::new().unwrap();
    let db = Database::create(file.path()).unwrap();
    let mut expected = BTreeMap::new();
    for batch in 0..4 {
        let transaction = db.begin_write().unwrap();
        {
            let mut log = transaction.open_table(LOG).unwrap();
            for revision in (batch * records..).take(usize::try_from(records).unwrap()) {
                let length = usize::try_from(revision * 37 % 3000).unwrap();
                let value = vec![revision.to_le_bytes()[0]; length];
                log.insert(revision, value.as_slice()).unwrap();
                expected.insert(revision, value);
            }
            for revision in (0..batch * records).step_by(3) {
                log.remove(revision).unwrap();
                expected.remove(&revision);
            }
            let mut meta = transaction.open_table(META).unwrap();
            meta.insert("compacted", batch).unwrap();
        }
        transaction.commit().unwrap();
    }
    drop(db);
    (file, expected)
}

fn read(file: &File) -> (BTreeMap<u64, Vec<u8>>, BTreeMap<String, u64>) {
    let (mut records, mut numbers) = (BTreeMap::new(), BTreeMap::new());
    for commit in Pages::commits(file).unwrap() {
        let mut pages = Pages::new(file, *commit).unwrap();
        pages.records(LOG, |revision, bytes| {
            records.insert(revision, bytes.to_vec());
        });
        pages.numbers(META, |name, value| {
            numbers.insert(name.to_owned(), value);
        });
    }
    (records, numbers)
}

#[test]
fn every_record_of_the_database_is_read() {
    for records in [1, 10, 2000] {
        let (file, expected) = database(records);
        let (found, numbers) = read(file.as_file());
        // The previous commit may still have records that the last one removed.
        for (revision, value) in &expected {
            assert_eq!(found.get(revision), Some(value), "revision {revision}");
        }
        assert!(numbers.contains_key("compacted"));
    }
}

#[test]
fn other_files_yield_no_records() {
    let file = NamedTempFile::new().unwrap();
    assert!(Pages::commits(file.as_file()).unwrap().is_empty());
    std::fs::write(file.path(), vec![b'x'; 10_000]).unwrap();
    assert!(Pages::commits(file.as_file()).unwrap().is_empty());
}
