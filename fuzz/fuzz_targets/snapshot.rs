//! See `cri::fuzz::snapshot`.
#![no_main]

libfuzzer_sys::fuzz_target!(init: fuzz::seeds::write("snapshot"), |data: &[u8]| cri::fuzz::snapshot(data));
