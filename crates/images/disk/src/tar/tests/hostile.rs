//! Archives that no archiver writes.

use super::*;

/// A header with any bytes in its size.
fn sized(flag: u8, size: [u8; 12]) -> Vec<u8> {
    let mut block = block("a", flag, 0);
    block[124..136].copy_from_slice(&size);
    sealed(block)
}

fn base_256(size: u64) -> [u8; 12] {
    let mut field = [0; 12];
    field[0] = 0x80;
    field[4..].copy_from_slice(&size.to_be_bytes());
    field
}

fn with_pax(records: &[(&str, &[u8])], after: &[u8]) -> Vec<u8> {
    described(b'x', &all_records(records), after)
}

fn all_records(records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut about = Vec::new();
    for (key, value) in records {
        let rest = key.len() + value.len() + 3;
        let digits = (1..10).find(|digits| (rest + digits).to_string().len() == *digits);
        about.extend(format!("{} {key}=", rest + digits.unwrap()).into_bytes());
        about.extend(*value);
        about.push(b'\n');
    }
    about
}

fn described(flag: u8, about: &[u8], after: &[u8]) -> Vec<u8> {
    let mut archive = block("about", flag, about.len());
    archive.extend(about);
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    archive.extend(after);
    archive
}

#[test]
fn largest_sizes_do_not_overflow() {
    for size in [u64::MAX, u64::MAX - 1, u64::MAX - 511, 1 << 63] {
        let archive = [sized(b'0', base_256(size)), vec![7; 1024]].concat();
        let mut reader = Reader::default();
        let mut input = archive.as_slice();
        let Some(Event::Entry(entry)) = reader.next(&mut input).unwrap() else {
            panic!("no entry");
        };
        assert_eq!(entry.size, size);
        while reader.next(&mut input).unwrap().is_some() {}
        assert_eq!(reader.end(), Err(TarError::Truncated { offset: 1536 }));
        // Nor is it one with any other type.
        for flag in 0..=255 {
            let archive = [sized(flag, base_256(size)), vec![7; 1024]].concat();
            assert!(read(&archive, 512).is_err(), "{flag}");
        }
    }
    for field in [[0xff; 12], [0xbf; 12], *b"999999999999"] {
        assert!(matches!(
            read(&sized(b'0', field), 512),
            Err(TarError::Header { .. })
        ));
    }
}

#[test]
fn names_longer_than_path_max_are_rejected() {
    let long = vec![b'n'; MAX_NAME + 1];
    let file = block("x", b'0', 0);
    let link = block("x", b'2', 0);
    for archive in [
        with_pax(&[("path", &long)], &file),
        with_pax(&[("linkpath", &long)], &link),
        described(b'L', &long, &file),
        described(b'K', &long, &link),
    ] {
        assert!(matches!(
            read(&archive, 512),
            Err(TarError::NameTooLong { length: 4097, .. })
        ));
    }
    let longest = vec![b'n'; MAX_NAME];
    let entries = read(&described(b'L', &longest, &file), 512).unwrap();
    assert_eq!(entries[0].0.path, longest);
}

#[test]
fn extended_headers_have_a_limit() {
    let huge = usize::try_from(MAX_EXTENDED_HEADER).unwrap() + 1;
    for flag in *b"xgX" {
        assert!(matches!(
            read(&block("x", flag, huge), 512),
            Err(TarError::TooLong { .. })
        ));
    }
}

#[test]
fn ambiguous_headers_are_rejected() {
    let file = block("x", b'0', 0);
    let pax = |records: &[(&str, &[u8])]| with_pax(records, b"");
    let long = |name: &[u8]| described(b'L', name, b"");
    for before in [
        [pax(&[("path", b"a")]), pax(&[("path", b"b")])].concat(),
        [long(b"a"), long(b"b")].concat(),
        [long(b"a"), pax(&[("path", b"b")])].concat(),
        described(b'g', &all_records(&[("size", b"1024")]), b""),
        described(b'g', &all_records(&[("path", b"all")]), b""),
        pax(&[("path", b"a\0b")]),
        pax(&[("size", b"+5")]),
        pax(&[("GNU.sparse.name", b"a")]),
    ] {
        let archive = [&before[..], &file].concat();
        let refused = read(&archive, 512);
        assert!(
            matches!(refused, Err(TarError::Header { .. })),
            "{refused:?}"
        );
    }
    // What describes nothing is cut off.
    assert!(read(&long(b"a"), 512).is_err());
    assert!(read(&[long(b"a"), vec![0; 1024]].concat(), 512).is_err());
}

#[rstest]
#[case::overlap("0,512,256,512", 1024)]
#[case::backwards("1024,512,0,512", 1024)]
#[case::behind_the_end("0,512,1048576,512", 1024)]
#[case::more_data("0,512", 1024)]
#[case::less_data("0,1024", 512)]
#[case::inside_a_block("0,100,512,512", 612)]
#[case::overflow("18446744073709551615,512", 512)]
#[case::sum("0,18446744073709551104,18446744073709551104,1024", 512)]
#[case::odd("0,512,1024", 512)]
#[case::nothing("", 0)]
fn maps_that_make_no_file_are_refused(#[case] map: &str, #[case] stored: usize) {
    let records: [(&str, &[u8]); 2] = [
        ("GNU.sparse.size", b"1000000"),
        ("GNU.sparse.map", map.as_bytes()),
    ];
    let archive = [with_pax(&records, &block("x", b'0', stored)), vec![1; 2048]].concat();
    let refused = read(&archive, 512);
    assert!(
        matches!(refused, Err(TarError::Header { .. })),
        "{refused:?}"
    );
}

#[test]
fn map_of_a_sparse_file_has_a_limit() {
    // In front of the data.
    let records: [(&str, &[u8]); 3] = [
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.realsize", b"9999999999999"),
    ];
    let mut map = b"131073\n".to_vec();
    map.resize(BLOCK, b'0');
    let archive = [with_pax(&records, &block("x", b'0', 1 << 30)), map].concat();
    assert!(
        read(&archive, 512)
            .unwrap_err()
            .to_string()
            .contains("131072")
    );
    // In blocks without end behind an old header.
    let mut header = block("x", b'S', 0);
    header[482] = 1;
    header[483..495].copy_from_slice(b"77777777777\0");
    let mut archive = sealed(header);
    let mut more = b"77777777777\x0000000000000\0".repeat(21);
    more.resize(BLOCK, 0);
    more[504] = 1;
    for _ in 0..7000 {
        archive.extend(&more);
    }
    assert!(
        read(&archive, 4096)
            .unwrap_err()
            .to_string()
            .contains("131072")
    );
}
