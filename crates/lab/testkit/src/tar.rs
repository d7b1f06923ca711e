//! Tar archives for layers, well-formed and malicious ones.

use std::fmt::Write as _;

/// Block size in bytes.
const BLOCK: usize = 512;

/// A builder of a tar archive.
#[derive(Debug, Clone, Default)]
pub struct Tar {
    bytes: Vec<u8>,
    records: Vec<u8>,
}

impl Tar {
    /// An empty archive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory.
    #[must_use]
    pub fn folder(self, path: &str, mode: u32) -> Self {
        self.entry(b'5', path, "", mode, &[])
    }

    /// Adds a file.
    #[must_use]
    pub fn file(self, path: &str, mode: u32, content: impl AsRef<[u8]>) -> Self {
        self.entry(b'0', path, "", mode, content.as_ref())
    }

    /// Adds a hard link.
    #[must_use]
    pub fn hard_link(self, path: &str, to: &str) -> Self {
        self.entry(b'1', path, to, 0o644, &[])
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn symbolic_link(self, path: &str, to: &str) -> Self {
        self.entry(b'2', path, to, 0o777, &[])
    }

    /// Adds an entry of any type: `b'3'` is a character device, `b'6'` a pipe.
    #[must_use]
    pub fn special(self, flag: u8, path: &str) -> Self {
        self.entry(flag, path, "", 0o600, &[])
    }

    /// Adds a record of an extended header for the next entry: `SCHILY.xattr.user.a`, `mtime`.
    #[must_use]
    pub fn record(mut self, key: &str, value: &[u8]) -> Self {
        // A record begins with its own length.
        let rest = key.len() + value.len() + 3;
        let mut length = rest + 1;
        while length != rest + length.to_string().len() {
            length = rest + length.to_string().len();
        }
        let mut head = String::new();
        let _ = write!(head, "{length} {key}=");
        self.records.extend(head.into_bytes());
        self.records.extend(value);
        self.records.push(b'\n');
        self
    }

    /// Finishes the archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 2 * BLOCK, 0);
        self.bytes
    }

    fn entry(mut self, flag: u8, path: &str, link: &str, mode: u32, content: &[u8]) -> Self {
        let records = std::mem::take(&mut self.records);
        if !records.is_empty() {
            self.put(b'x', "pax", "", 0o644, &records);
        }
        self.put(flag, path, link, mode, content);
        self
    }

    fn put(&mut self, flag: u8, path: &str, link: &str, mode: u32, content: &[u8]) {
        let mut block = [0; BLOCK];
        let mut set = |at: usize, bytes: &[u8]| {
            if let Some(place) = block.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        set(0, path.as_bytes());
        set(100, format!("{mode:07o}\0").as_bytes());
        set(108, b"0001750\0");
        set(116, b"0001751\0");
        set(124, format!("{:011o}\0", content.len()).as_bytes());
        set(136, b"14524770400\0");
        set(148, b"        ");
        set(156, &[flag]);
        set(157, link.as_bytes());
        set(257, b"ustar\x0000");
        // The device numbers of /dev/null; entries other than devices ignore them.
        set(329, b"0000001\0");
        set(337, b"0000003\0");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        if let Some(place) = block.get_mut(148..156) {
            place.copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
        self.bytes.extend(block);
        self.bytes.extend(content);
        let length = self.bytes.len().next_multiple_of(BLOCK);
        self.bytes.resize(length, 0);
    }
}
