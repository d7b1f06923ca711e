use std::os::unix::fs::MetadataExt as _;

use rstest::rstest;

use super::*;

fn file() -> FileSink {
    FileSink::new(tempfile::tempfile().unwrap(), None).unwrap()
}

#[rstest]
#[case::file(Box::new(file()))]
#[case::memory(Box::new(MemorySink::new(None)))]
fn unwritten_ranges_are_zeros_and_the_tail_is_cut(#[case] mut sink: Box<dyn Sink>) {
    sink.write_at(0, b"from before").unwrap();
    sink.prepare(10_000).unwrap();
    sink.write_at(5_000, b"disk").unwrap();
    sink.write_at(1 << 30, b"parked").unwrap();
    let mut parked = [0xff; 8];
    sink.read_at((1 << 30) - 1, &mut parked).unwrap();
    assert_eq!(&parked, b"\0parked\0");

    sink.finish(10_000).unwrap();
    let mut all = vec![0xff; 12_000];
    sink.read_at(0, &mut all).unwrap();
    let mut expected = vec![0; 12_000];
    expected[5_000..5_004].copy_from_slice(b"disk");
    assert_eq!(all, expected);
}

#[rstest]
#[case::file(Box::new(file()))]
#[case::memory(Box::new(MemorySink::new(None)))]
fn zeroed_ranges_need_no_alignment(#[case] mut sink: Box<dyn Sink>) {
    sink.prepare(20_000).unwrap();
    sink.write_at(0, &vec![7; 20_000]).unwrap();
    sink.zero(1_001, 15_002).unwrap();
    sink.finish(20_000).unwrap();
    let mut all = vec![0; 20_000];
    sink.read_at(0, &mut all).unwrap();
    let mut expected = vec![7; 20_000];
    expected[1_001..16_003].fill(0);
    assert_eq!(all, expected);
}

#[test]
fn files_are_sparse_and_have_the_exact_size() {
    let mut sink = file();
    sink.prepare(1 << 30).unwrap();
    sink.write_at(512 << 20, &[1; 4096]).unwrap();
    sink.finish(1 << 30).unwrap();
    let about = sink.into_inner().metadata().unwrap();
    assert_eq!(about.len(), 1 << 30);
    assert!(about.blocks() * 512 < 1 << 20, "{}", about.blocks());
}

#[test]
fn device_rejects_writes_beyond_its_end() {
    let mut sink = MemorySink::device(4096);
    assert_eq!(sink.capacity(), Some(4096));
    assert!(!sink.has_tail());
    assert!(sink.write_at(4090, &[1; 7]).is_err());
    assert!(sink.write_at(4090, &[1; 6]).is_ok());
}
