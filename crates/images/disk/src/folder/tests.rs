use std::io::Write as _;
use std::path::Path;

use super::*;

const LIMITS: FolderLimits = FolderLimits {
    files: 100,
    bytes: 1 << 20,
    unpack: Limits {
        unpacked: 1 << 30,
        ratio: 2000,
        free: 1 << 30,
        window_log: 27,
    },
};

/// An archive of GNU tar with these files, in this order.
fn layer(files: &[(&str, &str)]) -> Vec<u8> {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    tar(root.path(), files.iter().map(|(path, _)| *path))
}

fn tar<'a>(root: &Path, paths: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let output = std::process::Command::new("tar")
        .arg("-C")
        .arg(root)
        .args(["-cf", "-"])
        .args(paths)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

fn read(layers: &[Vec<u8>]) -> Result<Vec<(String, String)>, Error> {
    let mut folder = Folder::new("/release-manifests", LIMITS);
    for layer in layers {
        folder.layer("layer", layer.as_slice())?;
    }
    let files = folder.files().into_iter();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ok(files.map(|(name, bytes)| (name, text(bytes))).collect())
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect()
}

#[test]
fn layers_lie_on_top_of_each_other() {
    let below = layer(&[
        ("release-manifests/a", "old"),
        ("release-manifests/b", "gone"),
        ("release-manifests/c", "kept"),
        ("release-manifests/deep/d", "elsewhere"),
        ("release-manifests-2/e", "elsewhere"),
        ("f", "elsewhere"),
    ]);
    let above = layer(&[
        ("release-manifests/.wh.b", ""),
        ("release-manifests/a", "new"),
        ("release-manifests/g", ""),
    ]);
    let expected = [("a", "new"), ("c", "kept"), ("g", "")];
    assert_eq!(read(&[below, above]).unwrap(), pairs(&expected));
}

#[test]
fn a_folder_can_be_hidden_whole() {
    let below = layer(&[("release-manifests/a", "old")]);
    for hides in [
        "release-manifests/.wh..wh..opq",
        ".wh.release-manifests",
        ".wh..wh..opq",
    ] {
        // The whiteout comes after what it does not hide.
        let above = layer(&[("release-manifests/b", "new"), (hides, "")]);
        let found = read(&[below.clone(), above]).unwrap();
        assert_eq!(found, pairs(&[("b", "new")]), "{hides}");
    }
    let other = layer(&[(".wh.release", ""), ("etc/.wh..wh..opq", "")]);
    assert_eq!(read(&[below, other]).unwrap(), pairs(&[("a", "old")]));
}

#[test]
fn other_entry_types_are_skipped_and_hide_files() {
    let below = layer(&[("release-manifests/a", "old"), ("release-manifests/b", "x")]);
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("release-manifests");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("a")).unwrap();
    let link = tar(root.path(), ["release-manifests/a"].into_iter());
    assert_eq!(read(&[below.clone(), link]).unwrap(), pairs(&[("b", "x")]));
    let root = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/etc", root.path().join("release-manifests")).unwrap();
    let replaced = tar(root.path(), ["release-manifests"].into_iter());
    assert_eq!(read(&[below, replaced]).unwrap(), []);
}

#[test]
fn compressed_layers_are_read() {
    let plain = layer(&[("release-manifests/a", "text")]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let packed = [
        gzip.finish().unwrap(),
        zstd::encode_all(plain.as_slice(), 1).unwrap(),
    ];
    for packed in packed {
        let cut = packed[..packed.len() - 9].to_vec();
        assert_eq!(read(&[packed]).unwrap(), pairs(&[("a", "text")]));
        assert!(read(&[cut]).is_err());
    }
}

#[test]
fn there_are_limits() {
    let large = "x".repeat(700_000);
    let one = layer(&[("release-manifests/a", &large)]);
    let two = layer(&[("release-manifests/b", &large)]);
    assert!(read(std::slice::from_ref(&one)).is_ok());
    let error = read(&[one, two]).unwrap_err().to_string();
    assert!(
        error.contains("/release-manifests has more than 100 files or 1048576 bytes"),
        "{error}"
    );
    let names: Vec<String> = (0..101)
        .map(|it| format!("release-manifests/{it}"))
        .collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
    assert!(read(&[layer(&many)]).is_err());
}
