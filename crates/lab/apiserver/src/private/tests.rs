use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn new_files_and_folders_are_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("a/b");
    make_folder(&below).unwrap();
    let (written, opened) = (below.join("written"), below.join("opened"));
    write(&written, b"secret").unwrap();
    drop(open(&opened).unwrap());
    assert_eq!(mode(&below), 0o700);
    assert_eq!(mode(&folder.path().join("a")), 0o700);
    assert_eq!(mode(&written), 0o600);
    assert_eq!(mode(&opened), 0o600);
    assert_eq!(mode(beside(&written).unwrap().path()), 0o600);
}

#[test]
fn planted_link_is_replaced_by_a_write_and_refused_by_an_open() {
    let folder = tempfile::tempdir().unwrap();
    let (victim, planted) = (folder.path().join("victim"), folder.path().join("planted"));
    fs::write(&victim, "mine").unwrap();
    symlink(&victim, &planted).unwrap();
    assert!(open(&planted).is_err());
    assert!(narrow(&planted).is_err());
    write(&planted, b"secret").unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    assert!(!fs::symlink_metadata(&planted).unwrap().is_symlink());

    let dangling = folder.path().join("dangling");
    symlink(folder.path().join("nowhere"), &dangling).unwrap();
    assert!(open(&dangling).is_err());
    assert!(!folder.path().join("nowhere").exists());
}

#[test]
fn readable_file_is_narrowed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    fs::write(&path, "objects").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
    narrow(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert!(narrow(folder.path()).is_err());
}

#[test]
fn no_temporary_file_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    write(&path, b"one").unwrap();
    write(&path, b"two").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "two");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
