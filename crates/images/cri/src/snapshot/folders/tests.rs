use super::*;

fn attributes(mode: u32) -> Attributes {
    Attributes {
        mode,
        uid: 1,
        gid: 2,
        modified: (-3, 4),
        extended: vec![(b"user.a".to_vec(), b"\0=".to_vec())],
        ..Attributes::default()
    }
}

#[test]
fn last_attributes_of_a_folder_win() {
    let mut folders = Folders::new(tempfile::tempfile().unwrap());
    for (path, mode) in [(&b""[..], 1), (b"a", 2), (b"a/b", 3), (b"a", 4)] {
        folders.add(path, &attributes(mode)).unwrap();
    }
    let mut found = Vec::new();
    while let Some(folder) = folders.pop().unwrap() {
        found.push(folder);
    }
    assert_eq!(
        found,
        [(&b"a"[..], 4), (b"a/b", 3), (b"", 1)]
            .map(|(path, mode)| (path.to_vec(), attributes(mode)))
    );
}

#[test]
fn records_beyond_the_limit_are_rejected() {
    let mut folders = Folders::new(tempfile::tempfile().unwrap());
    let mut large = attributes(0);
    large.extended = vec![(b"user.a".to_vec(), vec![0; 64 << 20])];
    let added: Vec<bool> = (0..4).map(|_| folders.add(b"a", &large).is_ok()).collect();
    assert_eq!(added, [true, true, true, false]);
}
