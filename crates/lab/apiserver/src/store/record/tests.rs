use proptest::prelude::*;
use serde_json::json;

use super::*;

const KEY: &str = "/registry/configmaps/default/settings";

fn event(key: &str, value: &str, delete: bool) -> Event {
    let entry = Entry::new(
        Arc::from(key),
        Bytes::copy_from_slice(value.as_bytes()),
        7,
        9,
        None,
    );
    Event::new(entry, delete, None)
}

fn object(name: &str) -> String {
    json!({"kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"a": "b"}}).to_string()
}

fn encoded(event: &Event) -> Vec<u8> {
    let mut space = vec![0; length(event).unwrap()];
    encode(event, &mut space);
    space
}

/// A record in format 1.
fn unchecked(key: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![UNCHECKED_PUT];
    bytes.extend_from_slice(&7_u64.to_le_bytes());
    bytes.extend_from_slice(&u32::try_from(key.len()).unwrap().to_le_bytes());
    bytes.extend_from_slice(key.as_bytes());
    bytes.extend_from_slice(value);
    bytes
}

#[test]
fn records_are_read_as_they_were_written() {
    for delete in [false, true] {
        let event = event(KEY, &object("settings"), delete);
        let record = decode(9, &encoded(&event)).unwrap();
        assert_eq!(record.entry, *event.entry);
        assert_eq!(record.delete, delete);
        assert_eq!(record.entry.damage(), None);
    }
}

#[test]
fn records_of_format_1_are_read() {
    let record = decode(9, &unchecked(KEY, object("settings").as_bytes())).unwrap();
    assert_eq!(&*record.entry.key, KEY);
    assert_eq!(record.entry.create_revision, 7);
    assert_eq!(record.entry.damage(), None);
}

#[test]
fn unchecked_records_that_are_no_objects_are_damaged() {
    let values: [&[u8]; 7] = [
        b"",
        b"{\"metadata\":{\"name\":\"settings\"",
        b"42",
        b"[]",
        b"[{\"name\":\"settings\"}]",
        b"{\"metadata\":{\"name\":\"settings\",\"namespace\":\"default\"},\"data\":\"\xff\"}",
        b"{\"metadata\":{\"name\":\"other\",\"namespace\":\"default\"}}",
    ];
    for value in values {
        let record = decode(9, &unchecked(KEY, value)).unwrap();
        assert_eq!(&*record.entry.key, KEY);
        assert!(
            record.entry.damage().is_some(),
            "{:?}",
            String::from_utf8_lossy(value)
        );
    }
}

#[test]
fn records_moved_to_another_revision_are_damaged() {
    let bytes = encoded(&event(KEY, &object("settings"), false));
    assert!(decode(10, &bytes).unwrap().entry.damage().is_some());
}

#[test]
fn damaged_deletion_does_not_restore_the_previous_version() {
    let mut bytes = encoded(&event(KEY, &object("settings"), true));
    bytes[0] = 200;
    let record = decode(9, &bytes).unwrap();
    assert!(!record.delete);
    assert!(record.entry.damage().is_some());
}

#[test]
fn records_without_a_key_belong_to_no_object() {
    assert!(decode(9, &[]).is_none());
    assert!(decode(9, &[0; 100]).is_none());
    assert!(decode(9, &[255; 100]).is_none());
}

proptest! {
    /// A flipped bit is detected anywhere, and never attributed to another object.
    #[test]
    fn any_flipped_bit_is_detected(at in 0_usize..4096, bit in 0_u8..8, delete: bool) {
        let event = event(KEY, &object("settings"), delete);
        let mut bytes = encoded(&event);
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        if let Some(record) = decode(9, &bytes) {
            prop_assert!(record.entry.damage().is_some());
            prop_assert!(record.entry.object().is_err());
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(revision: u64, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Some(record) = decode(revision, &bytes) {
            prop_assert_eq!(record.entry.mod_revision, revision);
        }
    }

    #[test]
    fn any_truncation_is_detected(length in 0_usize..4096) {
        let bytes = encoded(&event(KEY, &object("settings"), false));
        let length = length % bytes.len();
        if let Some(record) = decode(9, &bytes[..length]) {
            prop_assert!(record.entry.damage().is_some());
        }
    }
}
