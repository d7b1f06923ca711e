//! The reader beside GNU tar and Python's tarfile, over generated archives.
//!
//! Content is made to look like headers: a reader that takes another number of bytes for data lists files that the
//! others do not.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::*;

const ARCHIVES: u64 = 150;

/// Lists members as Python's tarfile has them, one line for each, in the form of [`line`].
const PYTHON: &str = r#"
import hashlib, sys, tarfile
for path in sys.argv[1:]:
    with tarfile.open(path, encoding="utf-8", errors="surrogateescape") as archive:
        for member in archive:
            kind, link, size, digest = "other", b"", 0, ""
            if member.isdir(): kind = "directory"
            elif member.islnk() or member.issym():
                kind = "hard" if member.islnk() else "symbolic"
                link = member.linkname.encode("utf-8", "surrogateescape")
            elif member.ischr(): kind = "character"
            elif member.isblk(): kind = "block"
            elif member.isfifo(): kind = "pipe"
            else:
                kind = "other" if member.type in (b"D", b"M", b"V") else "file"
                content = archive.extractfile(member).read()
                size, digest = len(content), hashlib.sha256(content).hexdigest()
            name = member.name.encode("utf-8", "surrogateescape")
            # It forgets global headers for old sparse files; GNU does not.
            uid = archive.pax_headers.get("uid", member.uid) if member.type == b"S" else member.uid
            print(name.rstrip(b"/").hex(), kind, link.hex(), size, uid, int(member.mtime), digest, sep="|")
    print("end")
"#;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn line(entry: &Entry, content: &[u8]) -> String {
    let kind = match entry.kind {
        Kind::File => "file",
        Kind::HardLink => "hard",
        Kind::SymbolicLink => "symbolic",
        Kind::Directory => "directory",
        Kind::CharacterDevice => "character",
        Kind::BlockDevice => "block",
        Kind::Pipe => "pipe",
        Kind::Other => "other",
    };
    let mut path = entry.path.as_slice();
    // Python strips slashes of directories, and of all names in extended headers.
    while let Some(shorter) = path.strip_suffix(b"/") {
        path = shorter;
    }
    let link = if matches!(kind, "hard" | "symbolic") {
        hex(&entry.link)
    } else {
        String::new()
    };
    let digest = match kind {
        "file" | "other" => platform::Digest::sha256(content).hash().to_owned(),
        _ => String::new(),
    };
    let Attributes { uid, modified, .. } = &entry.attributes;
    let size = content.len();
    format!(
        "{}|{kind}|{link}|{size}|{uid}|{}|{digest}",
        hex(path),
        modified.0
    )
}

/// What archives are generated from.
struct Dice(u64);

impl Dice {
    fn byte(&mut self) -> u8 {
        u8::try_from(self.roll(256)).unwrap()
    }

    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % below
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len())]
    }

    fn coin(&mut self) -> bool {
        self.roll(2) == 0
    }

    /// Bytes, which may look like an archive of their own.
    fn content(&mut self, length: usize) -> Vec<u8> {
        let hidden = Header::new(b"hidden", b'0', 5).block();
        let mut bytes: Vec<u8> = match self.roll(3) {
            0 => hidden.iter().copied().cycle().take(length).collect(),
            1 => vec![0; length],
            _ => (0..length).map(|_| self.byte()).collect(),
        };
        if length > 0 {
            // No two are alike.
            bytes[length - 1] = self.byte().max(1);
        }
        bytes
    }
}

struct Header {
    name: Vec<u8>,
    prefix: Vec<u8>,
    link: Vec<u8>,
    flag: u8,
    size: u64,
    is_base_256: bool,
    is_gnu: bool,
}

impl Header {
    fn new(name: &[u8], flag: u8, size: usize) -> Self {
        Self {
            name: name.to_vec(),
            prefix: Vec::new(),
            link: Vec::new(),
            flag,
            size: size as u64,
            is_base_256: false,
            is_gnu: false,
        }
    }

    fn block(&self) -> Vec<u8> {
        let mut block = block("", self.flag, 0);
        let mut set = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        set(0, &self.name);
        if self.is_base_256 {
            set(124, &[0x80, 0, 0, 0]);
            set(128, &self.size.to_be_bytes());
        } else {
            set(124, format!("{:011o}\0", self.size).as_bytes());
        }
        set(157, &self.link);
        set(
            257,
            if self.is_gnu {
                b"ustar  \0"
            } else {
                b"ustar\x0000"
            },
        );
        set(345, &self.prefix);
        sealed(block)
    }
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let digits = (1..10).find(|digits| (rest + digits).to_string().len() == *digits);
    let mut record = format!("{} {key}=", rest + digits.unwrap()).into_bytes();
    record.extend(value);
    record.push(b'\n');
    record
}

/// An archive, and the content that GNU tar extracts.
struct Generated {
    archive: Vec<u8>,
    extracted: Vec<u8>,
}

fn generate(dice: &mut Dice) -> Generated {
    let mut made = Generated {
        archive: Vec::new(),
        extracted: Vec::new(),
    };
    if dice.roll(4) == 0 {
        let about = [record("uid", b"4711"), record("comment", b"x=y")].concat();
        made.archive
            .extend(Header::new(b"global", b'g', about.len()).block());
        made.archive.extend(padded(about));
    }
    for number in 0..6 + dice.roll(10) {
        entry(dice, number, &mut made);
    }
    made.archive
        .extend(vec![0; dice.one_of(&[512, 1024, 10_240])]);
    // Behind the end anything may follow.
    if dice.coin() {
        made.archive.extend(Header::new(b"behind", b'0', 0).block());
    }
    made
}

/// A path, often one whose hundredth byte is a slash.
fn path(dice: &mut Dice, number: usize) -> Vec<u8> {
    match dice.roll(5) {
        0 => format!(
            "{}/{}-{number}",
            "d".repeat(99),
            "e".repeat(1 + dice.roll(120))
        ),
        1 => format!("{}{number:03}", "n".repeat(97)),
        2 => format!("{}/{number}", "long/".repeat(20 + dice.roll(60))),
        3 => format!("dir/with space/ü-{number}"),
        _ => format!("short-{number}"),
    }
    .into_bytes()
}

fn entry(dice: &mut Dice, number: usize, made: &mut Generated) {
    let flag = dice.one_of(b"\x0000000777123456SSPPPZA89NDV");
    let mut name = path(dice, number);
    let is_file = b"\x0007SPZA89NDV".contains(&flag);
    // Names of directories end in a slash, sometimes; so do names of files.
    if flag == b'5' && dice.coin() || b"07".contains(&flag) && dice.roll(12) == 0 {
        name.push(b'/');
    }
    let length = dice.one_of(&[0, 1, 511, 512, 513, 1024, 5000]);
    let content = if is_file {
        dice.content(length)
    } else {
        Vec::new()
    };
    let mut header = Header::new(b"", if flag == b'P' { b'0' } else { flag }, content.len());
    // All readers agree that these have no data.
    if b"15".contains(&flag) && dice.coin() {
        header.size = 1024;
    }
    let mut records = Vec::new();
    let mut extracted = content.clone();
    let mut stored = content;
    let mut block = None;
    match flag {
        b'S' => {
            header.is_gnu = true;
            (stored, extracted) = sparse(dice, |map, size| block = Some((map.to_vec(), size)));
        }
        b'P' => {
            let (data, whole) = sparse(dice, |map, size| block = Some((map.to_vec(), size)));
            let (map, size) = block.take().unwrap();
            (records, stored) = pax_sparse(dice, &map, size, data);
            extracted = whole;
        }
        b'1' | b'2' => header.link = format!("target-{number}").into_bytes(),
        _ => {}
    }
    if is_file {
        header.size = stored.len() as u64;
    }
    if dice.roll(4) == 0 {
        records.extend(record("mtime", b"1600000000.5"));
        records.extend(record("SCHILY.xattr.user.a", b"\0\n="));
    }
    // Of a sparse file Python takes it for the size with holes.
    if is_file && !b"SP".contains(&flag) && dice.roll(4) == 0 {
        records.extend(record("size", header.size.to_string().as_bytes()));
        header.size = dice.one_of(&[0, 7, 0o777_7777]);
    }
    header.is_base_256 = dice.roll(4) == 0;
    named(dice, &mut header, &name, &mut records, made);
    if !records.is_empty() {
        let flag = dice.one_of(b"xxX");
        let long = [&b"PaxHeaders/"[..], &name[..name.len().min(80)]].concat();
        made.archive
            .extend(Header::new(&long, flag, records.len()).block());
        made.archive.extend(padded(records));
    }
    let mut first = header.block();
    let mut more = Vec::new();
    if let Some((map, size)) = block {
        more = old_map(&mut first, &map, size);
        first = sealed(first);
    }
    made.archive.extend(first);
    made.archive.extend(more);
    made.archive.extend(padded(stored));
    let is_extracted = is_file && !b"DV".contains(&flag);
    // GNU makes a directory of it.
    if is_extracted && !name.ends_with(b"/") {
        made.extracted.extend(extracted);
    }
}

/// Puts the name where it fits: into the header, its prefix, a long name or a record.
fn named(
    dice: &mut Dice,
    header: &mut Header,
    name: &[u8],
    records: &mut Vec<u8>,
    made: &mut Generated,
) {
    let is_pax_sparse = records.windows(11).any(|part| part == b"GNU.sparse.");
    let split = name[..name.len().min(155)]
        .iter()
        .rposition(|byte| *byte == b'/');
    let cut = |name: &[u8]| name[..name.len().min(100)].to_vec();
    match split {
        _ if name.len() <= 100 && dice.coin() => header.name = name.to_vec(),
        Some(at) if !header.is_gnu && name.len() - at - 1 <= 100 && at + 1 < name.len() => {
            header.prefix = name[..at].to_vec();
            header.name = name[at + 1..].to_vec();
        }
        // Python takes type 0 for a directory if the hundredth byte of a long name is a slash.
        _ if header.flag == 0 && cut(name).ends_with(b"/") => {
            header.flag = b'0';
            named(dice, header, name, records, made);
        }
        _ if header.is_gnu || !is_pax_sparse && dice.coin() => {
            header.name = cut(name);
            header.is_gnu = true;
            let long = [name, b"\0"].concat();
            let mut about = Header::new(b"././@LongLink", b'L', long.len());
            about.is_gnu = true;
            made.archive.extend(about.block());
            made.archive.extend(padded(long));
        }
        _ => {
            header.name = cut(name);
            if is_pax_sparse && dice.coin() {
                // As GNU writes it for readers that know no sparse files.
                records.extend(record("path", b"GNUSparseFile.1/x"));
                records.extend(record("GNU.sparse.name", name));
            } else {
                records.extend(record("path", name));
            }
        }
    }
}

/// The stored bytes of a sparse file, and all of them.
fn sparse(dice: &mut Dice, mut take: impl FnMut(&[(u64, u64)], u64)) -> (Vec<u8>, Vec<u8>) {
    let (mut map, mut stored, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    let regions = dice.one_of(&[0, 1, 2, 4, 5, 30, 90]);
    for region in 0..regions {
        whole.resize(whole.len() + 512 * dice.roll(5), 0);
        let length = 512 * (1 + dice.roll(3));
        let length = if region + 1 == regions {
            length - dice.roll(512)
        } else {
            length
        };
        let data = dice.content(length);
        map.push((whole.len() as u64, length as u64));
        stored.extend(&data);
        whole.extend(&data);
    }
    if dice.coin() || regions == 0 {
        whole.resize(whole.len() + 512 * dice.roll(9), 0);
        map.push((whole.len() as u64, 0));
    }
    take(&map, whole.len() as u64);
    (stored, whole)
}

/// Writes a map into an old GNU header; the blocks behind it.
fn old_map(header: &mut [u8], map: &[(u64, u64)], size: u64) -> Vec<u8> {
    let pair =
        |(offset, length): &(u64, u64)| format!("{offset:011o}\0{length:011o}\0").into_bytes();
    let (first, rest) = map.split_at(map.len().min(4));
    for (number, region) in first.iter().enumerate() {
        header[386 + 24 * number..410 + 24 * number].copy_from_slice(&pair(region));
    }
    header[482] = u8::from(!rest.is_empty());
    header[483..495].copy_from_slice(format!("{size:011o}\0").as_bytes());
    let mut blocks = Vec::new();
    let chunks: Vec<_> = rest.chunks(21).collect();
    for (number, chunk) in chunks.iter().enumerate() {
        let mut block: Vec<u8> = chunk.iter().flat_map(pair).collect();
        block.resize(BLOCK, 0);
        block[504] = u8::from(number + 1 < chunks.len());
        blocks.extend(block);
    }
    blocks
}

/// Records and data of a sparse file in one of the forms of pax.
fn pax_sparse(dice: &mut Dice, map: &[(u64, u64)], size: u64, data: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    let text = |number: u64| number.to_string().into_bytes();
    let count = text(map.len() as u64);
    match dice.roll(3) {
        0 => {
            let mut records = record("GNU.sparse.size", &text(size));
            records.extend(record("GNU.sparse.numblocks", &count));
            for (offset, length) in map {
                records.extend(record("GNU.sparse.offset", &text(*offset)));
                records.extend(record("GNU.sparse.numbytes", &text(*length)));
            }
            (records, data)
        }
        1 => {
            let numbers = map.iter().flat_map(|(offset, length)| [*offset, *length]);
            let listed = numbers.map(text).collect::<Vec<_>>().join(&b',');
            let mut records = record("GNU.sparse.size", &text(size));
            records.extend(record("GNU.sparse.numblocks", &count));
            records.extend(record("GNU.sparse.map", &listed));
            (records, data)
        }
        _ => {
            let mut records = record("GNU.sparse.major", b"1");
            records.extend(record("GNU.sparse.minor", b"0"));
            records.extend(record("GNU.sparse.realsize", &text(size)));
            let mut all = [&count[..], b"\n"].concat();
            for (offset, length) in map {
                all.extend(format!("{offset}\n{length}\n").into_bytes());
            }
            (records, [padded(all), data].concat())
        }
    }
}

fn run(program: &str, arguments: &[&str], folder: &Path) -> Vec<u8> {
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    output.stdout
}

#[test]
fn archives_are_listed_and_read_as_gnu_tar_and_python_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    let mut ours = Vec::new();
    for seed in 1..=ARCHIVES {
        let made = generate(&mut Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let file = format!("{seed}.tar");
        std::fs::write(folder.path().join(&file), &made.archive).unwrap();
        let entries = read(&made.archive, 1 + usize::try_from(seed).unwrap() * 37)
            .unwrap_or_else(|error| panic!("archive {seed}: {error}"));

        let names = run(
            "tar",
            &["--quoting-style=literal", "-tf", &file],
            folder.path(),
        );
        let names = String::from_utf8(names).unwrap();
        let own: Vec<String> = entries
            .iter()
            .map(|(entry, _)| String::from_utf8(entry.path.clone()).unwrap())
            .collect();
        assert_eq!(own, names.lines().collect::<Vec<_>>(), "archive {seed}");
        let extracted = run("tar", &["-xOf", &file], folder.path());
        assert!(extracted == made.extracted, "archive {seed}: other content");
        ours.push(
            entries
                .iter()
                .map(|(entry, content)| line(entry, content))
                .collect(),
        );
        files.push(file);
    }
    let mut arguments = vec!["-c", PYTHON];
    arguments.extend(files.iter().map(String::as_str));
    let listed = String::from_utf8(run("python3", &arguments, folder.path())).unwrap();
    let theirs: Vec<Vec<&str>> = listed
        .split("end\n")
        .map(|archive| archive.lines().collect())
        .collect();
    assert_eq!(theirs.len(), ours.len() + 1, "python failed");
    for ((file, own), other) in files.iter().zip(&ours).zip(&theirs) {
        let own: &Vec<String> = own;
        assert_eq!(own, other, "{file}");
    }
}

/// An entry whose data are an archive of their own, and one behind it.
fn with_hidden(flag: u8, name: &[u8], before: &[u8]) -> Vec<u8> {
    let mut header = Header::new(&name[..name.len().min(100)], flag, 1024);
    header.is_gnu = !before.is_empty();
    let mut hidden = Header::new(b"hidden", b'0', 5).block();
    hidden.extend(padded(b"abcde".to_vec()));
    let last = Header::new(b"last", b'0', 0).block();
    [before, &header.block(), &hidden, &last, &[0; 1024]].concat()
}

#[test]
fn data_are_never_parsed_as_headers() {
    let folder = tempfile::tempdir().unwrap();
    let name = [&[b'd'; 99][..], b"/file"].concat();
    let long = [
        Header {
            is_gnu: true,
            ..Header::new(b"././@LongLink", b'L', name.len() + 1)
        }
        .block(),
        padded([&name[..], b"\0"].concat()),
    ]
    .concat();
    let mut archives: Vec<Vec<u8>> = (0..=255_u8)
        .filter(|flag| !b"\x00123456SLKxXg".contains(flag))
        .map(|flag| with_hidden(flag, b"one", b""))
        .collect();
    for flag in *b"07Z" {
        archives.push(with_hidden(flag, b"one/", b""));
    }
    for flag in *b"\x000" {
        archives.push(with_hidden(flag, &name, &long));
    }
    for (number, archive) in archives.iter().enumerate() {
        let entries = read(archive, 700).unwrap();
        let names: Vec<&[u8]> = entries.iter().map(|(entry, _)| &entry.path[..]).collect();
        assert_eq!(names.len(), 2, "archive {number}: {names:?}");
        assert_eq!(names[1], b"last");
        let file = folder.path().join("a.tar");
        std::fs::write(&file, archive).unwrap();
        let listed = run("tar", &["-tf", "a.tar"], folder.path());
        assert_eq!(String::from_utf8(listed).unwrap().lines().count(), 2);
    }
    // With readers that disagree the archive is refused.
    let mut refused: Vec<Vec<u8>> = b"2346"
        .iter()
        .map(|flag| with_hidden(*flag, b"one", b""))
        .collect();
    refused.push(with_hidden(0, b"one/", b""));
    for archive in refused {
        assert!(matches!(read(&archive, 700), Err(TarError::Header { .. })));
    }
}
