use std::io::Write as _;

use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(data).unwrap();
    out.finish().unwrap()
}

fn zstandard(data: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(data, 1).unwrap()
}

fn xz(data: &[u8]) -> Vec<u8> {
    let mut out = liblzma::write::XzEncoder::new(Vec::new(), 1);
    out.write_all(data).unwrap();
    out.finish().unwrap()
}

type Unpacked = (Vec<u8>, Vec<(u64, u64)>);

/// Unpacks input that comes in pieces; gives what came out, and where boundaries were.
fn unpack(input: &[u8], piece: usize, limits: Limits) -> Result<Unpacked, Error> {
    let mut unpacker = Unpacker::new(limits);
    let mut all = Vec::new();
    let mut boundaries = Vec::new();
    for mut part in input.chunks(piece.max(1)) {
        while !part.is_empty() {
            let step = unpacker.feed(&mut part, &mut |data: &[u8]| {
                all.extend_from_slice(data);
                Ok(())
            })?;
            if step == UnpackStep::Boundary {
                boundaries.push((unpacker.packed(), unpacker.unpacked()));
            }
        }
    }
    unpacker.end(&mut |data: &[u8]| {
        all.extend_from_slice(data);
        Ok(())
    })?;
    Ok((all, boundaries))
}

#[rstest]
#[case::gzip(Packing::Gzip, gzip as fn(&[u8]) -> Vec<u8>)]
#[case::zstd(Packing::Zstd, zstandard)]
#[case::xz(Packing::Xz, xz)]
#[case::plain(Packing::Plain, <[u8]>::to_vec)]
fn packing_is_detected_from_magic_bytes(
    #[case] packing: Packing,
    #[case] pack: fn(&[u8]) -> Vec<u8>,
    #[values(1, 3, 7, 4096, 1 << 20)] piece: usize,
    #[values(0, 1, 5, 100, 700_000)] size: usize,
) {
    let data: Vec<u8> = (0..size)
        .map(|n| u8::try_from(n * n % 251).unwrap())
        .collect();
    let packed = pack(&data);
    if size > 6 {
        assert_eq!(Packing::of(&packed), packing);
    }
    let (all, _) = unpack(&packed, piece, Limits::default()).unwrap();
    assert!(all == data);
}

#[rstest]
#[case::gzip(gzip as fn(&[u8]) -> Vec<u8>)]
#[case::zstd(zstandard)]
fn boundaries_of_members_and_frames_are_reported(
    #[case] pack: fn(&[u8]) -> Vec<u8>,
    #[values(1, 1000, 1 << 20)] piece: usize,
) {
    let (first, second) = (vec![1; 400_000], vec![2; 10]);
    let packed = [pack(&first), pack(&second)].concat();
    let (all, boundaries) = unpack(&packed, piece, Limits::default()).unwrap();
    assert!(all == [first.clone(), second].concat());
    assert_eq!(
        boundaries,
        [
            (pack(&first).len() as u64, 400_000),
            (packed.len() as u64, 400_010)
        ]
    );

    // Another decoder resumes there.
    let (at, out) = boundaries[0];
    let mut rest = &packed[usize::try_from(at).unwrap()..];
    let mut unpacker = Unpacker::resume(
        Limits::default(),
        &Windows::default(),
        Packing::of(&packed),
        at,
        out,
    )
    .unwrap();
    let mut all = Vec::new();
    unpacker
        .feed(&mut rest, &mut |data: &[u8]| {
            all.extend_from_slice(data);
            Ok(())
        })
        .unwrap();
    unpacker.end(&mut |_: &[u8]| Ok(())).unwrap();
    assert_eq!(all, [2; 10]);
    assert_eq!(unpacker.unpacked(), 400_010);
}

#[test]
fn only_zero_padding_may_follow_gzip() {
    let packed = [gzip(b"disk"), vec![0; 700]].concat();
    assert_eq!(unpack(&packed, 100, Limits::default()).unwrap().0, b"disk");
    let packed = [gzip(b"disk"), vec![7; 700]].concat();
    assert!(matches!(
        unpack(&packed, 100, Limits::default()),
        Err(Error::Unpack(UnpackError::Broken {
            packing: Packing::Gzip,
            ..
        }))
    ));
}

#[rstest]
#[case::gzip(gzip as fn(&[u8]) -> Vec<u8>)]
#[case::zstd(zstandard)]
#[case::xz(xz)]
fn a_cut_is_noticed_wherever_it_is(#[case] pack: fn(&[u8]) -> Vec<u8>) {
    let packed = pack(&vec![3; 100_000]);
    for length in 7..packed.len() {
        assert!(
            unpack(&packed[..length], 64, Limits::default()).is_err(),
            "{length}"
        );
    }
}

#[rstest]
#[case::absolute(Limits { unpacked: 999_999, ..Limits::default() }, Some(999_999))]
#[case::ratio(Limits { ratio: 10, free: 1_000, ..Limits::default() }, None)]
fn decompression_bombs_are_stopped(#[case] limits: Limits, #[case] expected: Option<u64>) {
    let packed = gzip(&vec![0; 1_000_000]);
    let Err(Error::Unpack(UnpackError::Bomb {
        limit, unpacked, ..
    })) = unpack(&packed, 4096, limits)
    else {
        panic!("the bomb went off");
    };
    assert!(unpacked <= limit + CHUNK as u64);
    if let Some(expected) = expected {
        assert_eq!(limit, expected);
    }
    assert!(unpack(&packed, 4096, Limits::default()).is_ok());
}

#[test]
fn window_above_the_limit_is_rejected() {
    let mut out = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    out.window_log(25).unwrap();
    out.write_all(&vec![9; 40 << 20]).unwrap();
    let packed = out.finish().unwrap();
    assert!(unpack(&packed, 1 << 20, Limits::default()).is_ok());
    let limits = Limits {
        window_log: 24,
        ..Limits::default()
    };
    assert!(matches!(
        unpack(&packed, 1 << 20, limits),
        Err(Error::Unpack(UnpackError::Window { limit, .. })) if limit == 1 << 24
    ));
}

/// What `xz -9` and `zstd --long` make needs more memory than an importer may take.
#[test]
fn window_of_64_mib_is_refused() {
    let mut options = liblzma::stream::LzmaOptions::new_preset(9).unwrap();
    options.dict_size(64 << 20);
    let mut filters = liblzma::stream::Filters::new();
    filters.lzma2(&options);
    let encoder =
        liblzma::stream::Stream::new_stream_encoder(&filters, liblzma::stream::Check::Crc32)
            .unwrap();
    let mut xz = liblzma::write::XzEncoder::new_stream(Vec::new(), encoder);
    xz.write_all(&[9; 1000]).unwrap();
    let mut zstd = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    zstd.window_log(26).unwrap();
    zstd.long_distance_matching(true).unwrap();
    zstd.write_all(&[9; 1000]).unwrap();
    for packed in [xz.finish().unwrap(), zstd.finish().unwrap()] {
        let refused = unpack(&packed, 100, Limits::default());
        assert!(
            matches!(
                refused,
                Err(Error::Unpack(UnpackError::Window { limit, .. })) if limit == 1 << 25
            ),
            "{refused:?}"
        );
    }
}

#[test]
fn inner_streams_share_the_memory_of_the_outer_one() {
    let windows = Windows::default();
    let outer = windows.open(25);
    let (inner, innermost) = (windows.open(25), windows.open(25));
    assert_eq!([outer.log, inner.log, innermost.log], [25, 23, 20]);
    drop((inner, innermost));
    drop(outer);
    assert_eq!(windows.open(25).log, 25);
}

#[rstest]
#[case("application/vnd.oci.image.layer.v1.tar+gzip", Some(Packing::Gzip))]
#[case("application/vnd.oci.image.layer.v1.tar+zstd", Some(Packing::Zstd))]
#[case("application/vnd.oci.image.layer.v1.tar", Some(Packing::Plain))]
#[case(
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    Some(Packing::Gzip)
)]
#[case("application/vnd.kubevirt.disk.raw+zstd", Some(Packing::Zstd))]
#[case("application/octet-stream", None)]
fn media_types_promise(#[case] media_type: &str, #[case] expected: Option<Packing>) {
    assert_eq!(Packing::of_media_type(media_type), expected);
}

proptest! {
    #[test]
    fn mutated_streams_never_panic(
        kind in 0_u8..3,
        at: prop::sample::Index,
        byte: u8,
        piece in 1_usize..500,
    ) {
        let data: Vec<u8> = (0..5_000_u32).map(|n| (n % 97) as u8).collect();
        let mut packed = match kind { 0 => gzip(&data), 1 => zstandard(&data), _ => xz(&data) };
        let at = at.index(packed.len());
        packed[at] = byte;
        let limits = Limits { unpacked: 1 << 20, ..Limits::default() };
        if let Ok((all, _)) = unpack(&packed, piece, limits) {
            prop_assert!(all.len() <= 1 << 20);
        }
    }
}
