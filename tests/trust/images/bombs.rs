//! Layers that exceed their limits.

use platform::Digest;

use super::fixtures::{
    Blob, Layer, base, header, in_largest_window, layer, many_tables, octal, xz, zstd,
};

/// A path of maximum length that ends with a name.
pub(crate) fn long_path(last: &str) -> String {
    let folder = format!("{}/", "p".repeat(250));
    folder.repeat(14) + &"q".repeat(200) + last
}

/// Layers that need too much memory, depth or time: name, layers, and the expected error, empty
/// if the pull succeeds.
pub(crate) fn bombs() -> Vec<(&'static str, Vec<Blob>, &'static str)> {
    let deep = |depth: usize| vec!["d"; depth].join("/");
    let tree = deep(500);
    vec![
        (
            "deep-path",
            vec![layer(|layer| layer.path(b'0', &deep(15_000), ""))],
            "the maximum is 4096",
        ),
        (
            "deep-folders",
            vec![layer(|layer| layer.path(b'5', &deep(2000), ""))],
            "the maximum is 512",
        ),
        (
            // Each link points to the end of the previous one.
            "deep-links",
            vec![layer(|layer| {
                layer.path(b'5', &tree, "");
                layer.path(b'2', "l", &tree);
                layer.path(b'5', &format!("l/{tree}"), "");
            })],
            "the maximum is 512 and 4096",
        ),
        (
            "long-part",
            vec![layer(|layer| layer.path(b'0', &"n".repeat(256), ""))],
            "the maximum is 255",
        ),
        (
            // Paths of four kilobytes each: a layer of 4 MB used to take 2 GB of names.
            "many-long-names",
            vec![
                base(),
                layer(|layer| {
                    for number in 0..40_000 {
                        layer.path(b'1', &long_path(&number.to_string()), "base");
                    }
                }),
            ],
            "",
        ),
        (
            "many-folders",
            vec![
                base(),
                layer(|layer| {
                    for number in 0..30_000 {
                        layer.path(b'5', &long_path(&number.to_string()), "");
                    }
                }),
            ],
            "",
        ),
        (
            "long-links",
            vec![layer(|layer| {
                for number in 0..20_000 {
                    layer.path(b'2', &format!("link-{number}"), &long_path("target"));
                }
            })],
            "",
        ),
        (
            "extended-attributes",
            vec![layer(|layer| {
                let value = vec![7; 60_000];
                for number in 0..400 {
                    let names: Vec<String> = (0..16)
                        .map(|key| format!("SCHILY.xattr.user.{key}"))
                        .collect();
                    let records: Vec<(&str, &[u8])> = names
                        .iter()
                        .map(|name| (name.as_str(), &value[..]))
                        .collect();
                    layer.pax(&records);
                    layer.entry(b'5', &format!("folder-{number}"), "", b"");
                }
            })],
            "268435456 bytes",
        ),
        (
            "extended-header",
            vec![layer(|layer| {
                layer.entry(b'x', "pax", "", &vec![b'9'; 2 << 20]);
            })],
            "the maximum is 1048576",
        ),
        (
            "whiteouts",
            vec![
                base(),
                layer(|layer| {
                    for number in 0..200_000 {
                        layer.entry(b'0', &format!(".wh.{number}"), "", b"");
                    }
                    for _ in 0..2000 {
                        layer.entry(b'0', ".wh..wh..opq", "", b"");
                    }
                }),
            ],
            "",
        ),
        (
            "deep-tree-removed",
            vec![
                layer(|layer| {
                    for number in 0..50 {
                        layer.path(b'5', &format!("{number}/{}", deep(500)), "");
                    }
                }),
                layer(|layer| {
                    for number in 0..25 {
                        layer.entry(b'0', &format!(".wh.{number}"), "", b"");
                    }
                    layer.entry(b'0', ".wh..wh..opq", "", b"");
                }),
            ],
            "",
        ),
        (
            "zip-bomb",
            vec![layer(|layer| {
                layer.raw(&header(b'0', "zeros", "", *b"77777777777\0"));
                for _ in 0..1000 {
                    layer.raw(&vec![0; 1 << 20]);
                }
            })],
            "limit",
        ),
        (
            "zstd-window",
            vec![Blob {
                bytes: zstd(27, &header(b'V', "label", "", octal(300 << 20)), 300 << 20),
                diff_id: Digest::sha256(b"never computed"),
            }],
            "window of more than 33554432 bytes",
        ),
        (
            "largest-window",
            vec![Blob {
                bytes: zstd(25, &header(b'V', "label", "", octal(300 << 20)), 300 << 20),
                diff_id: Digest::sha256(b"something else"),
            }],
            "diff-id",
        ),
        (
            "size-of-2-to-the-64",
            vec![layer(|layer| {
                let mut size = [0xff; 12];
                size[..4].copy_from_slice(&[0x80, 0, 0, 0]);
                layer.raw(&header(b'0', "huge", "", size));
                layer.raw(&[7; 4096]);
            })],
            "18446744073709551615 bytes",
        ),
    ]
}

/// Layers that need too much memory in an importer.
pub(crate) fn disk_bombs() -> Vec<(&'static str, Blob, &'static str)> {
    let sparse = |layer: &mut Layer, size: &[u8]| {
        layer.pax(&[
            ("GNU.sparse.size", size),
            ("GNU.sparse.map", b"0,512"),
            ("GNU.sparse.name", b"disk/disk.img"),
        ]);
        layer.entry(b'0', "x", "", &[7; 512]);
    };
    let label = header(b'V', "label", "", octal(300 << 20));
    vec![
        (
            "names",
            layer(|layer| {
                for number in 0..9000 {
                    let name = "n".repeat(4000);
                    layer.path(b'2', &format!("disk/{number}{name}"), "disk.img");
                }
            }),
            "bytes of names",
        ),
        (
            "whiteouts",
            layer(|layer| {
                for number in 0..9000 {
                    let name = "n".repeat(4000);
                    layer.path(b'0', &format!("disk/.wh.{number}{name}"), "");
                }
            }),
            "bytes of names",
        ),
        (
            "deep-path",
            layer(|layer| layer.path(b'0', &"d/".repeat(15_000), "")),
            "the maximum is 4096",
        ),
        (
            "extended-header",
            layer(|layer| layer.entry(b'x', "pax", "", &vec![b'9'; 2 << 20])),
            "the maximum is 1048576",
        ),
        (
            "window",
            Blob {
                bytes: zstd(27, &label, 300 << 20),
                diff_id: Digest::sha256(b"never computed"),
            },
            "window of more than 33554432 bytes",
        ),
        (
            "windows",
            in_largest_window("disk/disk.img.xz", &xz(8 << 20, 256 << 20)),
            "",
        ),
        (
            "inner-window",
            in_largest_window("disk/disk.img.xz", &xz(64 << 20, 256 << 20)),
            "window of more than 8388608 bytes",
        ),
        (
            "tables",
            layer(|layer| layer.entry(b'0', "disk/disk.qcow2", "", &many_tables())),
            "a table",
        ),
        ("sparse", layer(|layer| sparse(layer, b"17179869184")), ""),
        (
            "sparse-bomb",
            layer(|layer| sparse(layer, b"1152921504606846976")),
            "1152921504606846976",
        ),
        (
            "size-of-2-to-the-64",
            layer(|layer| {
                let mut size = [0xff; 12];
                size[..4].copy_from_slice(&[0x80, 0, 0, 0]);
                layer.raw(&header(b'0', "disk/disk.img", "", size));
                layer.raw(&[7; 4096]);
            }),
            "18446744073709551615",
        ),
        (
            "zip-bomb",
            layer(|layer| {
                layer.raw(&header(b'0', "disk/disk.img", "", *b"77777777777\0"));
                for _ in 0..500 {
                    layer.raw(&vec![0; 1 << 20]);
                }
            }),
            "cut off",
        ),
    ]
}
