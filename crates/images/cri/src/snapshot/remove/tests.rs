use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

/// Creates nested folders, deeper than any path can name.
fn deep(root: &Path, depth: usize) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = rustix::fs::openat(CWD, root, flags, Mode::empty()).unwrap();
    for _ in 0..depth {
        rustix::fs::mkdirat(&folder, "d", Mode::from_bits_truncate(0o755)).unwrap();
        folder = open_folder(folder.as_fd(), b"d").unwrap();
    }
}

#[test]
fn tree_of_20_000_levels_is_removed_without_recursion() {
    let root = tempfile::tempdir().unwrap();
    let tree = root.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    deep(&tree, 20_000);
    // A stack on which recursion would fail, and few file descriptors.
    let path = tree.clone();
    std::thread::Builder::new()
        .stack_size(128 << 10)
        .spawn(move || remove_tree(&path).unwrap())
        .unwrap()
        .join()
        .unwrap();
    assert!(!tree.exists());
}

#[test]
fn links_are_removed_and_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let (tree, outside) = (root.path().join("tree"), root.path().join("outside"));
    std::fs::create_dir_all(tree.join("a/b")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "x").unwrap();
    symlink(&outside, tree.join("a/link")).unwrap();
    for number in 0..500 {
        std::fs::write(tree.join(format!("a/b/{number}")), "").unwrap();
        std::fs::create_dir(tree.join(format!("a/{number}"))).unwrap();
    }
    std::fs::set_permissions(tree.join("a/b"), std::fs::Permissions::from_mode(0o0)).unwrap();
    remove_tree(&tree).unwrap();
    assert!(!tree.exists());
    assert!(outside.join("file").exists());
    // Removing a missing tree succeeds.
    remove_tree(&tree).unwrap();
    remove_tree(&tree.join("no/such")).unwrap();
}
