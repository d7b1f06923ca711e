use rstest::rstest;

use super::*;

fn entry(path: &str, kind: Kind, link: &str) -> Entry {
    Entry {
        path: path.as_bytes().to_vec(),
        link: link.as_bytes().to_vec(),
        kind,
        size: 0,
        stored: 0,
        attributes: crate::tar::Attributes::default(),
    }
}

fn file(path: &str) -> Entry {
    entry(path, Kind::File, "")
}

fn folder(path: &str) -> Entry {
    entry(path, Kind::Directory, "")
}

fn soft(path: &str, link: &str) -> Entry {
    entry(path, Kind::SymbolicLink, link)
}

fn hard(path: &str, link: &str) -> Entry {
    entry(path, Kind::HardLink, link)
}

/// What is found in layers that are given base first: its name, and the layer it is in.
fn look(layers: &[Vec<Entry>]) -> Result<(String, usize), OverlayError> {
    let mut overlay = Overlay::default();
    for (number, layer) in layers.iter().enumerate().rev() {
        let mut taken = false;
        for entry in layer {
            taken |= overlay.entry(entry)? == Action::Take;
        }
        if let LayerVerdict::Found(name) = overlay.end_layer()? {
            assert!(taken);
            return Ok((name, number));
        }
        assert!(!taken);
    }
    Err(overlay.nothing())
}

#[rstest]
#[case::plain(vec![vec![folder("disk/"), file("disk/disk.img")]], 0)]
#[case::dot(vec![vec![folder("./disk/"), file("./disk/disk.img")]], 0)]
#[case::absolute(vec![vec![file("/disk/disk.img")]], 0)]
#[case::doubled(vec![vec![file(".//disk//./disk.img")]], 0)]
#[case::no_folder_entry(vec![vec![file("disk/disk.img")]], 0)]
#[case::a_layer_above_without(vec![vec![file("disk/disk.img")], vec![file("etc/passwd")]], 0)]
#[case::upper_wins(vec![vec![file("disk/disk.img")], vec![file("disk/disk.img")]], 1)]
#[case::upper_decides(vec![vec![file("disk/old.img")], vec![file("disk/disk.img")]], 1)]
#[case::whiteout_of_its_own_layer_is_for_those_below(
    vec![vec![file("disk/old.img")], vec![file("disk/.wh.disk.img"), file("disk/disk.img")]], 1)]
#[case::hides_only_what_is_named(
    vec![vec![file("disk/disk.img")], vec![file("disk/.wh.other.img")]], 0)]
#[case::diskette(vec![vec![file("diskette/x"), file("disk.img"), file("disk/disk.img")]], 0)]
#[case::soft_link(vec![vec![file("disk/disk.img"), soft("disk/latest", "disk.img")]], 0)]
#[case::soft_link_first(vec![vec![soft("disk/a", "../disk/disk.img"), file("disk/disk.img")]], 0)]
#[case::soft_link_absolute(vec![vec![soft("disk/a", "/disk/disk.img"), file("disk/disk.img")]], 0)]
#[case::soft_link_above(vec![vec![file("disk/disk.img")], vec![soft("disk/a", "disk.img")]], 0)]
#[case::chain(vec![vec![soft("disk/a", "b"), soft("disk/b", "disk.img"), file("disk/disk.img")]], 0)]
#[case::hard_link(vec![vec![file("disk/disk.img"), hard("disk/other", "disk/disk.img")]], 0)]
#[case::hard_link_dot(vec![vec![file("./disk/disk.img"), hard("./disk/x", "./disk/disk.img")]], 0)]
#[case::empty_folders(vec![vec![folder("disk/lost+found"), file("disk/disk.img")]], 0)]
#[case::aufs(vec![vec![file("disk/.wh..wh.plnk"), file("disk/disk.img")]], 0)]
#[case::folder_over_file(vec![vec![file("disk/disk.img"), file("disk/a")], vec![folder("disk/a")]], 0)]
fn found(#[case] layers: Vec<Vec<Entry>>, #[case] layer: usize) {
    assert_eq!(look(&layers), Ok(("disk.img".to_owned(), layer)));
}

#[rstest]
#[case::nothing(vec![], "NoDisk")]
#[case::empty(vec![vec![folder("disk")]], "NoDisk")]
#[case::elsewhere(vec![vec![file("disks/disk.img"), file("disk.img")]], "NoDisk")]
#[case::whiteout(vec![vec![file("disk/disk.img")], vec![file("disk/.wh.disk.img")]], "NoDisk")]
#[case::opaque(vec![vec![file("disk/disk.img")], vec![file("disk/.wh..wh..opq")]], "NoDisk")]
#[case::opaque_root(vec![vec![file("disk/disk.img")], vec![file(".wh..wh..opq")]], "NoDisk")]
#[case::folder_gone(vec![vec![file("disk/disk.img")], vec![file("./.wh.disk")]], "NoDisk")]
#[case::gone_two_above(
    vec![vec![file("disk/disk.img")], vec![file("disk/.wh.disk.img")], vec![file("a")]], "NoDisk")]
#[case::two(vec![vec![file("disk/a"), file("disk/b")]], "MoreThanOneDisk")]
#[case::twice(vec![vec![file("disk/a"), file("./disk/a")]], "MoreThanOneDisk")]
#[case::nested(vec![vec![file("disk/images/a")]], "BadDisk")]
#[case::device(vec![vec![entry("disk/sda", Kind::BlockDevice, "")]], "BadDisk")]
#[case::not_a_folder(vec![vec![file("disk")]], "BadDisk")]
#[case::link_to_a_folder(vec![vec![soft("disk", "images")]], "BadDisk")]
#[case::link_out(vec![vec![soft("disk/a", "/etc/passwd")]], "BadDisk")]
#[case::link_up_and_out(vec![vec![soft("disk/a", "../../../etc/passwd"), file("disk/b")]], "BadDisk")]
#[case::dangling(vec![vec![soft("disk/a", "b")]], "BadDisk")]
#[case::another_dangling(vec![vec![soft("disk/a", "b"), file("disk/c")]], "BadDisk")]
#[case::circle(vec![vec![soft("disk/a", "b"), soft("disk/b", "a"), file("disk/c")]], "BadDisk")]
#[case::hard_link_out(vec![vec![file("images/a"), hard("disk/a", "images/a")]], "BadDisk")]
#[case::climbing(vec![vec![file("../disk/disk.img")]], "BadLayer")]
#[case::climbing_inside(vec![vec![file("disk/../../etc/passwd")]], "BadLayer")]
#[case::climbing_elsewhere(vec![vec![file("a/../b"), file("disk/disk.img")]], "BadLayer")]
fn refused(#[case] layers: Vec<Vec<Entry>>, #[case] reason: &str) {
    let error = look(&layers).unwrap_err();
    assert_eq!(error.reason(), reason, "{error}");
}

#[test]
fn names_have_a_limit() {
    let layer = (0..20_000).map(|n| folder(&format!("disk/{n}"))).collect();
    assert_eq!(look(&[layer]), Err(OverlayError::TooMany));
}
